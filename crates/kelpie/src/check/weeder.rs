//! `kelpie check weeder`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_config::{WeederConfig, weeder};
use kelpie_core::weeder::Services;
use kelpie_kube::leader::ElectionSettings;
use kelpie_weeder::policy_rules;

use super::api_server::{self, list_all};
use super::runner::{self, ConfigFile};
use super::table::{CheckRow, CheckTable};
use crate::cli::Invocation;
use crate::component::ElectionFlags;
use crate::exit::ExitStatus;
use crate::output_format::OutputFormat;
use crate::summary::pluralize;
use crate::weeder::LEASE;

/// The file that grants the weeder's permissions.
const RBAC: &str = "deploy/rbac/weeder.yaml";

/// Check that the weeder can run here
///
/// Checks the configuration, the seed (version, every permission that the weeder uses) and the
/// services that would be watched: the namespaces that have each service, and those in which it
/// is not ready. Run it with the weeder's own credentials; otherwise the permissions shown are
/// yours. It only reads: nothing is written or deleted.
///
/// Exits with 0 if no row failed, otherwise with 1. Every warning and failure has a remedy.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct CheckWeeder {
    /// The weeder's configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// The seed's kubeconfig [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Check the services of this namespace only
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,

    #[command(flatten)]
    election: ElectionFlags,
}

impl CheckWeeder {
    pub(super) fn run(self, started_as: Invocation) -> Result<ExitStatus> {
        let election = self.election.check(LEASE)?;
        let file = ConfigFile {
            path: &self.config_file,
            invocation: started_as,
            parse: weeder::parse,
            summarize: |config| pluralize(config.services.len(), "service", "services"),
        };
        runner::run_with_config(&file, self.output, async |config, table| {
            self.check(config, election.as_ref(), table).await;
        })
    }

    async fn check(
        &self,
        config: &WeederConfig,
        election: Option<&ElectionSettings>,
        table: &mut CheckTable,
    ) {
        let Some(seed) = runner::connect(self.kubeconfig.as_deref(), table).await else {
            return;
        };
        let only = self.namespace.as_deref();
        let rules = policy_rules(only, election);
        if !api_server::check_version(&seed, table).await
            || !api_server::check_permissions(&seed, &rules, RBAC, table).await
        {
            return;
        }
        let names: Vec<&str> = config.services.keys().map(String::as_str).collect();
        let slices = seed.endpoint_slices(&names, only);
        let Some(slices) = list_all("services", RBAC, slices, CheckRow::fail, table).await else {
            return;
        };
        let mut services = Services::new(config.readiness);
        services.begin_list();
        for facts in slices {
            services.put(&facts.namespace, &facts.name, facts.slice);
        }
        services.end_list();
        for name in names {
            table.add(service_row(name, &services));
        }
    }
}

fn service_row(name: &str, services: &Services) -> CheckRow {
    let with_name = services.iter().filter(|(service, _)| service.name == name);
    let (mut found, mut not_ready) = (0, BTreeSet::new());
    for (service, is_ready) in with_name {
        found += 1;
        if !is_ready {
            not_ready.insert(service.namespace.as_str());
        }
    }
    let namespaces = pluralize(found, "namespace", "namespaces");
    match (found, not_ready.len()) {
        (0, _) => CheckRow::warn(
            name,
            "no namespace has EndpointSlices of this service",
            "check the name in the configuration, and that the seed has clusters",
        ),
        (_, 0) => CheckRow::ok(name, format!("in {namespaces}, ready in all")),
        (_, count) => {
            let first = not_ready.first().copied().unwrap_or_default();
            let finding = format!("in {namespaces}, not ready in {count}, such as {first}");
            let remedy = "once it is ready again, its crash-looping dependants are deleted";
            CheckRow::warn(name, finding, remedy)
        }
    }
}
