//! Builds an etcd whose code can be made to hang at certain places, as etcd's own tests do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::cache;

use crate::command::{self, program};

/// The tool that turns the failpoints in etcd's comments into code, and the library that they call.
const GOFAIL: &str = "go.etcd.io/gofail";

/// The lines of go.sum for [`GOFAIL`].
const CHECKSUMS: &str = "\
go.etcd.io/gofail v0.2.0 h1:p19drv16FKK345a09a1iubchlw/vmRuksmRzgBIGjcA=
go.etcd.io/gofail v0.2.0/go.mod h1:nL3ILMGfkXTekKI3clMBNazKnjUZjYLKmBHzsVAnC1o=
";

const SERVER: &str = "go.etcd.io/etcd/server/v3";

/// The packages of the server with failpoints that the tests use.
const PACKAGES: [&str; 5] = [
    "etcdserver",
    "etcdserver/api/v3rpc",
    "storage/backend",
    "storage/mvcc",
    "storage/wal",
];

/// Builds it from the server that `pins` requires. `go` prepares a Go command in a folder.
pub(crate) fn build(
    folder: &Path,
    pins: &Path,
    go: impl Fn(&Path, &[&str]) -> Result<Command>,
) -> Result<()> {
    let work = folder.join(".failpoints.partial");
    // A killed run may have left it behind.
    let _ = fs::remove_dir_all(&work);
    let source = work.join("server");
    let downloaded = command::read(&mut go(pins, &["mod", "download", "-json", SERVER])?)?;
    copy(&module_folder(&downloaded)?, &source)?;
    fs::copy(pins.join("go.mod"), work.join("go.mod"))?;
    let mut checksums = fs::read_to_string(pins.join("go.sum"))?;
    checksums.push_str(CHECKSUMS);
    fs::write(work.join("go.sum"), checksums)?;

    let (_, version) = cache::FAILPOINTS
        .rsplit_once('-')
        .context("the name has no version")?;
    let require = format!("-require={GOFAIL}@{version}");
    let replace = format!("-replace={SERVER}=./server");
    command::run(&mut go(&source, &["mod", "edit", &require])?)?;
    command::run(&mut go(&work, &["mod", "edit", &require, &replace])?)?;
    let tool = work.join("gofail").display().to_string();
    command::run(&mut go(&work, &["build", "-mod=mod", "-o", &tool, GOFAIL])?)?;
    let mut enable = program(&tool, &["enable"]);
    enable.args(PACKAGES).current_dir(&source);
    command::run(&mut enable)?;
    let built = work.join("etcd").display().to_string();
    let flags = [
        "build",
        "-buildvcs=false",
        "-mod=mod",
        "-ldflags=-s -w",
        "-o",
        &built,
        SERVER,
    ];
    command::run(&mut go(&work, &flags)?)?;
    fs::rename(&built, folder.join(cache::FAILPOINTS))?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

fn module_folder(downloaded: &str) -> Result<PathBuf> {
    let module: Value = serde_json::from_str(downloaded).context("reading go mod download")?;
    let folder = module["Dir"].as_str();
    Ok(PathBuf::from(
        folder.context("go mod download names no folder")?,
    ))
}

/// Copies a folder. The copies of files from Go's module cache are writable, unlike the originals.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::write(&target, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}
