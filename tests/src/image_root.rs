//! The container image, built from this checkout and unpacked by another tool than the one that
//! wrote it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use xtask::command;

use crate::process::ServerProcess;

/// The name that the image gets in its own layout.
const TAG: &str = env!("CARGO_PKG_VERSION");

/// An unpacked image, in which programs run as in a pod of the chart: as the image's user, without
/// capabilities, and with a root that is read-only.
pub struct ImageRoot {
    folder: TempDir,
    /// The process as the image describes it for an OCI runtime.
    process: Value,
    archive_size: u64,
}

impl ImageRoot {
    /// Builds the image without optimisations and unpacks it with umoci.
    pub fn build() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let output = folder.path().join("image");
        let build = ["run", "--quiet", "--package=xtask", "--", "image"];
        let mut build = command::cargo(&build);
        build
            .args(["--profile", "release", "--output"])
            .arg(&output);
        let archive = command::read(&mut build)?;
        let archive_size = fs::metadata(archive.trim()).context("no archive")?.len();

        let layout = format!("{}:{TAG}", output.join("oci").display());
        let mut unpack = command::program("umoci", &["unpack", "--rootless", "--image", &layout]);
        let bundle = folder.path().join("bundle");
        command::run(unpack.arg(&bundle))?;
        let config = fs::read_to_string(bundle.join("config.json"))?;
        let mut config: Value = serde_json::from_str(&config)?;
        Ok(Self {
            folder,
            process: config["process"].take(),
            archive_size,
        })
    }

    /// The size of the archive in bytes.
    pub fn archive_size(&self) -> u64 {
        self.archive_size
    }

    /// The root directory.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("bundle/rootfs")
    }

    /// The configuration of the image's process, as umoci derived it from the image.
    pub fn process(&self) -> &Value {
        &self.process
    }

    /// Returns the program and the first arguments that run a command in the image. `mounts` are
    /// visible to it at their own paths and cannot be written. The network is that of this machine.
    pub fn command(&self, mounts: &[&Path]) -> Result<Vec<String>> {
        let root = self.path();
        let mut words: Vec<String> = ["/usr/bin/bwrap", "--die-with-parent", "--ro-bind"]
            .map(str::to_owned)
            .into();
        words.extend([root.display().to_string(), "/".to_owned()]);
        for mount in mounts {
            ensure!(mount.is_absolute(), "{} is relative", mount.display());
            // A container runtime also creates the places of mounts in the root.
            fs::create_dir_all(root.join(mount.strip_prefix("/")?))?;
            let mount = mount.display().to_string();
            words.extend(["--ro-bind".to_owned(), mount.clone(), mount]);
        }
        let user = &self.process["user"];
        let id = |name: &str| {
            let id = user[name].as_u64();
            id.with_context(|| format!("the image has no {name}"))
        };
        words.extend(["--unshare-user", "--cap-drop", "ALL"].map(str::to_owned));
        words.extend(["--uid".to_owned(), id("uid")?.to_string()]);
        words.extend(["--gid".to_owned(), id("gid")?.to_string()]);
        let directory = self.process["cwd"].as_str().unwrap_or("/");
        words.extend(["--chdir".to_owned(), directory.to_owned()]);
        Ok(words)
    }

    /// Returns the user as which the process in the image runs that `runtime` started, as the
    /// process itself sees it, and its effective capabilities in hexadecimal.
    pub fn rights(runtime: &ServerProcess) -> Result<(u32, String)> {
        let read = |path: String| fs::read_to_string(&path).context(path);
        let children = read(format!("/proc/{0}/task/{0}/children", runtime.id()))?;
        let child = children.split_whitespace().next();
        let child = child.context("the runtime has no child")?;
        // Its user namespace has this one user.
        let users = read(format!("/proc/{child}/uid_map"))?;
        let user = users.split_whitespace().next().context("no user")?;
        let status = read(format!("/proc/{child}/status"))?;
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = capabilities.context("no capabilities")?.trim();
        Ok((user.parse()?, capabilities.to_owned()))
    }

    /// Returns the entry point of the image.
    pub fn entry_point(&self) -> Result<String> {
        let first = self.process["args"][0].as_str();
        Ok(first.context("the image has no entry point")?.to_owned())
    }
}
