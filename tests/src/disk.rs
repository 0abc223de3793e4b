//! A disk that can be made to hang.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::folder::Folder;

/// A file system in a file, mounted through a loop device, which needs root.
///
/// It is unmounted on drop. Drop every process that writes to it first.
pub struct LoopDisk {
    mount_point: PathBuf,
    _folder: Folder,
}

/// Keeps a disk frozen until dropped. Processes that write to the disk block meanwhile, and cannot
/// even be killed.
pub struct FrozenDisk<'a>(&'a LoopDisk);

impl LoopDisk {
    /// Creates and mounts a disk of 256 MB.
    pub fn new() -> Result<Self> {
        let folder = Folder::new("disk")?;
        let image = folder.path().join("image").display().to_string();
        let mount_point = folder.path().join("mounted");
        std::fs::create_dir(&mount_point)?;
        let target = mount_point.display().to_string();
        run("truncate", &["--size=256M", &image])?;
        run("mkfs.ext4", &["-q", &image])?;
        run("mount", &["-o", "loop", &image, &target])?;
        Ok(Self {
            mount_point,
            _folder: folder,
        })
    }

    /// The folder at which the disk is mounted.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    /// Blocks all writes to the disk.
    pub fn freeze(&self) -> Result<FrozenDisk<'_>> {
        run(
            "fsfreeze",
            &["--freeze", &self.mount_point.display().to_string()],
        )?;
        Ok(FrozenDisk(self))
    }
}

impl Drop for FrozenDisk<'_> {
    fn drop(&mut self) {
        // A failing test must not leave processes behind that cannot be killed.
        let _ = run(
            "fsfreeze",
            &["--unfreeze", &self.0.mount_point.display().to_string()],
        );
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Lazily, because the last writer may still be exiting.
        let _ = run(
            "umount",
            &["--lazy", &self.mount_point.display().to_string()],
        );
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("{program} is missing"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} {}: {stderr}(it needs root and a loop device)",
        arguments.join(" ")
    );
    Ok(())
}
