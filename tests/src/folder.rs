//! A temporary folder for the data, keys and log of one server.

use std::env;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A folder that is removed on drop, unless `KELPIE_KEEP` is set.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new(server: &str) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("kelpie-{server}-"))
            .disable_cleanup(env::var_os("KELPIE_KEEP").is_some())
            .tempdir()
            .context("creating a folder for a server")?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
