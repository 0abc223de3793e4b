//! Summarizes the prober's configuration.

use std::collections::BTreeMap;

use kelpie_config::{GoDuration, ProberConfig, SourceConfig};
use kelpie_core::Fraction;
use kelpie_core::prober::{FlowRule, Target};

use super::{KeyValueTable, pluralize};

/// Summarizes what the prober will do.
pub(crate) fn prober(config: &ProberConfig) -> String {
    let probe = &config.probe;
    let mut table = KeyValueTable::default();
    if !config.name.is_empty() {
        table.row("name", &config.name);
    }
    let scope = match (&config.source, &config.namespace) {
        (_, None) => "all".to_owned(),
        (SourceConfig::Gardener { .. }, Some(cluster)) => format!("only {cluster}"),
        (_, Some(namespace)) => format!("those of namespace {namespace}"),
    };
    let scope = match &config.shard {
        Some(shard) => format!("{scope} with labels {}", shard.selector),
        None => scope,
    };
    table.row("clusters", scope);
    let kubeconfig = source(&mut table, config);
    let rounds = format!(
        "every {}{}; timeout {}; the first verdict comes after {}",
        GoDuration(probe.probe_interval),
        jitter(probe.jitter),
        GoDuration(probe.probe_timeout),
        GoDuration(probe.initial_delay),
    );
    table.row("rounds", rounds);
    let api_server = format!(
        "kubeconfig in {kubeconfig}; unhealthy after {}, then a pause of {}; healthy after {}",
        pluralize(probe.api_thresholds.failure, "failure", "failures"),
        GoDuration(probe.api_failure_pause),
        pluralize(probe.api_thresholds.success, "success", "successes"),
    );
    table.row("API server", api_server);
    let external = match &config.source {
        SourceConfig::Gardener {
            external_kubeconfig_secret: Some(secret),
            ..
        } => format!("kubeconfig in Secret {secret}"),
        _ => "not probed".to_owned(),
    };
    table.row("external path", external);
    verdict(&mut table, config);
    table.rows("fence", levels(&config.targets, |target| target.down));
    table.rows("restore", levels(&config.targets, |target| target.up));
    table.text
}

/// Adds the source, and returns where the kubeconfigs are. Gardener, the default, gets no row.
fn source(table: &mut KeyValueTable, config: &ProberConfig) -> String {
    match &config.source {
        SourceConfig::Gardener {
            kubeconfig_secret, ..
        } => format!("Secret {kubeconfig_secret}"),
        SourceConfig::ClusterApi => {
            table.row("source", "Clusters of Cluster API");
            "Secret NAME-kubeconfig of each Cluster, key value".to_owned()
        }
        SourceConfig::Secrets(secrets) => {
            let labels = &secrets.label_selector;
            table.row("source", format!("Secrets with labels {labels}"));
            format!("key {} of each Secret", secrets.key)
        }
    }
}

fn verdict(table: &mut KeyValueTable, config: &ProberConfig) {
    let probe = &config.probe;
    let budget = config.fence_budget();
    let grace = GoDuration(probe.grace);
    let own = if config.grace_follows_version {
        ", or that of the cluster's version, unless a cluster sets its own"
    } else {
        ", unless a cluster sets its own"
    };
    table.row("grace period", format!("{grace}{own}"));
    let trips = format!(
        "when {} of at least {} have not renewed their leases for {}, in {}",
        probe.failure_fraction,
        pluralize(probe.min_candidates, "node", "nodes"),
        GoDuration(probe.grace * 3 / 4),
        rounds(probe.lease_thresholds.failure),
    );
    table.row("trips", trips);
    let recovers = format!(
        "when fewer than {} have not renewed their leases, in {}",
        probe.recovery_fraction,
        rounds(probe.lease_thresholds.success),
    );
    table.row("recovers", recovers);
    let remaining = GoDuration(budget.remaining());
    let to_fence =
        format!("{remaining} from the trip to the first node turning Unknown ({budget})");
    table.row("time to fence", to_fence);
    let reserve = GoDuration(probe.fence_reserve);
    let last_call = if reserve.0.is_zero() {
        "off".to_owned()
    } else if reserve.0 >= remaining.0 {
        format!("{reserve} before that, which is at the trip: levels never wait for each other")
    } else {
        format!("{reserve} before that: levels stop waiting for each other")
    };
    table.row("last call", last_call);
}

fn rounds(number: u32) -> String {
    match number {
        1 => "one round".to_owned(),
        _ => format!("{number} consecutive rounds"),
    }
}

fn jitter(factor: f64) -> String {
    Fraction::new(factor)
        .map(|factor| format!(" plus up to {factor} jitter"))
        .unwrap_or_default()
}

/// Formats one line per level, in the order in which they run.
fn levels(targets: &[Target], rule: impl Fn(&Target) -> FlowRule) -> Vec<String> {
    let mut levels = BTreeMap::<u32, Vec<String>>::new();
    for target in targets {
        let level = levels.entry(rule(target).level).or_default();
        level.push(describe(target, rule(target)));
    }
    let line =
        |(level, targets): (u32, Vec<String>)| format!("level {level}: {}", targets.join(", "));
    levels.into_iter().map(line).collect()
}

fn describe(target: &Target, rule: FlowRule) -> String {
    let mut notes = Vec::new();
    if target.optional {
        notes.push("optional".to_owned());
    }
    if !rule.initial_delay.is_zero() {
        notes.push(format!("after {}", GoDuration(rule.initial_delay)));
    }
    if let Some(replicas) = rule.setting {
        notes.push(format!("to {replicas}"));
    }
    if notes.is_empty() {
        return target.resource.to_string();
    }
    format!("{} ({})", target.resource, notes.join(", "))
}
