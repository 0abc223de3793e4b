//! A disk that can be made to hang.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::folder::Folder;

/// A file system of its own in a file. It needs root and a loop device. It goes when dropped, which
/// must be after whoever writes to it.
pub struct Disk {
    mounted: PathBuf,
    _folder: Folder,
}

/// The disk hangs until this is dropped: who writes waits, and cannot even be killed.
pub struct Frozen<'a>(&'a Disk);

impl Disk {
    /// A disk of 256 MB.
    pub fn new() -> Result<Self> {
        let folder = Folder::new("disk")?;
        let image = folder.path().join("image").display().to_string();
        let mounted = folder.path().join("mounted");
        std::fs::create_dir(&mounted)?;
        let at = mounted.display().to_string();
        run("truncate", &["--size=256M", &image])?;
        run("mkfs.ext4", &["-q", &image])?;
        run("mount", &["-o", "loop", &image, &at])?;
        Ok(Self {
            mounted,
            _folder: folder,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.mounted
    }

    /// Makes it hang.
    pub fn freeze(&self) -> Result<Frozen<'_>> {
        run(
            "fsfreeze",
            &["--freeze", &self.mounted.display().to_string()],
        )?;
        Ok(Frozen(self))
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // A test that fails must not leave processes behind that nobody can end.
        let _ = run(
            "fsfreeze",
            &["--unfreeze", &self.0.mounted.display().to_string()],
        );
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: the last writer may be gone only in a moment.
        let _ = run("umount", &["--lazy", &self.mounted.display().to_string()]);
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let done = Command::new(program).args(arguments).output();
    let done = done.with_context(|| format!("{program} is missing"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(
        done.status.success(),
        "{program} {}: {said}(it needs root and a loop device)",
        arguments.join(" ")
    );
    Ok(())
}
