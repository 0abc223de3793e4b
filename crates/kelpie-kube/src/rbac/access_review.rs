//! Access reviews: the permissions of this client, according to the API server.

use std::fmt;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

/// A verb on a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permission {
    /// A verb, such as `list`.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource in the plural, such as `deployments`.
    pub resource: String,
    /// The subresource, such as `scale`.
    pub subresource: Option<String>,
    /// The namespace. `None`: all namespaces, or a cluster-scoped resource.
    pub namespace: Option<String>,
    /// The name of the only object that is meant. `None`: all objects.
    pub name: Option<String>,
}

/// The result of an access review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessReview {
    /// The client has the permission.
    Allowed,
    /// The client does not have the permission.
    Denied {
        /// The API server's explanation, which may be empty.
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

/// Creates a `SelfSubjectAccessReview` for one permission.
pub(crate) async fn review_access(
    client: &Client,
    permission: &Permission,
) -> Result<AccessReview, kube::Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(permission.verb.clone()),
                group: Some(permission.group.clone()),
                resource: Some(permission.resource.clone()),
                subresource: permission.subresource.clone(),
                namespace: permission.namespace.clone(),
                name: permission.name.clone(),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &review).await?;
    let status = review.status.unwrap_or_default();
    Ok(if status.allowed {
        AccessReview::Allowed
    } else {
        AccessReview::Denied {
            reason: status
                .reason
                .or(status.evaluation_error)
                .unwrap_or_default(),
        }
    })
}
