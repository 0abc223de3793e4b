//! The platforms of images and releases, and the builds for them.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use xtask::cache;

use crate::command::{self, cargo, program};
use crate::packages;

/// A processor architecture, as container images call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Platform {
    Amd64,
    Arm64,
}

impl Platform {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the platform of this machine.
    pub(crate) fn of_host() -> Self {
        if cfg!(target_arch = "aarch64") {
            Self::Arm64
        } else {
            Self::Amd64
        }
    }

    /// The first part of the target triple and of the names of Debian's cross compilers.
    fn processor(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    pub(crate) fn triple(self) -> String {
        format!("{}-unknown-linux-gnu", self.processor())
    }

    /// Builds the program for this platform as one static file, with these features.
    ///
    /// It is linked with the static glibc, so it needs no library at run time and allocates memory
    /// exactly as in the benchmarks. The paths of this machine are replaced, so that two checkouts
    /// build the same bytes.
    pub(crate) fn build(self, profile: &str, features: &[&str]) -> Result<PathBuf> {
        let triple = self.triple();
        let compiler = self.compiler()?;
        if command::is_installed("rustup") {
            command::read(&mut program(
                "rustup",
                &["--quiet", "target", "add", &triple],
            ))?;
        }
        let home = cargo_home()?;
        let mut build = cargo(&["build", "--quiet", "--locked", "--package", "kelpie"]);
        build.args(["--profile", profile, "--target", &triple]);
        build.args(features);
        let rust = [
            "-Ctarget-feature=+crt-static".to_owned(),
            remap("--remap-path-prefix", &cache::repository(), "/kelpie"),
            remap("--remap-path-prefix", &home, "/cargo"),
        ];
        let variable = triple.replace('-', "_");
        let upper = variable.to_uppercase();
        build.env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), rust.join(" "));
        build.env(format!("CARGO_TARGET_{upper}_LINKER"), &compiler);
        build.env(format!("CC_{variable}"), &compiler);
        let c = remap("-ffile-prefix-map", &home, "/cargo");
        build.env(format!("CFLAGS_{variable}"), c);
        build.env("SOURCE_DATE_EPOCH", commit_time()?.to_string());
        command::built_executable(&mut build)
    }

    /// Returns the C compiler, which is also the linker. The one for another platform is installed
    /// if it is missing.
    fn compiler(self) -> Result<String> {
        if self == Self::of_host() {
            return Ok("cc".to_owned());
        }
        let name = format!("{}-linux-gnu-gcc", self.processor());
        if !command::is_installed(&name) {
            let package = format!("gcc-{}-linux-gnu", self.processor().replace('_', "-"));
            let libc = format!("libc6-dev-{}-cross", self.name());
            packages::install(&[&package, &libc])?;
        }
        Ok(name)
    }
}

fn remap(flag: &str, from: &Path, to: &str) -> String {
    format!("{flag}={}={to}", from.display())
}

fn cargo_home() -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let default = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    home.or_else(default)
        .context("no folder of cargo: set CARGO_HOME or HOME")
}

/// Returns the time of the last commit, in seconds since 1970. It is the time of everything in an
/// image or a release.
pub(crate) fn commit_time() -> Result<u64> {
    let log = command::read(&mut program("git", &["log", "-1", "--format=%ct"]))?;
    log.trim().parse().context("git printed no time")
}

/// Formats a time in seconds since 1970 as RFC 3339.
pub(crate) fn timestamp(time: u64) -> Result<String> {
    let time = format!("--date=@{time}");
    let text = command::read(&mut program("date", &["-u", &time, "+%Y-%m-%dT%H:%M:%SZ"]))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_have_the_triples_of_deny_toml() {
        let rules = std::fs::read_to_string(cache::repository().join("deny.toml")).unwrap();
        for platform in Platform::value_variants() {
            let triple = format!("\"{}\"", platform.triple());
            assert!(rules.contains(&triple), "{triple}");
        }
    }
}
