//! Checks of the guard: its permissions in each cluster, and whether it is armed.

use kelpie_config::ProberConfig;
use kelpie_kube::guard::GuardClient;
use kelpie_kube::tenant::Tenant;
use kelpie_prober::guard_rules;
use tokio::time::Instant;

use super::table::CheckRow;
use crate::printable::readable_instants;

/// The file that grants the permissions in a cluster.
const RBAC: &str = "deploy/rbac/prober-guarded-shoot.yaml";

/// Returns the row of a prober without guards.
pub(super) fn off() -> CheckRow {
    let finding = "off; `guard: {}` keeps nodes from turning Unknown without a race";
    CheckRow::ok("guard", finding)
}

/// Checks the guard of a cluster. Without targets to fence, nothing else protects it.
pub(super) async fn check(config: &ProberConfig, cluster: &str, tenant: &Tenant) -> CheckRow {
    let row = check_guard(config, &format!("{cluster} (guard)"), tenant).await;
    if config.targets.is_empty() {
        row
    } else {
        row.at_most_warn()
    }
}

async fn check_guard(config: &ProberConfig, subject: &str, tenant: &Tenant) -> CheckRow {
    let deadline = Instant::now() + config.probe.probe_timeout;
    // Nothing is written, so the owner does not matter.
    let client = GuardClient::new(tenant, "");
    let denied = match client.denied(&guard_rules(), deadline).await {
        Ok(denied) => denied,
        Err(error) => {
            let remedy = "check the API server of the cluster";
            return CheckRow::fail(subject, format!("access review: {error}"), remedy);
        }
    };
    if !denied.is_empty() {
        let denied: Vec<_> = denied.iter().map(ToString::to_string).collect();
        let finding = format!("the kubeconfig may not {}", denied.join(" or "));
        return CheckRow::fail(subject, finding, format!("apply {RBAC} in the cluster"));
    }
    match client.view(deadline).await {
        Ok(view) if view.is_armed() => CheckRow::ok(subject, readable_instants(&view.to_string())),
        Ok(view) if view.policy.is_none() => {
            CheckRow::ok(subject, "permitted; the prober arms it when it runs")
        }
        Ok(view) => {
            let remedy = "the prober repairs and renews it within 30 s; is it running?";
            CheckRow::warn(subject, readable_instants(&view.to_string()), remedy)
        }
        Err(problem) => {
            let remedy = "the guard needs Kubernetes 1.30 or newer";
            CheckRow::fail(subject, problem, remedy)
        }
    }
}
