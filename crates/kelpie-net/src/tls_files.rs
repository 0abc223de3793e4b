//! Certificates in files that change while the process runs.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use secrecy::SecretSlice;

use crate::identity::{Identity, TlsConfigError};
use crate::tls::Roots;

/// Limits the size of a certificate file. No real one is larger.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Certificate files that cannot be used. `path` is the file at fault.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the doc of the enum explains the fields")]
pub enum TlsFilesError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file is larger than any certificate file.
    #[error("{}: larger than 1 MiB: not a certificate file", path.display())]
    TooLarge { path: PathBuf },
    /// The file was read, but its content cannot be used.
    #[error("{}: {source}", path.display())]
    Invalid {
        path: PathBuf,
        source: TlsConfigError,
    },
}

/// The paths of certificate files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFilePaths {
    /// The certificate chain and the private key, both PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The certificate authorities as PEM.
    pub roots: Option<PathBuf>,
}

/// Certificates from files. Calling [`TlsFiles::refresh`] before each use is cheap: it compares
/// file metadata and reads the files only after a change.
#[derive(Debug)]
pub struct TlsFiles {
    paths: TlsFilePaths,
    loaded: LoadedTls,
    /// The metadata from before `loaded` was read. Empty after a failed read, so that the next
    /// refresh reads again.
    stamps: Vec<FileStamp>,
}

#[derive(Debug, Clone)]
struct LoadedTls {
    identity: Option<Identity>,
    roots: Option<Roots>,
}

/// File metadata that changes when a file is written or replaced: the inode, the length, and the
/// seconds and nanoseconds of the last write.
type FileStamp = (u64, u64, i64, i64);

impl TlsFiles {
    /// Reads the files. An error in any of them fails the call.
    pub fn load(paths: TlsFilePaths) -> Result<Self, TlsFilesError> {
        let stamps = paths.stamps()?;
        let loaded = paths.read()?;
        Ok(Self {
            paths,
            loaded,
            stamps,
        })
    }

    /// Reads the files again if they have changed, and returns true if so.
    ///
    /// Files that are missing, incomplete or not a pair fail every call until they are valid again.
    /// Until then the certificates that were read before stay in use.
    pub fn refresh(&mut self) -> Result<bool, TlsFilesError> {
        // Taken before the files are read, so that a change in between is noticed by the next
        // refresh.
        let stamps = self.paths.stamps()?;
        if stamps == self.stamps {
            return Ok(false);
        }
        self.stamps.clear();
        self.loaded = self.paths.read()?;
        self.stamps = stamps;
        Ok(true)
    }

    /// Returns the certificate and key as last read, or `None` if there are no paths for them.
    pub fn identity(&self) -> Option<&Identity> {
        self.loaded.identity.as_ref()
    }

    /// Returns the authorities as last read, or `None` if there is no path for them.
    pub fn roots(&self) -> Option<&Roots> {
        self.loaded.roots.as_ref()
    }
}

impl TlsFilePaths {
    fn stamps(&self) -> Result<Vec<FileStamp>, TlsFilesError> {
        let pair = self.identity.iter().flat_map(|(chain, key)| [chain, key]);
        pair.chain(&self.roots).map(|path| stamp(path)).collect()
    }

    fn read(&self) -> Result<LoadedTls, TlsFilesError> {
        let identity = self.identity.as_ref();
        let identity = identity.map(|(chain, key)| read_identity(chain, key));
        let roots = self.roots.as_ref().map(|path| {
            let roots = Roots::from_pem(&read(path)?);
            roots.map_err(|source| invalid(path, source))
        });
        Ok(LoadedTls {
            identity: identity.transpose()?,
            roots: roots.transpose()?,
        })
    }
}

fn read_identity(chain: &Path, key: &Path) -> Result<Identity, TlsFilesError> {
    let secret = SecretSlice::from(read(key)?);
    Identity::from_pem(&read(chain)?, &secret).map_err(|source| match source {
        TlsConfigError::Key | TlsConfigError::KeyKind | TlsConfigError::Mismatch => {
            invalid(key, source)
        }
        _ => invalid(chain, source),
    })
}

fn stamp(path: &Path) -> Result<FileStamp, TlsFilesError> {
    let found = std::fs::metadata(path).map_err(|source| unreadable(path, source))?;
    let (seconds, nanos) = (found.mtime(), found.mtime_nsec());
    Ok((found.ino(), found.len(), seconds, nanos))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFilesError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    let mut bytes = Vec::new();
    let mut limited = file.take(MAX_FILE_BYTES + 1);
    let read = limited.read_to_end(&mut bytes);
    read.map_err(|source| unreadable(path, source))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(TlsFilesError::TooLarge { path: path.into() });
    }
    Ok(bytes)
}

fn unreadable(path: &Path, source: io::Error) -> TlsFilesError {
    TlsFilesError::Read {
        path: path.into(),
        source,
    }
}

fn invalid(path: &Path, source: TlsConfigError) -> TlsFilesError {
    TlsFilesError::Invalid {
        path: path.into(),
        source,
    }
}
