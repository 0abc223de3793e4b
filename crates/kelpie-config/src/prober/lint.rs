//! Warnings about settings of a valid file that cannot work.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::prober::{Setting, Target};

use super::target::ParsedTarget;
use super::{ProberConfig, SourceConfig};
use crate::parse::Section;
use crate::{FenceBudget, GoDuration};

/// The interval between rounds while lease failures are being counted.
const COUNTING_PERIOD: Duration = Duration::from_secs(1);

/// The longest plausible grace period. The default of kube-controller-manager is far shorter.
const LONGEST_GRACE: Duration = Duration::from_hours(1);

/// Warns about every setting that cannot work. `config` must have been parsed from `root` without
/// errors.
pub(super) fn check(root: &Section<'_>, config: &ProberConfig, targets: &[ParsedTarget<'_>]) {
    let budget = config.fence_budget();
    check_probe(root, config);
    let scaled = targets.iter().filter_map(|parsed| {
        let down = parsed.down.as_ref()?;
        Some((&parsed.target, down))
    });
    for (target, down) in scaled.clone() {
        check_replicas(down, target);
    }
    if budget.remaining().is_zero() {
        let grace = GoDuration(config.probe.grace);
        let fraction = config.probe.failure_fraction.get();
        root.warn(
            first_present(
                root,
                &["kcmNodeMonitorGraceDuration", "nodeLeaseFailureFraction"],
            ),
            format!(
                "the first node turns Unknown before a fence can begin: with a grace period of \
                 {grace} and a failure fraction of {fraction}, {budget} leaves no time (kubelets \
                 renew every {period})",
                period = GoDuration(budget.renew_period()),
            ),
        );
    } else {
        check_failure_threshold(root, config, budget);
        let waits = waits_by_level(config, budget);
        for (target, down) in scaled {
            let wait = waits.get(&target.down.level).copied().unwrap_or_default();
            check_delay(down, target.down.initial_delay, wait, budget);
        }
    }
}

/// Returns the first of `names` that the file sets, else the first of all.
fn first_present<'n>(root: &Section<'_>, names: &[&'n str]) -> &'n str {
    names
        .iter()
        .find(|name| root.get(name).is_some())
        .unwrap_or(&names[0])
}

fn check_probe(root: &Section<'_>, config: &ProberConfig) {
    let probe = &config.probe;
    let grace = GoDuration(probe.grace);
    if probe.probe_timeout > probe.grace {
        root.warn(
            first_present(root, &["probeTimeout", "kcmNodeMonitorGraceDuration"]),
            format!(
                "a round may take {}, longer than the grace period of {grace}: nodes can turn \
                 Unknown while it waits; keep probeTimeout below kcmNodeMonitorGraceDuration",
                GoDuration(probe.probe_timeout),
            ),
        );
    }
    if probe.grace > LONGEST_GRACE {
        root.warn(
            "kcmNodeMonitorGraceDuration",
            format!(
                "disconnected nodes would go unnoticed for {}, three quarters of {grace}; use the \
                 grace period of kube-controller-manager, which is 40s in Gardener",
                GoDuration(probe.grace * 3 / 4),
            ),
        );
    }
    let quarter = probe.grace / 4;
    // If a quarter rounds to zero, no reserve would help, and the budget has its own warning.
    if probe.fence_reserve > quarter && !quarter.is_zero() {
        root.warn(
            first_present(root, &["fenceReserve", "kcmNodeMonitorGraceDuration"]),
            format!(
                "a reserve of {} is more than a quarter of the grace period of {grace}: the last \
                 call comes before any lease counts as expired and fences short interruptions; \
                 reduce fenceReserve to at most {}",
                GoDuration(probe.fence_reserve),
                GoDuration(quarter),
            ),
        );
    }
    if let SourceConfig::Gardener {
        kubeconfig_secret,
        external_kubeconfig_secret: Some(external),
    } = &config.source
        && external == kubeconfig_secret
    {
        root.warn(
            "externalKubeConfigSecretName",
            format!(
                "{kubeconfig_secret:?} is also the Secret of the internal probe: both probes take \
                 the same path, so the external one adds nothing"
            ),
        );
    }
}

/// Warns about a failure threshold that takes longer to reach than the budget allows.
fn check_failure_threshold(root: &Section<'_>, config: &ProberConfig, budget: FenceBudget) {
    let rounds = config.probe.lease_thresholds.failure;
    let counting = COUNTING_PERIOD.saturating_mul(rounds - 1);
    let remaining = budget.remaining();
    if counting >= remaining {
        root.warn(
            "leaseFailureThreshold",
            format!(
                "counting {rounds} failed rounds takes {}, but only {} remain from the first of \
                 them until the first node turns Unknown ({budget}); use at most {}",
                GoDuration(counting),
                GoDuration(remaining),
                // The rounds that fit: one immediately, then one per second before the deadline.
                remaining.as_nanos().div_ceil(COUNTING_PERIOD.as_nanos()),
            ),
        );
    }
}

fn check_replicas(down: &Section<'_>, target: &Target) {
    if let Some(replicas) = target
        .down
        .setting
        .filter(|setting| *setting > Setting::FENCED)
    {
        down.warn(
            "replicas",
            format!(
                "scaling down to {replicas} leaves {} running; use 0",
                target.resource
            ),
        );
    }
}

/// Warns about a target that is scaled too late, because of its own delay or of earlier levels.
fn check_delay(down: &Section<'_>, own: Duration, wait: Duration, budget: FenceBudget) {
    let remaining = budget.remaining();
    let total = wait.saturating_add(own);
    if total.is_zero() || total < remaining {
        return;
    }
    let (key, cause) = if own.is_zero() {
        ("level", "the delays of earlier levels".to_owned())
    } else if wait.is_zero() {
        ("initialDelay", GoDuration(own).to_string())
    } else {
        let (own, wait) = (GoDuration(own), GoDuration(wait));
        (
            "initialDelay",
            format!("{own}, after {wait} for earlier levels,"),
        )
    };
    down.warn(
        key,
        format!(
            "{cause} cannot meet the deadline: only {} remain from the trip until the first node \
             turns Unknown ({budget})",
            GoDuration(remaining)
        ),
    );
}

/// Returns for each level the time after the trip at which it starts, as far as the delays of
/// earlier levels decide that.
fn waits_by_level(config: &ProberConfig, budget: FenceBudget) -> BTreeMap<u32, Duration> {
    let reserve = config.probe.fence_reserve;
    // From the start of the reserve on, no level waits for an earlier one.
    let max_wait = if reserve.is_zero() {
        Duration::MAX
    } else {
        budget.remaining().saturating_sub(reserve)
    };
    let mut longest = BTreeMap::<u32, Duration>::new();
    for rule in config.targets.iter().map(|target| target.down) {
        let delay = longest.entry(rule.level).or_default();
        *delay = rule.initial_delay.max(*delay);
    }
    let mut sum = Duration::ZERO;
    for delay in longest.values_mut() {
        let before = sum.min(max_wait);
        sum = sum.saturating_add(*delay);
        *delay = before;
    }
    longest
}
