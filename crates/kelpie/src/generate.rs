//! `kelpie generate`: what `cargo xtask gen` writes into the repository.

mod metrics;
mod rbac;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use kelpie_addon::{AddonRef, OperatorOptions};
use kelpie_config::ProberConfig;
use kelpie_kube::leader::ElectionSettings;
use kelpie_prober::{seed_needs, shoot_needs};

use self::rbac::Account;
use crate::addon::Part;
use crate::cli::Guise;
use crate::exit::Outcome;
use crate::{config_file, prober, terminal, weeder};

/// Print a file that is made from the code
#[derive(Args)]
pub(crate) struct Generate {
    /// Which
    what: What,

    /// The configuration that rbac-prober-seed is for [default: Gardener's]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// What the prober may do on the seed
    RbacProberSeed,
    /// What the prober may do on each cluster
    RbacProberShoot,
    /// What the weeder may do on the seed
    RbacWeeder,
    /// What the addon's operator may do on the spoke
    RbacAddonOperator,
    /// What the addon's status controller may do on the spoke
    RbacAddonStatus,
    /// And on the hub
    RbacAddonHub,
    /// What a collector may do on the spoke
    RbacAddonCollector,
    /// What the hop may do on the hub
    RbacAddonHop,
    /// The reference of metrics
    Metrics,
}

impl Generate {
    pub(crate) fn run(&self, started_as: Guise) -> Result<Outcome> {
        let text = match self.what {
            What::RbacProberSeed => {
                let config = self.config(started_as)?;
                let needs = seed_needs(&config, Some(&election(prober::LEASE)));
                rbac::file(&Account::SEED, &needs)
            }
            What::RbacProberShoot => rbac::file(&Account::SHOOT, &shoot_needs()),
            What::RbacWeeder => {
                let needs = kelpie_weeder::needs(None, Some(&election(weeder::LEASE)));
                rbac::file(&Account::WEEDER, &needs)
            }
            What::RbacAddonOperator => of_addon(&Account::ADDON_OPERATOR, Part::Operator),
            What::RbacAddonStatus => of_addon(&Account::ADDON_STATUS, Part::Status),
            What::RbacAddonHub => {
                let there = addon_in(&Account::ADDON_HUB);
                rbac::file(&Account::ADDON_HUB, &kelpie_addon::hub_needs(&there))
            }
            What::RbacAddonCollector => of_addon(&Account::ADDON_COLLECTOR, Part::Collector),
            What::RbacAddonHop => of_addon(&Account::ADDON_HOP, Part::Hop),
            What::Metrics => metrics::page()?,
        };
        terminal::stdout(&text).context("cannot write the file")?;
        Ok(Outcome::Success)
    }

    fn config(&self, guise: Guise) -> Result<ProberConfig> {
        match &self.config_file {
            Some(file) => config_file::prober(file, guise),
            None => config_file::gardeners_prober(guise),
        }
    }
}

fn addon_in(account: &Account) -> AddonRef {
    AddonRef {
        namespace: account.namespace.to_owned(),
        name: "observability-addon".to_owned(),
    }
}

/// As it runs with its defaults, and a leader.
fn of_addon(account: &Account, part: Part) -> String {
    let options = OperatorOptions::default();
    rbac::file(account, &part.needs(&addon_in(account), &options, true))
}

/// As Gardener runs it: with a leader. Only names matter here.
fn election(lease: &str) -> ElectionSettings {
    ElectionSettings {
        namespace: Account::SEED.namespace.to_owned(),
        name: lease.to_owned(),
        identity: String::new(),
        lease_duration: Duration::ZERO,
        renew_deadline: Duration::ZERO,
        retry_period: Duration::ZERO,
    }
}
