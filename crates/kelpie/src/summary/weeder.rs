//! The weeder's configuration in plain words.

use kelpie_config::{GoDuration, LabelSelector, Readiness, WeederConfig};

use super::{Sheet, counted};

/// What the weeder will do.
pub(crate) fn weeder(config: &WeederConfig) -> String {
    let mut sheet = Sheet::default();
    let ready = match config.readiness {
        Readiness::Any => "one ready endpoint is enough",
        Readiness::All => "every endpoint must be ready",
    };
    sheet.row(
        "window",
        format!(
            "{} after a service has come back; {ready}",
            GoDuration(config.watch_duration)
        ),
    );
    sheet.row(
        "deletions",
        format!(
            "at most {} for each pod of an owner and window",
            counted(config.max_deletions_per_pod, "deletion", "deletions")
        ),
    );
    sheet.row(
        "dry run",
        if config.dry_run {
            "yes: nothing is deleted"
        } else {
            "no"
        },
    );
    sheet.rows(
        "services",
        config
            .services
            .iter()
            .flat_map(|(service, selectors)| dependants(service, selectors)),
    );
    sheet.text
}

fn dependants(service: &str, selectors: &[LabelSelector]) -> Vec<String> {
    selectors
        .iter()
        .map(|selector| format!("{service}: pods with {selector}"))
        .collect()
}
