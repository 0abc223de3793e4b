//! The files of a record: bounded in size and number, the oldest are deleted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::RecordSettings;

const PREFIX: &str = "kelpie-record-";
const SUFFIX: &str = ".jsonl";

/// Returns the files of a record in a folder, oldest first.
pub(super) fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut numbered = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if let Some(number) = number(&path) {
            numbered.push((number, path));
        }
    }
    numbered.sort();
    Ok(numbered.into_iter().map(|(_, path)| path).collect())
}

fn number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix(PREFIX)?
        .strip_suffix(SUFFIX)?
        .parse()
        .ok()
}

/// The file that is written, and those before it.
#[derive(Debug)]
pub(super) struct RecordFiles {
    directory: PathBuf,
    file_bytes: u64,
    keep: usize,
    header: Vec<u8>,
    file: File,
    written: u64,
}

impl RecordFiles {
    /// Creates the next file in the folder of the settings, which is created if need be. The
    /// record of an earlier process stays as it is.
    pub(super) fn create(settings: &RecordSettings, header: Vec<u8>) -> io::Result<Self> {
        fs::create_dir_all(&settings.directory)?;
        let keep = settings.files.max(1);
        let file = begin(&settings.directory, keep, &header)?;
        Ok(Self {
            directory: settings.directory.clone(),
            file_bytes: settings.file_bytes,
            keep,
            written: header.len() as u64,
            header,
            file,
        })
    }

    /// Writes whole lines.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)?;
        self.written += lines.len() as u64;
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.written >= self.file_bytes
    }

    /// Goes on in a new file.
    pub(super) fn next(&mut self) -> io::Result<()> {
        self.file = begin(&self.directory, self.keep, &self.header)?;
        self.written = self.header.len() as u64;
        Ok(())
    }
}

/// Deletes files that are too many, and creates the next one with its header.
fn begin(directory: &Path, keep: usize, header: &[u8]) -> io::Result<File> {
    let files = list(directory)?;
    let next = files.last().and_then(|path| number(path)).unwrap_or(0);
    let path = directory.join(format!("{PREFIX}{:08}{SUFFIX}", next.saturating_add(1)));
    let surplus = (files.len() + 1).saturating_sub(keep);
    for old in files.iter().take(surplus) {
        fs::remove_file(old)?;
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    if let Err(error) = file.write_all(header) {
        // It says nothing, and its number is used again.
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    Ok(file)
}
