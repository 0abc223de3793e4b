//! `kelpie check addon`.

use anyhow::Result;
use clap::Args;
use kelpie_addon::{ADDON, AddonRef, HubOptions, StatusWriter, WriteError, hub_needs};
use kelpie_kube::seed::{Seed, SeedOptions};

use super::frame::{self, Output};
use super::question;
use super::row::{Row, Table};
use crate::addon::{CollectorFlags, HubFlags, Part, SpokeFlags};
use crate::exit::Outcome;

/// Where the rights on the hub come from.
const HUB_RBAC: &str = "deploy/rbac/addon-hub.yaml";

/// Would a part of the observability addon work here?
///
/// Looks at the spoke: its version, the kind ObservabilityAddon, the addon itself and every
/// permission that this part uses; with a hub, the same there. Run it with the part's own
/// credentials, or what it says about permissions is about you. Nothing is written.
///
/// Exits with 0 if nothing failed, else with 1; every failed row says what to do.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Addon {
    /// Which part
    part: Part,

    /// How to answer
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,

    /// It takes part in an election
    #[arg(long)]
    enable_leader_election: bool,

    #[command(flatten)]
    spoke: SpokeFlags,

    #[command(flatten)]
    hub: HubFlags,

    #[command(flatten)]
    collectors: CollectorFlags,
}

impl Addon {
    pub(super) fn run(self) -> Result<Outcome> {
        let options = self.collectors.options()?;
        let addon = self.spoke.addon();
        let needs = self
            .part
            .needs(&addon, &options, self.enable_leader_election);
        frame::answer(Table::default(), self.output, async |table| {
            match self.spoke.connect("check").await {
                Ok(spoke) => {
                    if look(&spoke, &addon, table).await {
                        let rbac = self.part.rbac();
                        question::permissions(&spoke, &needs, rbac, table).await;
                    }
                }
                Err(error) => table.add(unreachable("spoke", &format!("{error:#}"))),
            }
            if let Some(hub) = self.hub.options("check") {
                look_at_hub(&hub, &addon.name, table).await;
            }
        })
    }
}

async fn look_at_hub(hub: &HubOptions, name: &str, table: &mut Table) {
    let options = SeedOptions {
        kubeconfig: Some(hub.kubeconfig.clone()),
        qps: 0.0,
        burst: 0,
        user_agent: hub.user_agent.clone(),
    };
    let there = AddonRef {
        namespace: hub.namespace.clone(),
        name: name.to_owned(),
    };
    match Seed::connect_as("hub", &options).await {
        Ok(hub) => {
            if look(&hub, &there, table).await {
                question::permissions(&hub, &hub_needs(&there), HUB_RBAC, table).await;
            }
        }
        Err(error) => table.add(unreachable("hub", &error.to_string())),
    }
}

fn unreachable(role: &str, why: &str) -> Row {
    Row::fail(role, why, "name a kubeconfig that works")
}

/// Version, kind and addon. False: there is no point in going on.
async fn look(cluster: &Seed, addon: &AddonRef, table: &mut Table) -> bool {
    let role = cluster.role();
    if !question::version(cluster, table).await {
        return false;
    }
    let objects = cluster.objects();
    table.add(match objects.serves(ADDON).await {
        Ok(true) => Row::ok(role, format!("knows {ADDON}")),
        Ok(false) => Row::fail(
            role,
            format!("does not know {ADDON}"),
            "kelpie crd | kubectl apply -f -",
        ),
        Err(error) => Row::fail(role, error.to_string(), "is its API server well?"),
    });
    table.add(
        match StatusWriter::new(objects, addon.clone()).read().await {
            Ok(found) => {
                let standing = found.status.standing();
                let standing =
                    standing.map_or("without a status yet", |standing| standing.condition());
                let (name, namespace) = (&addon.name, &addon.namespace);
                Row::ok(
                    role,
                    format!("has the addon {name} in {namespace}: {standing}"),
                )
            }
            Err(error @ WriteError::Absent { .. }) => {
                Row::warn(role, error.to_string(), "nothing is done until it is there")
            }
            Err(error) => Row::fail(role, error.to_string(), "grant get on it"),
        },
    );
    true
}
