//! A file that says which metrics are collected.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use kelpie_addon::Allowlist;
use kelpie_core::addon::Component;
use tracing::warn;

/// No list that people write is near it.
const LARGEST: u64 = 4 << 20;

/// Reads a list, or the `ConfigMap` that holds it. What is not supported is told.
pub(super) fn read(path: &Path, component: Component) -> Result<Allowlist> {
    let context = || format!("--allowlist {}", path.display());
    let mut text = String::new();
    let file = File::open(path).with_context(context)?;
    let read = file.take(LARGEST).read_to_string(&mut text);
    read.with_context(context)?;
    let list = Allowlist::read_file(&text, component);
    let list = list.map_err(anyhow::Error::msg).with_context(context)?;
    if list.has_collect_rules {
        let file = path.display();
        warn!(%file, "collect_rules are not supported: what they would collect is left out");
    }
    Ok(list)
}
