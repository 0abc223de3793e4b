//! From where, to where, and what.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueHint};
use kelpie_collector::{Access, RecordingRule, Rules, Settings};
use kelpie_config::GoDuration;
use kelpie_core::addon;

use super::allowlist;
use super::pairs::{Pair, pair, rule};
use crate::addon::report::Component;
use crate::cli::usage_error;

/// What a pod knows of its cluster.
const POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What `--interval` may be: the table of what the hub has keeps times of a day.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_hours(24);

/// The label that says whose samples they are.
const CLUSTER: &str = "cluster";

/// From where, to where, and what.
#[derive(Args)]
pub(super) struct ForwardingFlags {
    /// The Prometheus to read from; /federate and /api/v1/query are below it
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, help_heading = "Source")]
    from: String,

    /// Send the bearer token in this file [default with --component and https: the pod's]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Source")]
    from_token_file: Option<PathBuf>,

    /// Trust these authorities [default: the system's; with --component the service CA's]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Source")]
    from_ca_file: Option<PathBuf>,

    /// Where to write; without a path /api/v1/write is meant
    #[arg(
        long,
        visible_alias = "to-upload",
        value_name = "URL",
        value_hint = ValueHint::Url,
        required_unless_present = "dry_run",
        help_heading = "Hub"
    )]
    to: Option<String>,

    /// Send the bearer token in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Hub")]
    to_token_file: Option<PathBuf>,

    /// Trust these authorities [default: the system's]
    #[arg(
        long,
        visible_alias = "to-upload-ca",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Hub"
    )]
    to_ca_file: Option<PathBuf>,

    /// Show this certificate
    #[arg(
        long,
        visible_alias = "to-upload-cert",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "to_key_file",
        help_heading = "Hub"
    )]
    to_cert_file: Option<PathBuf>,

    /// The certificate's key
    #[arg(
        long,
        visible_alias = "to-upload-key",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "to_cert_file",
        help_heading = "Hub"
    )]
    to_key_file: Option<PathBuf>,

    /// Send the series that this selector matches; may be repeated
    #[arg(long = "match", value_name = "SELECTOR", help_heading = "What is sent")]
    matchers: Vec<String>,

    /// Send the result of a query under a name: {"name": …, "query": …}; may be repeated
    #[arg(
        long = "recordingrule",
        value_name = "JSON",
        value_parser = rule,
        help_heading = "What is sent"
    )]
    rules: Vec<RecordingRule>,

    /// Send what the addon's allowlist in this file says: names, matches, renames, recording rules
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "What is sent"
    )]
    allowlist: Option<PathBuf>,

    /// Give every series this label, whatever it has there; may be repeated
    #[arg(
        long = "label",
        value_name = "NAME=VALUE",
        value_parser = pair,
        help_heading = "What is sent"
    )]
    labels: Vec<Pair>,

    /// Call a metric otherwise; may be repeated
    #[arg(
        long = "rename",
        value_name = "OLD=NEW",
        value_parser = pair,
        help_heading = "What is sent"
    )]
    renames: Vec<Pair>,

    /// Leave this label out; may be repeated; empty for none
    #[arg(
        long = "elide-label",
        value_name = "NAME",
        default_values = ["prometheus", "prometheus_replica", "managed_cluster"],
        help_heading = "What is sent"
    )]
    elided: Vec<String>,

    /// How often
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "5m",
        help_heading = "Pace"
    )]
    interval: GoDuration,

    /// What the source may send in a tick; more is a failure
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1 << 30,
        help_heading = "Pace"
    )]
    limit_bytes: u64,

    /// Read and write with so many requests at the same time
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..),
        help_heading = "Pace"
    )]
    worker_number: u16,

    /// How long forwarding must have failed before that is reported; three ticks at least
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "5m",
        help_heading = "Status"
    )]
    degrade_after: GoDuration,
}

impl ForwardingFlags {
    /// `component`: deployed by the operator, in a pod.
    pub(super) fn settings(&self, component: Option<Component>, dry_run: bool) -> Result<Settings> {
        let interval = self.interval.0;
        if !(SHORTEST..=LONGEST).contains(&interval) {
            return Err(usage_error("--interval must be between 1s and 24h"));
        }
        let mut matchers = self.matchers.clone();
        let mut recording_rules = self.rules.clone();
        let mut renames = self.renames.clone();
        if let Some(file) = &self.allowlist {
            let whose = component.map_or(addon::Component::Platform, Into::into);
            let list = allowlist::read(file, whose)?;
            matchers.extend(list.matches);
            renames.extend(list.renames.into_iter().map(|(old, new)| Pair(old, new)));
            recording_rules.extend(list.rules.into_iter().map(|rule| RecordingRule {
                name: rule.record,
                query: rule.expr,
            }));
        }
        if matchers.is_empty() && recording_rules.is_empty() {
            let text = "there is nothing to send: give --match, --recordingrule or --allowlist";
            return Err(usage_error(text));
        }
        let cluster = self.labels.iter().find(|Pair(name, _)| name == CLUSTER);
        Ok(Settings {
            from: self.source(component.is_some()),
            to: (!dry_run).then(|| self.hub()),
            matchers,
            recording_rules,
            rules: self.transformation(&renames)?,
            cluster: cluster.map(|Pair(_, value)| value.clone()),
            interval,
            limit_bytes: self.limit_bytes,
            workers: self.worker_number.into(),
            degrade_after: self.degrade_after.0,
            network: kelpie_net::Network::default(),
        })
    }

    fn source(&self, in_pod: bool) -> Access {
        let is_tls = self.from.starts_with("https:");
        let of_pod = |name: &str| {
            let file = PathBuf::from(format!("{POD}/{name}"));
            (in_pod && is_tls && file.exists()).then_some(file)
        };
        Access {
            url: self.from.clone(),
            token: self.from_token_file.clone().or_else(|| of_pod("token")),
            roots: self
                .from_ca_file
                .clone()
                .or_else(|| of_pod("service-ca.crt")),
            identity: None,
        }
    }

    fn hub(&self) -> Access {
        Access {
            url: self.to.clone().unwrap_or_default(),
            token: self.to_token_file.clone(),
            roots: self.to_ca_file.clone(),
            identity: self.to_cert_file.clone().zip(self.to_key_file.clone()),
        }
    }

    fn transformation(&self, renames: &[Pair]) -> Result<Rules> {
        let wrong = |error: kelpie_collector::RuleError| usage_error(&error.to_string());
        let mut rules = Rules::new();
        for Pair(name, value) in &self.labels {
            rules = rules.inject(name, value).map_err(wrong)?;
        }
        let injected = |name: &&String| self.labels.iter().any(|Pair(label, _)| label == *name);
        // A label that is given is given whatever else would become of it.
        let elided = self.elided.iter().filter(|name| !name.is_empty());
        for name in elided.filter(|name| !injected(name)) {
            rules = rules.elide(name).map_err(wrong)?;
        }
        for Pair(old, new) in renames {
            rules = rules.rename(old, new).map_err(wrong)?;
        }
        Ok(rules)
    }
}
