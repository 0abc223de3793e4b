//! The guard's calls to a watched cluster.
//!
//! [`GuardClient`] performs the calls that [`kelpie_core::prober::guard::NodeGuard`] asks for.
//! The enforced content is asked for by a dry run on a Lease, which the policy denies with a
//! message.

mod objects;
mod view;

use http::Method;
use kelpie_core::Time;
use kelpie_core::prober::fence::ResourceVersion;
use kelpie_core::prober::guard::{GUARD_NAME, GuardCall, GuardReply, GuardState, read_mark};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::shortened;
use crate::rbac::{PolicyRule, access_review};
use crate::tenant::{ObjectAnswer, Tenant, TenantError};
use objects::{binding_object, policy_object, read_binding, read_policy};
pub use view::GuardView;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// The guard's calls to one cluster.
#[derive(Clone, Copy, Debug)]
pub struct GuardClient<'a> {
    tenant: &'a Tenant,
    /// The identity of this watchdog.
    owner: &'a str,
}

/// A reply, with the API server's clock where the answer tells it.
#[derive(Debug)]
pub struct GuardResponse {
    /// The reply to the call.
    pub reply: GuardReply,
    /// The API server's clock.
    pub date: Option<Time>,
    /// The reason why the call has no answer, for people.
    pub problem: Option<String>,
}

impl<'a> GuardClient<'a> {
    /// Creates a client. `owner` is the identity of this watchdog, which its replicas share.
    pub fn new(tenant: &'a Tenant, owner: &'a str) -> Self {
        Self { tenant, owner }
    }

    /// Performs a call. Ends before `deadline`.
    pub async fn perform(&self, call: &GuardCall, deadline: Instant) -> GuardResponse {
        match self.answer(call, deadline).await {
            Ok(answer) => {
                let reply = reply(call, &answer);
                let is_failure = reply == GuardReply::Failed;
                GuardResponse {
                    problem: is_failure.then(|| rejection(&answer)),
                    reply,
                    date: answer.date,
                }
            }
            Err(error) => GuardResponse {
                reply: match error {
                    TenantError::Denied { .. } => GuardReply::Refused,
                    _ => GuardReply::Failed,
                },
                date: None,
                problem: Some(error.to_string()),
            },
        }
    }

    async fn answer(
        &self,
        call: &GuardCall,
        deadline: Instant,
    ) -> Result<ObjectAnswer, TenantError> {
        match call {
            GuardCall::ReadPolicy => self.read(POLICIES, deadline).await,
            GuardCall::ReadBinding => self.read(BINDINGS, deadline).await,
            GuardCall::WritePolicy { content, replaces } => {
                let replaces = replaces.as_ref().map(ResourceVersion::as_str);
                let policy = policy_object(self.owner, content, replaces);
                self.write(POLICIES, &policy, deadline).await
            }
            GuardCall::WriteBinding { replaces } => {
                let replaces = replaces.as_ref().map(ResourceVersion::as_str);
                let binding = binding_object(self.owner, replaces);
                self.write(BINDINGS, &binding, deadline).await
            }
            GuardCall::AskEnforced => self.ask_enforced(deadline).await,
            GuardCall::Remove => {
                let binding = self.delete(BINDINGS, deadline).await?;
                let policy = self.delete(POLICIES, deadline).await?;
                let is_binding_gone = matches!(binding.status, 200..=299 | 404);
                Ok(if is_binding_gone { policy } else { binding })
            }
        }
    }

    async fn read(&self, path: &str, deadline: Instant) -> Result<ObjectAnswer, TenantError> {
        let path = format!("{path}/{GUARD_NAME}");
        self.tenant
            .object(&Method::GET, &path, None, deadline)
            .await
    }

    /// Replaces an object, or creates it if it carries no version.
    async fn write(
        &self,
        path: &str,
        object: &Value,
        deadline: Instant,
    ) -> Result<ObjectAnswer, TenantError> {
        if object["metadata"]["resourceVersion"].is_null() {
            let tenant = self.tenant;
            return tenant
                .object(&Method::POST, path, Some(object), deadline)
                .await;
        }
        let path = format!("{path}/{GUARD_NAME}");
        self.tenant
            .object(&Method::PUT, &path, Some(object), deadline)
            .await
    }

    async fn delete(&self, path: &str, deadline: Instant) -> Result<ObjectAnswer, TenantError> {
        let path = format!("{path}/{GUARD_NAME}");
        self.tenant
            .object(&Method::DELETE, &path, None, deadline)
            .await
    }

    /// Returns those of the permissions, one for each verb, that the credentials do not have. Ends
    /// before `deadline`.
    pub async fn denied(
        &self,
        rules: &[PolicyRule],
        deadline: Instant,
    ) -> Result<Vec<PolicyRule>, TenantError> {
        let mut denied = Vec::new();
        for rule in rules.iter().flat_map(PolicyRule::for_each_verb) {
            let review = json!(access_review(&rule));
            let tenant = self.tenant;
            let answer = tenant
                .object(&Method::POST, REVIEWS, Some(&review), deadline)
                .await?;
            if answer.object["status"]["allowed"] != true {
                denied.push(rule);
            }
        }
        Ok(denied)
    }

    /// Reads the guard, and asks what is enforced. Writes nothing. Ends before `deadline`. The
    /// error is for people.
    pub async fn view(&self, deadline: Instant) -> Result<GuardView, String> {
        let policy = self.perform(&GuardCall::ReadPolicy, deadline).await;
        let server_time = policy.date;
        let GuardReply::Policy(Some(policy)) = policy.readable()? else {
            return Ok(GuardView::default());
        };
        let binding = self.perform(&GuardCall::ReadBinding, deadline).await;
        let is_bound = match binding.readable()? {
            GuardReply::Binding(Some(binding)) => binding.is_intact,
            _ => false,
        };
        let patched = self.patch_lease(deadline).await;
        let answer = patched.map_err(|error| error.to_string())?;
        let enforced = match reply(&GuardCall::AskEnforced, &answer) {
            GuardReply::Enforced(mark) => mark,
            // The Lease does not exist yet, or the credentials do not suffice.
            _ => None,
        };
        Ok(GuardView {
            policy: Some(policy),
            is_bound,
            enforced,
            server_time,
        })
    }

    /// Patches the Lease in a dry run, which the policy denies.
    async fn patch_lease(&self, deadline: Instant) -> Result<ObjectAnswer, TenantError> {
        let path = format!("{LEASES}/{GUARD_NAME}?dryRun=All");
        let patch = json!({});
        self.tenant
            .object(&Method::PATCH, &path, Some(&patch), deadline)
            .await
    }

    /// Patches the Lease in a dry run. It is created if it does not exist.
    async fn ask_enforced(&self, deadline: Instant) -> Result<ObjectAnswer, TenantError> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": GUARD_NAME, "namespace": "kube-system" },
        });
        let answer = self.patch_lease(deadline).await?;
        if answer.status != 404 {
            return Ok(answer);
        }
        let tenant = self.tenant;
        let created = tenant
            .object(&Method::POST, LEASES, Some(&lease), deadline)
            .await?;
        if !matches!(created.status, 200..=299 | 409) {
            return Ok(created);
        }
        self.patch_lease(deadline).await
    }
}

impl GuardResponse {
    /// Returns the reply to a read, or the reason why there is none.
    fn readable(self) -> Result<GuardReply, String> {
        match (self.reply, self.problem) {
            (GuardReply::Unsupported, _) => Err(GuardState::Unsupported.to_string()),
            (GuardReply::Refused, None) => Err(GuardState::Refused.to_string()),
            (GuardReply::Refused | GuardReply::Failed, Some(problem)) => Err(problem),
            (reply, _) => Ok(reply),
        }
    }
}

fn reply(call: &GuardCall, answer: &ObjectAnswer) -> GuardReply {
    let object = &answer.object;
    let is_written = matches!(answer.status, 200..=299);
    let version = object["metadata"]["resourceVersion"].as_str();
    match (call, answer.status) {
        (GuardCall::ReadPolicy, 404) if !names_object(answer) => GuardReply::Unsupported,
        (GuardCall::ReadPolicy, 404) => GuardReply::Policy(None),
        (GuardCall::ReadBinding, 404) => GuardReply::Binding(None),
        (GuardCall::ReadPolicy, _) if is_written => {
            let policy = read_policy(object);
            policy.map_or(GuardReply::Failed, |policy| {
                GuardReply::Policy(Some(policy))
            })
        }
        (GuardCall::ReadBinding, _) if is_written => {
            let binding = read_binding(object);
            binding.map_or(GuardReply::Failed, |it| GuardReply::Binding(Some(it)))
        }
        (GuardCall::WritePolicy { .. } | GuardCall::WriteBinding { .. }, 404 | 409) => {
            GuardReply::Conflict
        }
        (GuardCall::WritePolicy { .. } | GuardCall::WriteBinding { .. }, _) if is_written => {
            let version = version.map(ResourceVersion::new);
            version.map_or(GuardReply::Failed, GuardReply::Written)
        }
        (GuardCall::AskEnforced, 422) => {
            GuardReply::Enforced(object["message"].as_str().and_then(read_mark))
        }
        (GuardCall::AskEnforced, _) if is_written => GuardReply::Enforced(None),
        (GuardCall::Remove, 404) => GuardReply::Removed,
        (GuardCall::Remove, _) if is_written => GuardReply::Removed,
        _ => GuardReply::Failed,
    }
}

/// Describes an answer that is neither a success nor expected.
fn rejection(answer: &ObjectAnswer) -> String {
    let message = answer.object["message"].as_str().unwrap_or_default();
    format!("status {}: {}", answer.status, shortened(message))
}

/// Returns whether a 404 is about the object. Otherwise the API server does not know its kind.
fn names_object(answer: &ObjectAnswer) -> bool {
    answer.object["details"]["name"] == GUARD_NAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_write_has_a_reason() {
        let answer = ObjectAnswer {
            status: 422,
            object: json!({ "message": "spec.validations: Invalid value" }),
            date: None,
        };
        let call = GuardCall::WriteBinding { replaces: None };
        assert_eq!(reply(&call, &answer), GuardReply::Failed);
        assert_eq!(
            rejection(&answer),
            "status 422: spec.validations: Invalid value"
        );
    }
}
