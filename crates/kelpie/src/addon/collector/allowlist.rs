//! Reads the file with the metrics to collect.

use std::path::Path;

use anyhow::{Context, Result};
use kelpie_addon::Allowlist;
use kelpie_core::addon::AddonComponent;
use tracing::warn;

use crate::input_file::InputFile;

/// Reads an allowlist, or the `ConfigMap` that holds it. Unsupported parts are logged.
pub(super) fn read(path: &Path, component: AddonComponent) -> Result<Allowlist> {
    let source = InputFile::new(path);
    let text = source.text().context("--allowlist")?;
    let file = source.name();
    let list = Allowlist::read_file(&text, component);
    let list = list.map_err(anyhow::Error::msg);
    let list = list.with_context(|| format!("--allowlist {file}"))?;
    if list.has_collect_rules {
        warn!(%file, "collect_rules are not supported and are ignored");
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(path: &Path) -> String {
        format!("{:#}", read(path, AddonComponent::Platform).unwrap_err())
    }

    #[test]
    fn invalid_allowlist_is_reported_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list.yaml");
        let missing = error_of(&file);
        assert!(
            missing.starts_with("--allowlist: cannot read "),
            "{missing}"
        );
        assert!(
            missing.ends_with("no such file; check the path"),
            "{missing}"
        );
        // A prefix of this file would be a valid list, so it must not be cut.
        std::fs::write(&file, format!("names: [up]\n#{}", "ä".repeat(3 << 20))).unwrap();
        let large = error_of(&file);
        assert!(large.contains("it is larger than 1048576 bytes"), "{large}");
        std::fs::write(&file, "names: {").unwrap();
        let invalid = error_of(&file);
        assert!(invalid.contains("list.yaml: "), "{invalid}");
    }
}
