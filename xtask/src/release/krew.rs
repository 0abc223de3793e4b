//! The manifest with which krew installs `kubectl kelpie`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{VERSION, write};
use crate::image;
use crate::platform::Platform;

/// Writes the manifest. The archives are downloaded from `url`.
pub(super) fn write_manifest(
    folder: &Path,
    url: &str,
    archives: &[(Platform, PathBuf)],
) -> Result<()> {
    let head = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\n\
         kind: Plugin\n\
         metadata:\n  name: kelpie\n\
         spec:\n  version: v{VERSION}\n  homepage: {url}\n\
         \x20 shortDescription: Explain what Kelpie decided, and check its configuration\n\
         \x20 description: |\n\
         \x20   Kelpie is a watchdog for hosted Kubernetes control planes. `kubectl kelpie\n\
         \x20   explain` shows what its prober knows about a cluster and why it fenced it.\n\
         \x20 platforms:\n"
    );
    let mut parts = vec![head];
    for (platform, archive) in archives {
        let file = archive.file_name().unwrap_or_default().to_string_lossy();
        parts.push(format!(
            "  - selector:\n      matchLabels:\n        os: linux\n        arch: {}\n\
             \x20   uri: {url}/{file}\n    sha256: {}\n    bin: kelpie\n",
            platform.name(),
            image::sha256(archive)?,
        ));
    }
    write(&folder.join("kelpie.krew.yaml"), &parts.concat())
}
