//! Authorization, and access reviews.

use serde_json::{Value, json};

use super::objects::decode_body;
use super::request::MASTERS;
use super::response::ServerResponse;
use super::{RequestInfo, ServerRequest, ServerResult, SimServer};
use crate::clock;
use crate::kind::VERBS;
use crate::resource::GroupResource;
use crate::status_error::{StatusError, StatusReason};
use crate::wire;

/// The paths that are open to all clients.
const PUBLIC_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// The paths that are open to authenticated users: discovery and `OpenAPI`.
const DISCOVERY_PATHS: [&str; 4] = ["/api", "/apis", "/openapi", "/version"];

/// Returns whether a request is allowed when no authorizer is set.
pub(super) fn default_authorizer(info: &RequestInfo) -> bool {
    let is_member = |group: &str| info.user.groups.iter().any(|own| own == group);
    let is_authenticated = !is_member("system:unauthenticated");
    let is_under = |prefix: &&str| {
        let rest = info.path.strip_prefix(*prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_review = ["authorization", "authentication"].iter().any(|group| {
        let path = format!("/apis/{group}.k8s.io/v1/selfsubject");
        info.path.starts_with(&path)
    });
    let is_basic =
        info.resource.is_none() && info.verb == "get" && DISCOVERY_PATHS.iter().any(is_under);
    is_member(MASTERS)
        || info.verb == "get" && PUBLIC_PATHS.iter().any(is_under)
        || is_authenticated && (is_review || is_basic)
}

/// Returns the error of a forbidden request.
pub(super) fn forbidden(info: &RequestInfo) -> StatusError {
    let user = &info.user.name;
    let Some(resource) = &info.resource else {
        let message = format!(
            "forbidden: User \"{user}\" cannot {} path \"{}\"",
            info.verb, info.path
        );
        return StatusError::with_details(StatusReason::Forbidden, message, &json!({}));
    };
    let resource_name = match info.subresource.as_str() {
        "" => resource.plural().to_owned(),
        subresource => format!("{}/{subresource}", resource.plural()),
    };
    let named = match info.name.as_str() {
        "" => String::new(),
        name => format!(" \"{name}\""),
    };
    let scope = match info.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let message = format!(
        "{resource}{named} is forbidden: User \"{user}\" cannot {} resource \"{resource_name}\" \
         in API group \"{}\" {scope}",
        info.verb,
        resource.group()
    );
    StatusError::for_object(StatusReason::Forbidden, message, resource, &info.name)
}

impl SimServer {
    pub(super) fn review(&self, request: &ServerRequest, plural: &str) -> ServerResult {
        let review = decode_body(request, wire::review_fields(plural))?;
        match plural {
            "selfsubjectreviews" => Ok(self_subject_review(request)),
            "selfsubjectaccessreviews" => Ok(self.access_review(request, review)),
            "selfsubjectrulesreviews" => Ok(self.rules_review(request, review)),
            _ => Ok(super::non_resource(&request.info.path)),
        }
    }

    fn access_review(&self, request: &ServerRequest, mut review: Value) -> ServerResponse {
        let info = reviewed_request(&request.info, &review["spec"]);
        let is_allowed = self.is_allowed(&info);
        review["kind"] = "SelfSubjectAccessReview".into();
        review["apiVersion"] = "authorization.k8s.io/v1".into();
        if !review["metadata"].is_object() {
            review["metadata"] = json!({});
        }
        review["metadata"]["creationTimestamp"] = Value::Null;
        review["status"] = json!({ "allowed": is_allowed });
        ServerResponse::json(201, &review)
    }

    fn rules_review(&self, request: &ServerRequest, mut review: Value) -> ServerResponse {
        let all = json!({ "resourceAttributes": { "verb": "*", "group": "*", "resource": "*" } });
        let is_admin = self.is_allowed(&reviewed_request(&request.info, &all));
        let rules = if is_admin {
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
        ServerResponse::json(201, &review)
    }
}

/// Answers a `SelfSubjectReview` with the name and groups of the user.
fn self_subject_review(request: &ServerRequest) -> ServerResponse {
    let user = &request.info.user;
    let review = json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": { "creationTimestamp": clock::rfc3339(request.info.received_at) },
        "status": { "userInfo": { "username": user.name, "groups": user.groups } },
    });
    ServerResponse::json(201, &review)
}

/// Returns the request that an access review asks about.
fn reviewed_request(requester: &RequestInfo, spec: &Value) -> RequestInfo {
    let (objects, non_resource) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = || GroupResource::new(&text(&objects["group"]), &text(&objects["resource"]));
    let attributes = if objects.is_null() {
        non_resource
    } else {
        objects
    };
    let verb = VERBS.into_iter().find(|known| attributes["verb"] == *known);
    RequestInfo {
        verb: verb.unwrap_or("*"),
        resource: (!objects.is_null()).then(resource),
        subresource: text(&objects["subresource"]),
        namespace: text(&objects["namespace"]),
        name: text(&objects["name"]),
        path: text(&non_resource["path"]),
        ..requester.clone()
    }
}
