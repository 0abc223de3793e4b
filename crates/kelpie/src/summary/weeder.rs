//! Summarizes the weeder's configuration.

use kelpie_config::{GoDuration, ReadinessRule, WeederConfig};

use super::{KeyValueTable, pluralize};

/// Summarizes what the weeder will do.
pub(crate) fn weeder(config: &WeederConfig) -> String {
    let mut table = KeyValueTable::default();
    let ready = match config.readiness {
        ReadinessRule::Any => "one ready endpoint is enough",
        ReadinessRule::All => "every endpoint must be ready",
    };
    let duration = GoDuration(config.watch_duration);
    table.row(
        "window",
        format!("{duration} after a service has recovered; {ready}"),
    );
    let deletions = pluralize(config.max_deletions_per_pod, "deletion", "deletions");
    let deletions = format!("at most {deletions} per window for each pod of an owner");
    table.row("deletions", deletions);
    let dry_run = if config.dry_run {
        "yes: nothing is deleted"
    } else {
        "no"
    };
    table.row("dry run", dry_run);
    let services = config.services.iter();
    let dependants = services.flat_map(|(service, selectors)| {
        let line = move |selector| format!("{service}: pods with {selector}");
        selectors.iter().map(line)
    });
    table.rows("services", dependants);
    table.text
}
