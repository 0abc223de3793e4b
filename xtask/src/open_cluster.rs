//! The published custom resource definitions of open-cluster-management, the kinds of a hub.
//!
//! They come from one Go module. Its version and checksum are pinned here and not under `tools/`,
//! so that a new version does not cause the servers to be built again.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::cache::OPEN_CLUSTER;

use crate::command;

const MODULE: &str = "open-cluster-management.io/api";
/// The checksum in the format of `go.sum`.
const SUM: &str = "h1:fu5xst9T/Ya6o41kqdd0zbNiDU+D3nNMTvoRVeF8j+U=";
/// The folders of the module with the definitions that tests need.
const FOLDERS: [&str; 2] = ["addon/v1alpha1", "cluster/v1"];

/// Fetches the definitions. `download` is `go mod download` without arguments.
pub(crate) fn fetch(folder: &Path, mut download: Command) -> Result<()> {
    let version = OPEN_CLUSTER
        .rsplit_once('-')
        .map_or("", |(_, version)| version);
    download.arg("-json").arg(format!("{MODULE}@{version}"));
    let fetched: Value = serde_json::from_str(&command::read(&mut download)?)
        .context("reading the output of go mod download")?;
    if fetched["Sum"] != SUM {
        bail!(
            "{MODULE} {version} has the checksum {} instead of {SUM}",
            fetched["Sum"]
        );
    }
    let source = fetched["Dir"].as_str();
    let source = Path::new(source.context("go mod download printed no folder")?);
    let partial = folder.join(".open-cluster.partial");
    fs::create_dir_all(&partial)?;
    for definitions in FOLDERS {
        let definitions = source.join(definitions);
        for file in fs::read_dir(&definitions).with_context(|| definitions.display().to_string())? {
            let file = file?.path();
            if file.to_string_lossy().ends_with(".crd.yaml") {
                let text = fs::read_to_string(&file)?;
                let name = name_of(&text).with_context(|| file.display().to_string())?;
                fs::write(partial.join(format!("{name}.yaml")), &text)?;
            }
        }
    }
    fs::rename(&partial, folder.join(OPEN_CLUSTER))?;
    Ok(())
}

/// Returns the name of the definition in a file.
fn name_of(definition: &str) -> Option<&str> {
    let (_, metadata) = definition.split_once("\nmetadata:\n")?;
    let mut lines = metadata.lines();
    lines.find_map(|line| line.strip_prefix("  name: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_read_from_metadata() {
        let text = "kind: X\nmetadata:\n  annotations:\n    name: no\n  name: a.b.c\nspec:\n";
        assert_eq!(name_of(text), Some("a.b.c"));
        assert_eq!(name_of("kind: X\n"), None);
    }
}
