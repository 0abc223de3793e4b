//! Summarizes the weeder's configuration.

use kelpie_config::{GoDuration, LabelSelector, ReadinessRule, WeederConfig};

use super::{KeyValueTable, pluralize};

/// Summarizes what the weeder will do.
pub(crate) fn weeder(config: &WeederConfig) -> String {
    let mut table = KeyValueTable::default();
    let ready = match config.readiness {
        ReadinessRule::Any => "one ready endpoint is enough",
        ReadinessRule::All => "every endpoint must be ready",
    };
    table.row(
        "window",
        format!(
            "{} after a service has recovered; {ready}",
            GoDuration(config.watch_duration)
        ),
    );
    table.row(
        "deletions",
        format!(
            "at most {} per window for each pod of an owner",
            pluralize(config.max_deletions_per_pod, "deletion", "deletions")
        ),
    );
    table.row(
        "dry run",
        if config.dry_run {
            "yes: nothing is deleted"
        } else {
            "no"
        },
    );
    table.rows(
        "services",
        config
            .services
            .iter()
            .flat_map(|(service, selectors)| dependants(service, selectors)),
    );
    table.text
}

fn dependants(service: &str, selectors: &[LabelSelector]) -> Vec<String> {
    selectors
        .iter()
        .map(|selector| format!("{service}: pods with {selector}"))
        .collect()
}
