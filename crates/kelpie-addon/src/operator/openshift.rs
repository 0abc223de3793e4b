//! Detects OpenShift by the version of the cluster, which only OpenShift has.

use kelpie_kube::client::ApiError;
use kelpie_kube::objects::ObjectKind;
use serde_json::Value;
use tracing::warn;

use super::problem::Problem;
use crate::confirmed_read::ConfirmedReader;

pub(crate) const CLUSTER_VERSION: ObjectKind = ObjectKind::new(
    "config.openshift.io",
    "v1",
    "ClusterVersion",
    "clusterversions",
);
/// The name of the only object of this kind.
pub(crate) const CLUSTER_VERSION_NAME: &str = "version";

/// The facts known about OpenShift. They are kept: a cluster does not turn into one of another
/// platform, and a read that fails must not roll the collectors.
#[derive(Debug, Default)]
pub(super) struct OpenShift {
    /// The ID of the cluster.
    id: Option<String>,
    /// A read was denied, which was logged.
    is_denied: bool,
}

impl OpenShift {
    /// Reads the ID of an OpenShift cluster. `None` means another platform.
    pub(super) async fn read(
        &mut self,
        reader: &ConfirmedReader,
    ) -> Result<Option<String>, Problem> {
        let path = CLUSTER_VERSION.named("", CLUSTER_VERSION_NAME);
        match reader.read(&path).await {
            Ok(found) => self.id = found.as_ref().and_then(id).or_else(|| self.id.take()),
            // The permission may be missing on other platforms.
            Err(error) if matches!(error.cause, ApiError::Forbidden(_)) => {
                if !std::mem::replace(&mut self.is_denied, true) {
                    warn!("{error}; OpenShift is not detected without it");
                }
            }
            Err(error) if self.id.is_none() => return Err(error.into()),
            Err(_) => {}
        }
        Ok(self.id.clone())
    }
}

fn id(version: &Value) -> Option<String> {
    let id = version["spec"]["clusterID"].as_str()?;
    (!id.is_empty()).then(|| id.to_owned())
}
