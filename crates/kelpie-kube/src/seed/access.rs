//! What we may do on the seed, as its API server says.

use std::fmt;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::quiet;

/// A verb on a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permission {
    /// Such as `list`.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Resource in the plural, such as `deployments`.
    pub resource: String,
    /// Such as `scale`.
    pub subresource: Option<String>,
    /// `None`: in all namespaces, or for a resource of the whole cluster.
    pub namespace: Option<String>,
    /// Only for the object of this name.
    pub name: Option<String>,
}

/// Whether something may be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It may.
    Allowed,
    /// It may not; the reason may be empty.
    Denied {
        /// What the API server said.
        reason: String,
    },
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " named {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

pub(super) async fn ask(client: &Client, question: &Permission) -> Result<Answer, kube::Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(question.verb.clone()),
                group: Some(question.group.clone()),
                resource: Some(question.resource.clone()),
                subresource: question.subresource.clone(),
                namespace: question.namespace.clone(),
                name: question.name.clone(),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = quiet::call(api.create(&PostParams::default(), &review)).await?;
    let status = review.status.unwrap_or_default();
    Ok(if status.allowed {
        Answer::Allowed
    } else {
        Answer::Denied {
            reason: status
                .reason
                .or(status.evaluation_error)
                .unwrap_or_default(),
        }
    })
}
