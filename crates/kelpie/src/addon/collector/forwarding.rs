//! Flags of the source, the hub and the series to send.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum, ValueHint};
use kelpie_collector::{
    CollectorSettings, InvalidNames, PeerConfig, RecordingRule, TransformRules,
};
use kelpie_config::GoDuration;
use kelpie_core::addon::AddonComponent;

use super::flag_values::{NameValue, parse_name_value, parse_recording_rule};
use super::{allowlist, match_file};
use crate::addon::report::ComponentArg;
use crate::cli::usage_error;

/// The service account directory of a pod.
const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The bounds of `--interval`. The deduplication table does not support more than a day.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_hours(24);

/// The label with the name of the cluster.
const CLUSTER_LABEL: &str = "cluster";

#[derive(Args)]
pub(super) struct ForwardingFlags {
    #[command(flatten)]
    source: SourceFlags,

    #[command(flatten)]
    hub: HubFlags,

    #[command(flatten)]
    series: SeriesFlags,

    #[command(flatten)]
    ticks: TickFlags,

    /// Report a failure only after forwarding has failed for this long, and for at least three
    /// ticks
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "5m",
        help_heading = "Status"
    )]
    degrade_after: GoDuration,
}

#[derive(Args)]
#[command(next_help_heading = "Source")]
struct SourceFlags {
    /// Read from the Prometheus at this URL, by /federate and /api/v1/query
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    from: String,

    /// Evaluate recording rules at this URL, such as that of a Thanos querier [default: --from]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    from_query: Option<String>,

    /// Send this bearer token; a file keeps it out of the list of processes
    #[arg(
        long,
        value_name = "TOKEN",
        env = "KELPIE_FROM_TOKEN",
        hide_env_values = true,
        conflicts_with = "from_token_file"
    )]
    from_token: Option<String>,

    /// Send the bearer token in this file [default with --component and https: the pod's token]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    from_token_file: Option<PathBuf>,

    /// Trust the authorities in this file [default: the system's; with --component the service CA]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    from_ca_file: Option<PathBuf>,
}

#[derive(Args)]
#[command(next_help_heading = "Hub")]
struct HubFlags {
    /// Write to this URL; the default path is /api/v1/write
    #[arg(
        long,
        visible_alias = "to-upload",
        value_name = "URL",
        value_hint = ValueHint::Url,
        required_unless_present = "dry_run"
    )]
    to: Option<String>,

    /// Send the bearer token in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    to_token_file: Option<PathBuf>,

    /// Trust the authorities in this file [default: the system's]
    #[arg(
        long,
        visible_alias = "to-upload-ca",
        value_name = "FILE",
        value_hint = ValueHint::FilePath
    )]
    to_ca_file: Option<PathBuf>,

    /// Present the client certificate in this file
    #[arg(
        long,
        visible_alias = "to-upload-cert",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "to_key_file"
    )]
    to_cert_file: Option<PathBuf>,

    /// Use the key in this file with the client certificate
    #[arg(
        long,
        visible_alias = "to-upload-key",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "to_cert_file"
    )]
    to_key_file: Option<PathBuf>,
}

#[derive(Args)]
#[command(next_help_heading = "Series")]
struct SeriesFlags {
    /// Send the series that this selector matches; can be repeated
    #[arg(long = "match", value_name = "SELECTOR")]
    matchers: Vec<String>,

    /// Send the series that the selectors in this file match, one on each line; can be repeated
    #[arg(long = "match-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    match_files: Vec<PathBuf>,

    /// Send the result of a query under a new name: {"name": …, "query": …}; can be repeated
    #[arg(long = "recordingrule", value_name = "JSON", value_parser = parse_recording_rule)]
    rules: Vec<RecordingRule>,

    /// Apply the addon's allowlist in this file: names, matches, renames, recording rules
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    allowlist: Option<PathBuf>,

    /// Set this label on every series, replacing any value; can be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_name_value)]
    labels: Vec<NameValue>,

    /// Rename a metric; can be repeated
    #[arg(long = "rename", value_name = "OLD=NEW", value_parser = parse_name_value)]
    renames: Vec<NameValue>,

    /// Remove this label from every series; can be repeated; empty for none
    #[arg(
        long = "elide-label",
        value_name = "NAME",
        default_values = ["prometheus", "prometheus_replica", "managed_cluster"]
    )]
    elided: Vec<String>,

    /// Handle names of metrics and labels that remote write 1.0 does not allow, such as a.b
    #[arg(long, value_name = "ACTION", default_value = "escape")]
    invalid_names: InvalidNamesArg,
}

/// An action for invalid names as given on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum InvalidNamesArg {
    /// Replace invalid characters by underscores
    Escape,
    /// Drop the samples and count them; reject recording rules at the start
    Drop,
    /// Send them as they are, to a hub that accepts UTF-8 names
    Keep,
}

impl From<InvalidNamesArg> for InvalidNames {
    fn from(action: InvalidNamesArg) -> Self {
        match action {
            InvalidNamesArg::Escape => Self::Escape,
            InvalidNamesArg::Drop => Self::Drop,
            InvalidNamesArg::Keep => Self::Keep,
        }
    }
}

#[derive(Args)]
#[command(next_help_heading = "Ticks")]
struct TickFlags {
    /// Time between two ticks
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    interval: GoDuration,

    /// Fail a tick in which the source sends more bytes than this
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    limit_bytes: u64,

    /// Number of concurrent requests to the source, and to the hub
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    worker_number: u16,
}

impl ForwardingFlags {
    /// Converts the flags into settings. With `component`, the operator deployed this process in a
    /// pod.
    pub(super) fn settings(
        &self,
        component: Option<ComponentArg>,
        dry_run: bool,
    ) -> Result<CollectorSettings> {
        let interval = self.ticks.interval.0;
        if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) {
            return Err(usage_error("--interval must be between 1s and 24h"));
        }
        let mut matchers = self.series.matchers.clone();
        for file in &self.series.match_files {
            matchers.extend(match_file::read(file)?);
        }
        let mut recording_rules = self.series.rules.clone();
        let mut renames = self.series.renames.clone();
        if let Some(file) = &self.series.allowlist {
            let component = component.map_or(AddonComponent::Platform, Into::into);
            let list = allowlist::read(file, component)?;
            matchers.extend(list.matches);
            renames.extend(list.renames);
            recording_rules.extend(list.rules.into_iter().map(|rule| RecordingRule {
                name: rule.record,
                query: rule.expr,
            }));
        }
        if matchers.is_empty() && recording_rules.is_empty() {
            let text = "nothing to send: set --match, --match-file, --recordingrule or --allowlist";
            return Err(usage_error(text));
        }
        let mut labels = self.series.labels.iter();
        let cluster = labels.find(|(name, _)| name == CLUSTER_LABEL);
        Ok(CollectorSettings {
            from: self.source.peer(&self.source.from, component.is_some()),
            from_queries: self
                .source
                .from_query
                .as_ref()
                .map(|url| self.source.peer(url, component.is_some())),
            to: (!dry_run).then(|| self.hub.peer()),
            matchers,
            recording_rules,
            rules: self.series.transform_rules(&renames)?,
            cluster: cluster.map(|(_, value)| value.clone()),
            interval,
            limit_bytes: self.ticks.limit_bytes,
            workers: self.ticks.worker_number.into(),
            degrade_after: self.degrade_after.0,
            network: kelpie_net::Network::default(),
        })
    }
}

impl SourceFlags {
    fn peer(&self, url: &str, in_pod: bool) -> PeerConfig {
        let is_tls = url.starts_with("https:");
        let pod_file = |name: &str| {
            let file = PathBuf::from(format!("{SERVICE_ACCOUNT_DIR}/{name}"));
            (in_pod && is_tls && file.exists()).then_some(file)
        };
        PeerConfig {
            url: url.to_owned(),
            token: self.from_token.clone().map(Into::into),
            token_file: self.from_token_file.clone().or_else(|| pod_file("token")),
            ca_file: self
                .from_ca_file
                .clone()
                .or_else(|| pod_file("service-ca.crt")),
            identity_files: None,
        }
    }
}

impl HubFlags {
    fn peer(&self) -> PeerConfig {
        PeerConfig {
            url: self.to.clone().unwrap_or_default(),
            token: None,
            token_file: self.to_token_file.clone(),
            ca_file: self.to_ca_file.clone(),
            identity_files: self.to_cert_file.clone().zip(self.to_key_file.clone()),
        }
    }
}

impl SeriesFlags {
    fn transform_rules(&self, renames: &[NameValue]) -> Result<TransformRules> {
        let invalid = |error: kelpie_collector::TransformRuleError| usage_error(&error.to_string());
        let mut rules = TransformRules::new().invalid_names(self.invalid_names.into());
        for (name, value) in &self.labels {
            rules = rules.inject(name, value).map_err(invalid)?;
        }
        let injected = |name: &&String| self.labels.iter().any(|(label, _)| label == *name);
        // Injecting a label takes precedence over eliding it.
        let elided = self.elided.iter().filter(|name| !name.is_empty());
        for name in elided.filter(|name| !injected(name)) {
            rules = rules.elide(name).map_err(invalid)?;
        }
        for (old, new) in renames {
            rules = rules.rename(old, new).map_err(invalid)?;
        }
        Ok(rules)
    }
}
