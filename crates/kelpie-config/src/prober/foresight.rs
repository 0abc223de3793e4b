//! What a valid file asks for in vain: warnings.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::Target;

use super::ProberConfig;
use super::target::Found;
use crate::reader::Section;
use crate::{Budget, GoDuration};

/// Rounds are this far apart while lease failures are being counted.
const COUNTING_PERIOD: Duration = Duration::from_secs(1);

/// Longer grace periods are hardly meant: kube-controller-manager's own default is well below.
const LONGEST_GRACE: Duration = Duration::from_hours(1);

/// Warns about every setting that cannot work. `config` must be what `root` says, without errors.
pub(super) fn look(root: &Section<'_>, config: &ProberConfig, targets: &[Found<'_>]) {
    let budget = config.budget();
    probes(root, config);
    for Found { target, down } in targets {
        remainder(down, target);
    }
    if budget.left().is_zero() {
        let grace = GoDuration(config.probe.grace);
        let share = config.probe.failure_fraction.get();
        root.warn(
            culprit(
                root,
                &["kcmNodeMonitorGraceDuration", "nodeLeaseFailureFraction"],
            ),
            format!(
                "the first node turns Unknown before a fence can begin: with {grace} of grace and \
                 {share} of the nodes, {budget} leaves nothing (kubelets renew every {period})",
                period = GoDuration(budget.renew_period()),
            ),
        );
    } else {
        threshold(root, config, budget);
        let waits = waits(config, budget);
        for Found { target, down } in targets {
            let wait = waits.get(&target.down.level).copied().unwrap_or_default();
            delay(down, target.down.initial_delay, wait, budget);
        }
    }
}

/// The first of `names` that is in the file, else the first.
fn culprit<'n>(root: &Section<'_>, names: &[&'n str]) -> &'n str {
    names
        .iter()
        .find(|name| root.get(name).is_some())
        .unwrap_or(&names[0])
}

fn probes(root: &Section<'_>, config: &ProberConfig) {
    let probe = &config.probe;
    let grace = GoDuration(probe.grace);
    if probe.probe_timeout > probe.grace {
        root.warn(
            culprit(root, &["probeTimeout", "kcmNodeMonitorGraceDuration"]),
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
                "nodes that are cut off would go unnoticed for {}, three quarters of {grace}; it \
                 should be what kube-controller-manager has, which is 40s in Gardener",
                GoDuration(probe.grace * 3 / 4),
            ),
        );
    }
    let quarter = probe.grace / 4;
    // Where a quarter is nothing no reserve would do, and the budget has its own warning.
    if probe.fence_reserve > quarter && !quarter.is_zero() {
        root.warn(
            culprit(root, &["fenceReserve", "kcmNodeMonitorGraceDuration"]),
            format!(
                "a reserve of {} is more than a quarter of the grace period of {grace}: last call comes before \
                 any lease counts as expired and fences hiccups that would heal; keep it at {} or less",
                GoDuration(probe.fence_reserve),
                GoDuration(quarter),
            ),
        );
    }
    if config.external_kubeconfig_secret.as_ref() == Some(&config.kubeconfig_secret) {
        root.warn(
            "externalKubeConfigSecretName",
            format!(
                "{:?} is the Secret of the internal probe too: both probes take the same path, and \
                 the external one can never tell more",
                config.kubeconfig_secret
            ),
        );
    }
}

/// Lease failures that take longer to count than there is time.
fn threshold(root: &Section<'_>, config: &ProberConfig, budget: Budget) {
    let rounds = config.probe.lease_thresholds.failure;
    let counting = COUNTING_PERIOD.saturating_mul(rounds - 1);
    let left = budget.left();
    if counting >= left {
        root.warn(
            "leaseFailureThreshold",
            format!(
                "{rounds} failed rounds take {} to count, but from the first of them only {} are \
                 left until the first node turns Unknown ({budget}); use at most {}",
                GoDuration(counting),
                GoDuration(left),
                // Rounds that fit: one at once, then one per second that ends before the deadline.
                left.as_nanos().div_ceil(COUNTING_PERIOD.as_nanos()),
            ),
        );
    }
}

fn remainder(down: &Section<'_>, target: &Target) {
    if let Some(replicas @ 1..) = target.down.replicas {
        down.warn(
            "replicas",
            format!(
                "a fence that leaves {replicas} running does not stop {}",
                target.resource
            ),
        );
    }
}

/// A target whose write comes too late, by its own delay or by the delays of the levels before it.
fn delay(down: &Section<'_>, own: Duration, wait: Duration, budget: Budget) {
    let left = budget.left();
    let late = wait.saturating_add(own);
    if late.is_zero() || late < left {
        return;
    }
    let (key, cause) = if own.is_zero() {
        ("level", "the delays of the levels before it".to_owned())
    } else if wait.is_zero() {
        ("initialDelay", GoDuration(own).to_string())
    } else {
        let (own, wait) = (GoDuration(own), GoDuration(wait));
        (
            "initialDelay",
            format!("{own}, after {wait} for the levels before it,"),
        )
    };
    down.warn(
        key,
        format!(
            "{cause} cannot meet the deadline: from the trip to the first node turning Unknown {} \
             are left ({budget})",
            GoDuration(left)
        ),
    );
}

/// By level: how long after the trip it starts, as far as the delays of earlier levels decide.
fn waits(config: &ProberConfig, budget: Budget) -> BTreeMap<u32, Duration> {
    let reserve = config.probe.fence_reserve;
    // When the reserve begins, nobody waits for an earlier level any more.
    let patience = if reserve.is_zero() {
        Duration::MAX
    } else {
        budget.left().saturating_sub(reserve)
    };
    let mut longest = BTreeMap::<u32, Duration>::new();
    for rule in config.targets.iter().map(|target| target.down) {
        let delay = longest.entry(rule.level).or_default();
        *delay = rule.initial_delay.max(*delay);
    }
    let mut sum = Duration::ZERO;
    for delay in longest.values_mut() {
        let before = sum.min(patience);
        sum = sum.saturating_add(*delay);
        *delay = before;
    }
    longest
}
