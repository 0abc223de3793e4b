//! A file that says which metrics are collected.

use std::path::Path;

use anyhow::{Context, Result};
use kelpie_addon::Allowlist;
use kelpie_core::addon::Component;
use tracing::warn;

use crate::source::Source;

/// Reads a list, or the `ConfigMap` that holds it. What is not supported is told.
pub(super) fn read(path: &Path, component: Component) -> Result<Allowlist> {
    let source = Source::file(path);
    let text = source.text().context("--allowlist")?;
    let file = source.name();
    let list = Allowlist::read_file(&text, component);
    let list = list.map_err(anyhow::Error::msg);
    let list = list.with_context(|| format!("--allowlist {file}"))?;
    if list.has_collect_rules {
        warn!(%file, "collect_rules are not supported: what they would collect is left out");
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &Path) -> String {
        format!("{:#}", read(path, Component::Platform).unwrap_err())
    }

    #[test]
    fn a_list_that_is_no_use_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list.yaml");
        let missing = said(&file);
        assert!(
            missing.starts_with("--allowlist: cannot read "),
            "{missing}"
        );
        assert!(
            missing.ends_with("no such file; check the path"),
            "{missing}"
        );
        // However it is cut, a part of it would be a list.
        std::fs::write(&file, format!("names: [up]\n#{}", "ä".repeat(3 << 20))).unwrap();
        let large = said(&file);
        assert!(large.contains("it is larger than 1048576 bytes"), "{large}");
        std::fs::write(&file, "names: {").unwrap();
        let wrong = said(&file);
        assert!(wrong.contains("list.yaml: "), "{wrong}");
    }
}
