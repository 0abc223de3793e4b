//! The archives of a release: the program for each platform, and the charts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xtask::cache;

use super::{VERSION, write};
use crate::command::{self, program};
use crate::image;
use crate::platform::Platform;

/// The charts under deploy/charts, in the order of their names.
pub(super) const CHARTS: [&str; 3] = ["kelpie", "kelpie-addon", "kelpie-etcd"];

const COMPLETIONS: [&str; 3] = ["bash", "fish", "zsh"];

pub(super) fn charts_folder() -> PathBuf {
    cache::repository().join("deploy/charts")
}

/// Packs the program with the licence and the completions, which `own` prints. Returns the archive.
pub(super) fn of_program(
    platform: Platform,
    executable: &Path,
    own: &Path,
    to: &Path,
    time: u64,
) -> Result<PathBuf> {
    let name = format!("kelpie-{VERSION}-linux-{}", platform.name());
    let content = to.join(&name);
    fs::create_dir_all(content.join("completions"))?;
    let binary = content.join("kelpie");
    fs::copy(executable, &binary)?;
    fs::set_permissions(&binary, Permissions::from_mode(0o755))?;
    let license = fs::read_to_string(cache::repository().join("LICENSE"))?;
    write(&content.join("LICENSE"), &license)?;
    for shell in COMPLETIONS {
        let script = command::read(&mut program(own, &["completions", shell]))?;
        write(
            &content.join("completions").join(format!("kelpie.{shell}")),
            &script,
        )?;
    }
    let archive = compress(&content, to, &name, "tar.gz", time)?;
    fs::remove_dir_all(content)?;
    Ok(archive)
}

/// Packs each chart as `helm package` does, but with the time of the commit.
pub(super) fn of_charts(to: &Path, time: u64) -> Result<()> {
    let helm = cache::find("helm")?;
    for chart in CHARTS {
        let parent = to.join(format!(".{chart}"));
        let copy = parent.join(chart);
        fs::create_dir_all(&parent)?;
        let mut copying = program("cp", &["--recursive"]);
        command::run(copying.arg(charts_folder().join(chart)).arg(&copy))?;
        let archive = compress(&parent, to, &format!("{chart}-{VERSION}"), "tgz", time)?;
        fs::remove_dir_all(parent)?;
        command::read(program(&helm, &["show", "chart"]).arg(&archive))
            .with_context(|| format!("helm cannot read {}", archive.display()))?;
    }
    Ok(())
}

fn compress(content: &Path, to: &Path, name: &str, end: &str, time: u64) -> Result<PathBuf> {
    let tar = to.join(format!("{name}.tar"));
    image::archive(content, &tar, time)?;
    // Without the name and the time of the file, which are no part of the content.
    command::run(program("gzip", &["-9", "--no-name"]).arg(&tar))?;
    let archive = to.join(format!("{name}.{end}"));
    fs::rename(to.join(format!("{name}.tar.gz")), &archive)?;
    Ok(archive)
}
