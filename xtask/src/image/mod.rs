//! `cargo xtask image`: the container image, as an OCI image layout and as an archive.

mod layout;
mod program;
mod root;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::command;
use crate::platform::Platform;

pub(crate) use layout::{archive, sha256};
pub(crate) use program::{NO_DEMO, check};

/// The maximum size of the archive for one platform.
const MAX_SIZE: u64 = 30_000_000;

/// Build the container image: an OCI image layout and an archive of it
///
/// The image has one static binary under two names, the certificate authorities of this machine and
/// a user without rights; no shell and no libraries. It is written without a container engine. The
/// same commit gives the same bytes. `skopeo copy oci-archive:FILE docker://REGISTRY/kelpie:TAG`
/// pushes the archive.
#[derive(clap::Args)]
pub(crate) struct ImageArgs {
    /// The platforms of the image; that of this machine by default
    #[arg(long, value_enum)]
    platform: Vec<Platform>,
    /// The cargo profile; a test of the image itself needs no optimisations
    #[arg(long, default_value = command::DIST)]
    profile: String,
    /// The folder for the result; target/image by default
    #[arg(long)]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ImageArgs) -> Result<()> {
    let output = match &arguments.output {
        Some(folder) => folder.clone(),
        None => command::target_dir()?.join("image"),
    };
    let platforms = match arguments.platform.as_slice() {
        [] => vec![Platform::of_host()],
        chosen => chosen.to_vec(),
    };
    let archive = build(&platforms, &arguments.profile, &output)?;
    println!("{}", archive.display());
    Ok(())
}

/// Builds the image for these platforms in `output`. Returns the archive.
pub(crate) fn build(platforms: &[Platform], profile: &str, output: &PathBuf) -> Result<PathBuf> {
    // An earlier image may have had other blobs.
    let _ = fs::remove_dir_all(output);
    fs::create_dir_all(output).with_context(|| format!("creating {}", output.display()))?;
    let output = fs::canonicalize(output)?;
    let mut layout = layout::Layout::create(&output.join("oci"))?;
    for platform in platforms {
        let executable = platform.build(profile, &NO_DEMO)?;
        let root = output.join(format!("root-{}", platform.name()));
        root::fill(&root, &executable)?;
        layout.add(*platform, &root)?;
        fs::remove_dir_all(root)?;
    }
    let archive = output.join(format!("kelpie-{}-image.tar", layout::VERSION));
    layout.finish(&archive)?;
    let size = fs::metadata(&archive)?.len() / platforms.len() as u64;
    ensure!(
        size < MAX_SIZE,
        "the image has {size} bytes per platform, more than {MAX_SIZE}: find what was added"
    );
    Ok(archive)
}
