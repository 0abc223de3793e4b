//! Certificates in files that change under a running process.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use secrecy::SecretSlice;

use crate::identity::{Identity, TlsError};
use crate::tls::Roots;

/// Larger is no honest certificate file.
const LARGEST_FILE: u64 = 1024 * 1024;

/// Why files give no certificates.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is too large to be what it should be.
    #[error("{}: larger than 1 MiB, which no certificate file is", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// A file was read, but its content is of no use.
    #[error("{}: {source}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: TlsError,
    },
}

/// Where certificates are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePaths {
    /// Certificate chain and private key, both PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Certificate authorities, PEM.
    pub roots: Option<PathBuf>,
}

/// Certificates from files. [`Files::refresh`] before each use is cheap: it looks at the files'
/// stamps and reads them only when these changed.
#[derive(Debug)]
pub struct Files {
    paths: FilePaths,
    content: Content,
    /// Of the files as they were when `content` was read; empty after a failed reading, so that
    /// the next look reads again.
    stamps: Vec<Stamp>,
}

#[derive(Debug, Clone)]
struct Content {
    identity: Option<Identity>,
    roots: Option<Roots>,
}

/// What changes when a file is written or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    seconds: i64,
    nanos: i64,
}

impl Files {
    /// Reads the files; all of them have to be good.
    pub fn load(paths: FilePaths) -> Result<Self, FilesError> {
        let stamps = paths.stamps()?;
        let content = paths.read()?;
        Ok(Self {
            paths,
            content,
            stamps,
        })
    }

    /// Looks whether the files changed, and reads them again if so: true when they did. Files that
    /// are missing, half-written or not a pair are an error at every look until they are good
    /// again; what was read before stays in use.
    pub fn refresh(&mut self) -> Result<bool, FilesError> {
        // Before the reading: a change in between is seen at the next look.
        let stamps = self.paths.stamps()?;
        if stamps == self.stamps {
            return Ok(false);
        }
        self.stamps.clear();
        self.content = self.paths.read()?;
        self.stamps = stamps;
        Ok(true)
    }

    /// Certificate and key as last read; `None` if no paths are given for them.
    pub fn identity(&self) -> Option<&Identity> {
        self.content.identity.as_ref()
    }

    /// Authorities as last read; `None` if no path is given for them.
    pub fn roots(&self) -> Option<&Roots> {
        self.content.roots.as_ref()
    }
}

impl FilePaths {
    fn stamps(&self) -> Result<Vec<Stamp>, FilesError> {
        let pair = self.identity.iter().flat_map(|(chain, key)| [chain, key]);
        pair.chain(&self.roots).map(|path| stamp(path)).collect()
    }

    fn read(&self) -> Result<Content, FilesError> {
        let identity = match &self.identity {
            None => None,
            Some((chain, key)) => {
                let secret = SecretSlice::from(read(key)?);
                let identity = Identity::from_pem(&read(chain)?, &secret);
                Some(identity.map_err(|source| {
                    let at_fault = match source {
                        TlsError::Key | TlsError::KeyKind | TlsError::Mismatch => key,
                        _ => chain,
                    };
                    content(at_fault, source)
                })?)
            }
        };
        let roots = match &self.roots {
            None => None,
            Some(path) => {
                let roots = Roots::from_pem(&read(path)?);
                Some(roots.map_err(|source| content(path, source))?)
            }
        };
        Ok(Content { identity, roots })
    }
}

fn stamp(path: &Path) -> Result<Stamp, FilesError> {
    let found = std::fs::metadata(path).map_err(|source| unread(path, source))?;
    Ok(Stamp {
        inode: found.ino(),
        length: found.len(),
        seconds: found.mtime(),
        nanos: found.mtime_nsec(),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    let file = File::open(path).map_err(|source| unread(path, source))?;
    let mut bytes = Vec::new();
    let mut limited = file.take(LARGEST_FILE + 1);
    let read = limited.read_to_end(&mut bytes);
    read.map_err(|source| unread(path, source))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(FilesError::TooLarge { path: path.into() });
    }
    Ok(bytes)
}

fn unread(path: &Path, source: io::Error) -> FilesError {
    FilesError::Read {
        path: path.into(),
        source,
    }
}

fn content(path: &Path, source: TlsError) -> FilesError {
    FilesError::Content {
        path: path.into(),
        source,
    }
}
