//! The `kelpie check addon` command.

use anyhow::Result;
use clap::Args;
use kelpie_addon::{ADDON, AddonRef, HubOptions, StatusWriter, WriteError, hub_rules};
use kelpie_core::addon::StandardCondition;
use kelpie_kube::client::ClusterClient;

use super::api_server;
use super::runner;
use super::table::{CheckRow, CheckTable};
use crate::addon::{AddonProcess, CollectorDeploymentFlags, HubFlags, SpokeFlags};
use crate::exit::ExitStatus;
use crate::output_format::OutputFormat;

/// The file that grants the permissions on the hub.
const HUB_RBAC: &str = "deploy/rbac/addon-hub.yaml";

/// Check that a process of the observability addon can run here
///
/// Checks the spoke: its version, the kind ObservabilityAddon, the addon itself and every
/// permission that the process uses. With --hub-kubeconfig it checks the hub as well. Run it with
/// the process' own credentials; otherwise the permissions shown are yours. It only reads: nothing
/// is written.
///
/// Exits with 0 if no row failed, otherwise with 1. Every warning and failure has a remedy.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct CheckAddon {
    /// Process to check
    process: AddonProcess,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,

    /// Check the permissions for leader election too
    #[arg(long)]
    enable_leader_election: bool,

    #[command(flatten)]
    spoke: SpokeFlags,

    #[command(flatten)]
    hub: HubFlags,

    #[command(flatten)]
    collectors: CollectorDeploymentFlags,
}

impl CheckAddon {
    pub(super) fn run(self) -> Result<ExitStatus> {
        let options = self.collectors.options()?;
        let addon = self.spoke.addon();
        let rules = self
            .process
            .policy_rules(&addon, &options, self.enable_leader_election);
        runner::run(CheckTable::default(), self.output, async |table| {
            match self.spoke.connect("check").await {
                Ok(spoke) => {
                    if check_cluster(&spoke, &addon, table).await {
                        let rbac = self.process.rbac_file();
                        api_server::check_permissions(&spoke, &rules, rbac, table).await;
                    }
                }
                Err(error) => table.add(unreachable("spoke", &format!("{error:#}"))),
            }
            if let Some(hub) = self.hub.options("check") {
                check_hub(&hub, &addon.name, table).await;
            }
        })
    }
}

async fn check_hub(hub: &HubOptions, name: &str, table: &mut CheckTable) {
    let hub_addon = AddonRef {
        namespace: hub.namespace.clone(),
        name: name.to_owned(),
    };
    match (hub.connect)().await {
        Ok(hub) => {
            if check_cluster(&hub, &hub_addon, table).await {
                let rules = hub_rules(&hub_addon);
                api_server::check_permissions(&hub, &rules, HUB_RBAC, table).await;
            }
        }
        Err(error) => table.add(unreachable("hub", &error.to_string())),
    }
}

fn unreachable(role: &str, error: &str) -> CheckRow {
    CheckRow::fail(role, error, "check the kubeconfig")
}

/// Checks the version, the kind and the addon. Returns false if further checks are pointless.
async fn check_cluster(cluster: &ClusterClient, addon: &AddonRef, table: &mut CheckTable) -> bool {
    let role = cluster.role();
    if !api_server::check_version(cluster, table).await {
        return false;
    }
    let objects = cluster.objects();
    table.add(match objects.serves(ADDON).await {
        Ok(true) => CheckRow::ok(role, format!("serves {ADDON}")),
        Ok(false) => CheckRow::fail(
            role,
            format!("does not serve {ADDON}"),
            "kelpie crd | kubectl apply -f -",
        ),
        Err(error) => CheckRow::fail(role, error.to_string(), "check the API server"),
    });
    table.add(
        match StatusWriter::new(objects, addon.clone()).read().await {
            Ok(found) => {
                let standard = found.status.standard_condition();
                let standard = standard.map_or("no status yet", StandardCondition::condition_type);
                let (name, namespace) = (&addon.name, &addon.namespace);
                CheckRow::ok(
                    role,
                    format!("has the addon {name} in {namespace}: {standard}"),
                )
            }
            Err(error @ WriteError::Absent { .. }) => CheckRow::warn(
                role,
                error.to_string(),
                "the addon does nothing until it exists",
            ),
            Err(error) => CheckRow::fail(role, error.to_string(), "grant get on the addon"),
        },
    );
    true
}
