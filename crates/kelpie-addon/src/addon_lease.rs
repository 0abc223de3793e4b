//! The Lease by which the registration agent on the spoke sees that the addon is alive.
//!
//! A `ManagedClusterAddOn` whose health check is in lease mode is Available only while a Lease with
//! its name is renewed in the namespace of the addon. The agent allows five times the duration.

use std::time::Duration;

use kelpie_kube::objects::{ObjectClient, ObjectKind};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};

use crate::addon::AddonRef;
use crate::context::LeadershipWatch;
use crate::hub_status::MANAGED_ADDON_NAME;
use crate::owned::FIELD_MANAGER;

pub(crate) const LEASE: ObjectKind =
    ObjectKind::new("coordination.k8s.io", "v1", "Lease", "leases");
/// The Lease has the name of the `ManagedClusterAddOn`.
pub(crate) const ADDON_LEASE: &str = MANAGED_ADDON_NAME;
/// The Lease is renewed at this interval, which is also its duration.
const RENEW_INTERVAL: Duration = Duration::from_mins(1);

/// Renews the Lease of the addon, while this replica is the leader.
pub(crate) struct AddonLease {
    pub(crate) objects: ObjectClient,
    pub(crate) addon: AddonRef,
    pub(crate) leadership: LeadershipWatch,
}

impl AddonLease {
    pub(crate) async fn run(&self) {
        let mut renewal = interval(RENEW_INTERVAL);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leadership = self.leadership.clone();
        let mut is_failing = false;
        loop {
            tokio::select! {
                _ = renewal.tick() => {}
                // A new leader renews at once.
                () = leadership.changed() => {}
            }
            if !leadership.may_act() {
                continue;
            }
            let renewed = self.renew().await;
            match &renewed {
                Ok(()) => {}
                Err(error) if is_failing => debug!("{error}"),
                Err(error) => warn!("{error}; a ManagedClusterAddOn in lease mode expires"),
            }
            is_failing = renewed.is_err();
        }
    }

    async fn renew(&self) -> Result<(), kelpie_kube::objects::ObjectError> {
        let lease = json!({
            "apiVersion": LEASE.api_version(),
            "kind": LEASE.kind,
            "metadata": { "name": ADDON_LEASE },
            "spec": {
                "leaseDurationSeconds": RENEW_INTERVAL.as_secs(),
                "renewTime": self.objects.now().to_string(),
            },
        });
        let path = LEASE.named(&self.addon.namespace, ADDON_LEASE);
        self.objects.apply(&path, &lease, FIELD_MANAGER).await?;
        Ok(())
    }
}
