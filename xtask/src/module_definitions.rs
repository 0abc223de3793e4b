//! Published custom resource definitions that come from one Go module each: those of
//! open-cluster-management, the kinds of a hub, and those of Cluster API.
//!
//! Their versions and checksums are pinned here and not under `tools/`, so that a new version does
//! not cause the servers to be built again.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::cache::{CLUSTER_API, OPEN_CLUSTER};

use crate::command;

/// Definitions that come from one Go module.
pub(crate) struct ModuleDefinitions {
    /// The folder of the definitions, which ends with the version of the module.
    pub(crate) entry: &'static str,
    module: &'static str,
    /// The checksum in the format of `go.sum`.
    sum: &'static str,
    /// The folders of the module with the definitions that tests need.
    folders: &'static [&'static str],
    /// The end of the names of their files.
    extension: &'static str,
}

pub(crate) const ALL: [ModuleDefinitions; 2] = [
    ModuleDefinitions {
        entry: OPEN_CLUSTER,
        module: "open-cluster-management.io/api",
        sum: "h1:fu5xst9T/Ya6o41kqdd0zbNiDU+D3nNMTvoRVeF8j+U=",
        folders: &["addon/v1alpha1", "cluster/v1"],
        extension: ".crd.yaml",
    },
    ModuleDefinitions {
        entry: CLUSTER_API,
        module: "sigs.k8s.io/cluster-api",
        sum: "h1:o3GFNaeNFAOEEMpDPfhCK+2CjmV6gtQ8yLEcUwCg7bA=",
        folders: &["core/config/crd/bases"],
        extension: ".yaml",
    },
];

impl ModuleDefinitions {
    /// Fetches the definitions. `download` is `go mod download` without arguments.
    pub(crate) fn fetch(&self, folder: &Path, mut download: Command) -> Result<()> {
        let Self { entry, module, .. } = self;
        let version = entry.rsplit_once('-').map_or("", |(_, version)| version);
        download.arg("-json").arg(format!("{module}@{version}"));
        let fetched: Value = serde_json::from_str(&command::read(&mut download)?)
            .context("reading the output of go mod download")?;
        if fetched["Sum"] != self.sum {
            bail!(
                "{module} {version} has the checksum {} instead of {}",
                fetched["Sum"],
                self.sum
            );
        }
        let source = fetched["Dir"].as_str();
        let source = Path::new(source.context("go mod download printed no folder")?);
        let partial = folder.join(format!(".{entry}.partial"));
        fs::create_dir_all(&partial)?;
        for definitions in self.folders {
            let definitions = source.join(definitions);
            for file in
                fs::read_dir(&definitions).with_context(|| definitions.display().to_string())?
            {
                let file = file?.path();
                if file.to_string_lossy().ends_with(self.extension) {
                    let text = fs::read_to_string(&file)?;
                    let name = name_of(&text).with_context(|| file.display().to_string())?;
                    fs::write(partial.join(format!("{name}.yaml")), &text)?;
                }
            }
        }
        fs::rename(&partial, folder.join(entry))?;
        Ok(())
    }
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
