//! `cargo xtask release`: everything that a release has, in one folder.

mod archives;
mod krew;
mod reproduce;
mod sbom;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use xtask::cache;

use crate::command::{self, program};
use crate::image;
use crate::platform::{Platform, commit_time};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The file with the digest of every other file.
const CHECKSUMS: &str = "SHA256SUMS";

/// Build everything that a release has
///
/// Archives with the binary and completions for each platform, the container image, the packaged
/// charts, all manifests as one YAML file for those who do not use Helm, a manifest for krew, an
/// SBOM and the checksums of all of them. Everything has the time of the last commit, and the same
/// commit gives the same bytes: `--reproduce` shows it.
///
/// Without `--dry-run` the checkout must be clean, its commit must have the tag of the version, and
/// CHANGELOG.md must describe the version. Nothing is published.
#[derive(clap::Args)]
pub(crate) struct ReleaseArgs {
    /// Do not require a clean checkout, a tag and a section in the changelog
    #[arg(long)]
    dry_run: bool,
    /// Build the binaries twice, in two fresh clones in different folders, and compare their bytes
    #[arg(long, conflicts_with = "dry_run")]
    reproduce: bool,
    /// The platforms; all of them by default
    #[arg(long, value_enum)]
    platform: Vec<Platform>,
    /// The URL of the folder from which the files will be downloaded, for the manifest of krew
    #[arg(long, default_value = "https://example.org/kelpie/releases")]
    download_url: String,
    /// The repository of the image, for the manifests without Helm
    #[arg(long, default_value = "registry.example/kelpie")]
    image: String,
    /// The cargo profile; a test of the release itself needs no optimisations
    #[arg(long, default_value = command::DIST)]
    profile: String,
}

pub(crate) fn run(arguments: &ReleaseArgs) -> Result<()> {
    let platforms = match arguments.platform.as_slice() {
        [] => Platform::value_variants().to_vec(),
        chosen => chosen.to_vec(),
    };
    if arguments.reproduce {
        return reproduce::run(&platforms, &arguments.profile);
    }
    if !arguments.dry_run {
        check_releasable()?;
    }
    check_versions()?;
    let folder = command::target_dir()?.join(format!("release-{VERSION}"));
    // An earlier release may have had other files.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let time = commit_time()?;

    // Only a program for this machine can print completions. They are the same for all platforms.
    let build = |platform: Platform| platform.build(&arguments.profile, &image::NO_DEMO);
    let own = build(Platform::of_host())?;
    let mut downloads = Vec::new();
    for platform in &platforms {
        let executable = build(*platform)?;
        let archive = archives::of_program(*platform, &executable, &own, &folder, time)?;
        downloads.push((*platform, archive));
    }
    archives::of_charts(&folder, time)?;
    manifests(&folder, &arguments.image)?;
    krew::write_manifest(&folder, &arguments.download_url, &downloads)?;
    sbom::write_sbom(&folder, &platforms, time)?;
    let built = command::target_dir()?.join("image");
    let built = image::build(&platforms, &arguments.profile, &built)?;
    let name = built.file_name().context("the image has no name")?;
    fs::copy(&built, folder.join(name))?;
    checksums(&folder)?;
    println!("{}", folder.display());
    Ok(())
}

/// Fails unless the version can be released from this commit.
fn check_releasable() -> Result<()> {
    let changes = command::read(&mut program("git", &["status", "--porcelain"]))?;
    ensure!(
        changes.is_empty(),
        "the checkout has changes, commit them first (or use --dry-run):\n{changes}"
    );
    let tags = command::read(&mut program("git", &["tag", "--points-at", "HEAD"]))?;
    ensure!(
        tags.lines().any(|tag| tag == format!("v{VERSION}")),
        "the commit has no tag v{VERSION} (or use --dry-run)"
    );
    let changelog = fs::read_to_string(cache::repository().join("CHANGELOG.md"))?;
    ensure!(
        changelog.contains(&format!("\n## [{VERSION}] - ")),
        "CHANGELOG.md has no section [{VERSION}] (or use --dry-run)"
    );
    Ok(())
}

/// Fails unless the charts have the version of the workspace.
fn check_versions() -> Result<()> {
    for chart in archives::CHARTS {
        let file = archives::charts_folder().join(chart).join("Chart.yaml");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        ensure!(
            text.lines()
                .any(|line| line == format!("version: {VERSION}")),
            "{} does not have version {VERSION}",
            file.display()
        );
    }
    Ok(())
}

/// Renders the chart with its defaults.
fn manifests(folder: &Path, image: &str) -> Result<()> {
    let helm = cache::find("helm")?;
    let chart = archives::charts_folder().join("kelpie");
    let mut template = program(helm, &["template", "kelpie", "--namespace=garden"]);
    template
        .arg(chart)
        .arg(format!("--set=image.repository={image}"));
    let text = command::read(&mut template)?;
    write(&folder.join(format!("kelpie-{VERSION}.yaml")), &text)
}

/// Writes the digests of all files, as `sha256sum --check` reads them.
fn checksums(folder: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for file in files(folder)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        lines.push(format!("{}  {name}\n", image::sha256(&file)?));
    }
    write(&folder.join(CHECKSUMS), &lines.concat())
}

/// Returns the files of a folder in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    let mut files: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    Ok(files)
}

/// Writes a file that all users can read, whatever the umask.
fn write(path: &Path, content: &str) -> Result<()> {
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o644))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_have_the_version_of_the_workspace() {
        check_versions().unwrap();
    }

    #[test]
    fn all_charts_are_released() {
        let mut charts: Vec<String> = files(&archives::charts_folder())
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        charts.sort();
        assert_eq!(charts, archives::CHARTS);
    }
}
