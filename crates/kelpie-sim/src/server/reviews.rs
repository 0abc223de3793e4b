//! Rights, and questions about them.

use serde_json::{Value, json};

use super::answer::Answer;
use super::call::MASTERS;
use super::objects::decoded;
use super::{Asked, Call, Server};
use crate::clock;
use crate::refusal::{Reason, Refusal};
use crate::resource::Resource;
use crate::wire;

/// What every API server tells everybody.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// What it tells everybody it knows: where things are, and what they may do.
const BASIC: [&str; 4] = ["/api", "/apis", "/openapi", "/version"];

/// What may be done where nobody has said anything else.
pub(super) fn by_default(call: &Call) -> bool {
    let is_known = !call
        .user
        .groups
        .iter()
        .any(|group| group == "system:unauthenticated");
    let begins = |path: &&str| {
        let rest = call.path.strip_prefix(*path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_review = ["authorization", "authentication"].iter().any(|group| {
        let path = format!("/apis/{group}.k8s.io/v1/selfsubject");
        call.path.starts_with(&path)
    });
    let is_basic = call.resource.is_none() && call.verb == "get" && BASIC.iter().any(begins);
    call.user.groups.iter().any(|group| group == MASTERS)
        || call.verb == "get" && PUBLIC.iter().any(begins)
        || is_known && (is_review || is_basic)
}

/// The refusal of who may not do it, in the words of the API.
pub(super) fn forbidden(call: &Call) -> Refusal {
    let user = &call.user.name;
    let Some(resource) = &call.resource else {
        let message = format!(
            "forbidden: User \"{user}\" cannot {} path \"{}\"",
            call.verb, call.path
        );
        let mut refusal = Refusal::new(Reason::Forbidden, message);
        refusal.details = Some(serde_json::Map::new());
        return refusal;
    };
    let what = match call.subresource.as_str() {
        "" => resource.plural().to_owned(),
        subresource => format!("{}/{subresource}", resource.plural()),
    };
    let named = match call.name.as_str() {
        "" => String::new(),
        name => format!(" \"{name}\""),
    };
    let place = match call.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let message = format!(
        "{resource}{named} is forbidden: User \"{user}\" cannot {} resource \"{what}\" in API group \
         \"{}\" {place}",
        call.verb,
        resource.group()
    );
    Refusal::about(Reason::Forbidden, message, resource, &call.name)
}

impl Server {
    pub(super) fn review(&self, asked: &Asked<'_>, plural: &str) -> Result<Answer, Refusal> {
        let review = decoded(asked, wire::review(plural))?;
        match plural {
            "selfsubjectreviews" => Ok(who(asked)),
            "selfsubjectaccessreviews" => Ok(self.access_review(asked, review)),
            "selfsubjectrulesreviews" => Ok(self.rules_review(asked, review)),
            _ => Ok(super::other(&asked.call.path)),
        }
    }

    fn access_review(&self, asked: &Asked<'_>, mut review: Value) -> Answer {
        let call = asked_about(asked.call, &review["spec"]);
        let is_allowed = self.may(&call);
        review["kind"] = "SelfSubjectAccessReview".into();
        review["apiVersion"] = "authorization.k8s.io/v1".into();
        if !review["metadata"].is_object() {
            review["metadata"] = json!({});
        }
        review["metadata"]["creationTimestamp"] = Value::Null;
        review["status"] = json!({ "allowed": is_allowed });
        Answer::json(201, &review)
    }

    fn rules_review(&self, asked: &Asked<'_>, mut review: Value) -> Answer {
        let all = json!({ "resourceAttributes": { "verb": "*", "group": "*", "resource": "*" } });
        let may_all = self.may(&asked_about(asked.call, &all));
        let rules = if may_all {
            json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }])
        } else {
            json!([{
                "verbs": ["create"],
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            }])
        };
        review["kind"] = "SelfSubjectRulesReview".into();
        review["apiVersion"] = "authorization.k8s.io/v1".into();
        review["metadata"] = json!({ "creationTimestamp": null });
        review["status"] = json!({
            "resourceRules": rules,
            "nonResourceRules": [],
            "incomplete": false,
        });
        Answer::json(201, &review)
    }
}

/// Who asks.
fn who(asked: &Asked<'_>) -> Answer {
    let user = &asked.call.user;
    let review = json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": { "creationTimestamp": clock::seconds(asked.call.at) },
        "status": { "userInfo": { "username": user.name, "groups": user.groups } },
    });
    Answer::json(201, &review)
}

/// The call that a question is about.
fn asked_about(asking: &Call, spec: &Value) -> Call {
    let (objects, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let verbs = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let said = text(if objects.is_null() {
        &other["verb"]
    } else {
        &objects["verb"]
    });
    let mut call = Call {
        verb: verbs.into_iter().find(|verb| *verb == said).unwrap_or("*"),
        resource: None,
        subresource: text(&objects["subresource"]),
        namespace: text(&objects["namespace"]),
        name: text(&objects["name"]),
        path: text(&other["path"]),
        ..asking.clone()
    };
    if !objects.is_null() {
        call.resource = Some(Resource::new(
            &text(&objects["group"]),
            &text(&objects["resource"]),
        ));
    }
    call
}
