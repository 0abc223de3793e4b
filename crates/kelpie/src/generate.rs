//! `kelpie generate`: prints the files that `cargo xtask gen` writes to the repository.

mod metrics;
mod rbac;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use kelpie_addon::{AddonRef, OperatorOptions};
use kelpie_config::ProberConfig;
use kelpie_kube::leader::ElectionSettings;
use kelpie_prober::{guard_rules, seed_rules, shoot_rules};

use self::rbac::RbacSubject;
use crate::addon::AddonProcess;
use crate::cli::Invocation;
use crate::component::default_election;
use crate::exit::ExitStatus;
use crate::{config_file, prober, terminal, weeder};

/// Print a file that is generated from the code
#[derive(Args)]
pub(crate) struct Generate {
    /// The file to print
    file: GeneratedFile,

    /// The configuration that rbac-prober-seed is for [default: Gardener's]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GeneratedFile {
    /// Permissions of the prober on the seed
    RbacProberSeed,
    /// Permissions of the prober on each cluster
    RbacProberShoot,
    /// Permissions of the prober on each cluster, with a guard
    RbacProberGuardedShoot,
    /// Permissions of the weeder on the seed
    RbacWeeder,
    /// Permissions of the addon's operator on the spoke
    RbacAddonOperator,
    /// Permissions of the addon's status controller on the spoke
    RbacAddonStatus,
    /// Permissions of the addon's status controller on the hub
    RbacAddonHub,
    /// Permissions of a collector on the spoke
    RbacAddonCollector,
    /// Permissions of the addon's hop on the hub
    RbacAddonHop,
    /// The metrics reference
    Metrics,
    /// JSON schemas of the configuration files
    ConfigSchemas,
}

impl Generate {
    pub(crate) fn run(&self, started_as: Invocation) -> Result<ExitStatus> {
        let text = match self.file {
            GeneratedFile::RbacProberSeed => {
                let config = self.config(started_as)?;
                let election = prober::with_lease(election(prober::LEASE), &config, started_as);
                let rules = seed_rules(&config, Some(&election));
                rbac::manifest(&RbacSubject::SEED, &rules)
            }
            GeneratedFile::RbacProberShoot => rbac::manifest(&RbacSubject::SHOOT, &shoot_rules()),
            GeneratedFile::RbacProberGuardedShoot => {
                let rules = [shoot_rules(), guard_rules()].concat();
                rbac::manifest(&RbacSubject::GUARDED_SHOOT, &rules)
            }
            GeneratedFile::RbacWeeder => {
                let rules = kelpie_weeder::policy_rules(None, Some(&election(weeder::LEASE)));
                rbac::manifest(&RbacSubject::WEEDER, &rules)
            }
            GeneratedFile::RbacAddonOperator => {
                addon_rbac(&RbacSubject::ADDON_OPERATOR, AddonProcess::Operator)
            }
            GeneratedFile::RbacAddonStatus => {
                addon_rbac(&RbacSubject::ADDON_STATUS, AddonProcess::Status)
            }
            GeneratedFile::RbacAddonHub => {
                let addon = addon_in(&RbacSubject::ADDON_HUB);
                rbac::manifest(&RbacSubject::ADDON_HUB, &kelpie_addon::hub_rules(&addon))
            }
            GeneratedFile::RbacAddonCollector => {
                addon_rbac(&RbacSubject::ADDON_COLLECTOR, AddonProcess::Collector)
            }
            GeneratedFile::RbacAddonHop => addon_rbac(&RbacSubject::ADDON_HOP, AddonProcess::Hop),
            GeneratedFile::Metrics => metrics::page()?,
            GeneratedFile::ConfigSchemas => config_schemas()?,
        };
        terminal::stdout(&text).context("cannot write the file")?;
        Ok(ExitStatus::Success)
    }

    fn config(&self, invocation: Invocation) -> Result<ProberConfig> {
        match &self.config_file {
            Some(file) => config_file::prober(file, invocation),
            None => config_file::gardener_prober(invocation),
        }
    }
}

/// Returns the schemas as definitions of a JSON schema.
fn config_schemas() -> Result<String> {
    terminal::json(&serde_json::json!({
        "proberConfig": kelpie_config::prober::JSON_SCHEMA,
        "weederConfig": kelpie_config::weeder::JSON_SCHEMA,
    }))
}

fn addon_in(subject: &RbacSubject) -> AddonRef {
    AddonRef {
        namespace: subject.namespace.to_owned(),
        name: "observability-addon".to_owned(),
    }
}

/// Generates the permissions of a process of the addon with default options and leader election.
fn addon_rbac(subject: &RbacSubject, process: AddonProcess) -> String {
    let options = OperatorOptions::default();
    let rules = process.policy_rules(&addon_in(subject), &options, true);
    rbac::manifest(subject, &rules)
}

/// Returns election settings as in Gardener. Permissions depend only on the names.
fn election(lease: &str) -> ElectionSettings {
    default_election(RbacSubject::SEED.namespace, lease)
}
