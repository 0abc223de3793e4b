//! Certificates that change on disk.

use std::fs;
use std::path::PathBuf;

use kelpie_net::{FilePaths, Files, FilesError, TlsError};
use tempfile::TempDir;

use crate::server::{Authority, Pair};

struct Disk {
    folder: TempDir,
    authority: Authority,
}

impl Disk {
    fn new() -> Self {
        let disk = Self {
            folder: tempfile::tempdir().unwrap(),
            authority: Authority::new(),
        };
        disk.write("ca", &disk.authority.pem());
        let pair = disk.pair();
        disk.write("chain", &pair.chain);
        disk.write("key", &pair.key);
        disk
    }

    fn pair(&self) -> Pair {
        self.authority.sign("x", false)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As Kubernetes does it: the file is replaced, not written over.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    fn load(&self) -> Files {
        Files::load(FilePaths {
            identity: Some((self.path("chain"), self.path("key"))),
            roots: Some(self.path("ca")),
        })
        .unwrap()
    }
}

#[test]
fn files_are_read_again_only_when_they_changed() {
    let disk = Disk::new();
    let mut files = disk.load();
    assert!(files.identity().is_some() && files.roots().is_some());
    assert!(!files.refresh().unwrap());
    let pair = disk.pair();
    disk.write("chain", &pair.chain);
    disk.write("key", &pair.key);
    assert!(files.refresh().unwrap());
    assert!(!files.refresh().unwrap());
}

#[test]
fn a_pair_that_is_half_replaced_keeps_the_old_one_and_is_reported_until_it_is_whole() {
    let disk = Disk::new();
    let mut files = disk.load();
    let pair = disk.pair();
    disk.write("chain", &pair.chain);
    for _ in 0..2 {
        let error = files.refresh().unwrap_err();
        let FilesError::Content { source, path } = error else {
            panic!("{error}")
        };
        assert!(matches!(source, TlsError::Mismatch));
        assert_eq!(path, disk.path("key"));
    }
    assert!(files.identity().is_some());
    disk.write("key", &pair.key[..40]);
    assert!(files.refresh().is_err());
    fs::remove_file(disk.path("key")).unwrap();
    assert!(matches!(files.refresh(), Err(FilesError::Read { .. })));
    disk.write("key", &pair.key);
    assert!(files.refresh().unwrap());
}

#[test]
fn a_file_without_end_is_refused() {
    let paths = FilePaths {
        identity: None,
        roots: Some("/dev/zero".into()),
    };
    let error = Files::load(paths).unwrap_err();
    assert!(matches!(error, FilesError::TooLarge { .. }), "{error}");
}
