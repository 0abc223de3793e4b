//! The prober's configuration in plain words.

use std::collections::BTreeMap;

use kelpie_config::{GoDuration, ProberConfig};
use kelpie_core::{Fraction, ScaleRule, Target};

use super::{Sheet, counted};

/// What the prober will do.
pub(crate) fn prober(config: &ProberConfig) -> String {
    let probe = &config.probe;
    let mut sheet = Sheet::default();
    if !config.name.is_empty() {
        sheet.row("name", &config.name);
    }
    match &config.namespace {
        Some(namespace) => sheet.row("clusters", format!("only {namespace}")),
        None => sheet.row("clusters", "all"),
    }
    sheet.row(
        "rounds",
        format!(
            "every {}{}; one may take {}; the first judgement comes after {}",
            GoDuration(probe.probe_interval),
            later(probe.jitter),
            GoDuration(probe.probe_timeout),
            GoDuration(probe.initial_delay),
        ),
    );
    sheet.row(
        "API server",
        format!(
            "kubeconfig in Secret {}; unhealthy after {}, then a pause of {}; healthy after {}",
            config.kubeconfig_secret,
            counted(probe.api_thresholds.failure, "failure", "failures"),
            GoDuration(probe.api_failure_pause),
            counted(probe.api_thresholds.success, "success", "successes"),
        ),
    );
    match &config.external_kubeconfig_secret {
        Some(secret) => sheet.row("external path", format!("kubeconfig in Secret {secret}")),
        None => sheet.row("external path", "not probed"),
    }
    judgement(&mut sheet, config);
    sheet.rows("fence", levels(&config.targets, |target| target.down));
    sheet.rows("restore", levels(&config.targets, |target| target.up));
    sheet.text
}

fn judgement(sheet: &mut Sheet, config: &ProberConfig) {
    let probe = &config.probe;
    let budget = config.budget();
    sheet.row(
        "grace period",
        format!("{}, unless a cluster has its own", GoDuration(probe.grace)),
    );
    sheet.row(
        "trips",
        format!(
            "when {} of at least {} have not renewed their lease for {}, seen {}",
            probe.failure_fraction,
            counted(probe.min_candidates, "node", "nodes"),
            GoDuration(probe.grace * 3 / 4),
            times(probe.lease_thresholds.failure),
        ),
    );
    sheet.row(
        "lifts",
        format!(
            "when fewer than {} have still not renewed, seen {}",
            probe.recovery_fraction,
            times(probe.lease_thresholds.success),
        ),
    );
    sheet.row(
        "time to fence",
        format!(
            "{} from the trip to the first node turning Unknown ({budget})",
            GoDuration(budget.left())
        ),
    );
    let reserve = GoDuration(probe.fence_reserve);
    if probe.fence_reserve.is_zero() {
        sheet.row("last call", "off");
    } else if probe.fence_reserve >= budget.left() {
        sheet.row(
            "last call",
            format!("{reserve} before that, so at the trip: levels never wait for each other"),
        );
    } else {
        sheet.row(
            "last call",
            format!("{reserve} before that: levels no longer wait for each other"),
        );
    }
}

fn times(number: u32) -> String {
    match number {
        1 => "once".to_owned(),
        _ => format!("{number} times in a row"),
    }
}

fn later(jitter: f64) -> String {
    Fraction::new(jitter)
        .map(|share| format!(", up to {share} later"))
        .unwrap_or_default()
}

/// One line per level, in the order in which they run.
fn levels(targets: &[Target], rule: impl Fn(&Target) -> ScaleRule) -> Vec<String> {
    let mut levels = BTreeMap::<u32, Vec<String>>::new();
    for target in targets {
        levels
            .entry(rule(target).level)
            .or_default()
            .push(one(target, rule(target)));
    }
    levels
        .into_iter()
        .map(|(level, targets)| format!("level {level}: {}", targets.join(", ")))
        .collect()
}

fn one(target: &Target, rule: ScaleRule) -> String {
    let mut notes = Vec::new();
    if target.optional {
        notes.push("optional".to_owned());
    }
    if !rule.initial_delay.is_zero() {
        notes.push(format!("after {}", GoDuration(rule.initial_delay)));
    }
    if let Some(replicas) = rule.replicas {
        notes.push(format!("to {replicas}"));
    }
    if notes.is_empty() {
        return target.resource.to_string();
    }
    format!("{} ({})", target.resource, notes.join(", "))
}
