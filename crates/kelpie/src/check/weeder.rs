//! `kelpie check weeder`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_config::{WeederConfig, weeder};
use kelpie_core::weeder::Services;
use kelpie_kube::leader::ElectionSettings;
use kelpie_weeder::needs;

use super::frame::{self, File, Output};
use super::question::{self, all};
use super::row::{Row, Table};
use crate::cli::Guise;
use crate::component::ElectionFlags;
use crate::exit::Outcome;
use crate::summary::counted;
use crate::weeder::LEASE;

/// Where the permissions come from.
const RBAC: &str = "deploy/rbac/weeder.yaml";

/// Would the weeder work here?
///
/// Looks at the configuration, the seed (version, every permission that the weeder uses) and the
/// services that would be watched: in how many namespaces each is, and in how many it is ready.
/// Run it with the weeder's own credentials, or what it says about permissions is about you.
/// Nothing is written, nothing is deleted.
///
/// Exits with 0 if nothing failed, else with 1; every failed row says what to do.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Weeder {
    /// The weeder's configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// The seed's kubeconfig [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Only the services of this namespace
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// How to answer
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,

    #[command(flatten)]
    election: ElectionFlags,
}

impl Weeder {
    pub(super) fn run(self, started_as: Guise) -> Result<Outcome> {
        let election = self.election.check(LEASE)?;
        let file = File {
            path: &self.config_file,
            guise: started_as,
            parse: weeder::parse,
            sum: |config| {
                let services = u32::try_from(config.services.len()).unwrap_or(u32::MAX);
                counted(services, "service", "services")
            },
        };
        frame::run(&file, self.output, async |config, table| {
            self.look(config, election.as_ref(), table).await;
        })
    }

    async fn look(
        &self,
        config: &WeederConfig,
        election: Option<&ElectionSettings>,
        table: &mut Table,
    ) {
        let Some(seed) = frame::connect(self.kubeconfig.as_deref(), table).await else {
            return;
        };
        let only = self.namespace.as_deref();
        if !question::version(&seed, table).await
            || !question::permissions(&seed, &needs(only, election), RBAC, table).await
        {
            return;
        }
        let names: Vec<&str> = config.services.keys().map(String::as_str).collect();
        let slices = seed.slices(&names, only);
        let Some(slices) = all("services", RBAC, slices, table).await else {
            return;
        };
        let mut services = Services::new(config.readiness);
        services.begin_list();
        for facts in slices {
            services.put(&facts.namespace, &facts.name, facts.slice);
        }
        services.end_list();
        for name in names {
            table.add(row(name, &services));
        }
    }
}

fn row(name: &str, services: &Services) -> Row {
    let such = services.iter().filter(|(service, _)| service.name == name);
    let (mut found, mut away) = (0, BTreeSet::new());
    for (service, is_ready) in such {
        found += 1;
        if !is_ready {
            away.insert(service.namespace.as_str());
        }
    }
    let namespaces = counted(found, "namespace", "namespaces");
    match (found, away.len()) {
        (0, _) => Row::warn(
            name,
            "no namespace has EndpointSlices of this service",
            "is the name the configured one, and are there clusters?",
        ),
        (_, 0) => Row::ok(name, format!("in {namespaces}, ready in all")),
        (_, away_in) => {
            let first = away.first().copied().unwrap_or_default();
            let found = format!("in {namespaces}, not ready in {away_in}, such as {first}");
            Row::warn(name, found, "its dependants are seen to when it is back")
        }
    }
}
