//! Certificates that change on disk.

use std::fs;
use std::path::PathBuf;

use kelpie_net::{TlsConfigError, TlsFilePaths, TlsFiles, TlsFilesError};
use tempfile::TempDir;

use crate::fixture::{Authority, SignedCertificate};

struct Fixture {
    folder: TempDir,
    authority: Authority,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self {
            folder: tempfile::tempdir().unwrap(),
            authority: Authority::new(),
        };
        fixture.write("ca", &fixture.authority.pem());
        let certificate = fixture.certificate();
        fixture.write("chain", &certificate.chain);
        fixture.write("key", &certificate.key);
        fixture
    }

    fn certificate(&self) -> SignedCertificate {
        self.authority.sign("x", false)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the file instead of writing over it, as Kubernetes does.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    fn load(&self) -> TlsFiles {
        TlsFiles::load(TlsFilePaths {
            identity: Some((self.path("chain"), self.path("key"))),
            roots: Some(self.path("ca")),
        })
        .unwrap()
    }
}

#[test]
fn files_are_reloaded_only_after_changes() {
    let fixture = Fixture::new();
    let mut files = fixture.load();
    assert!(files.identity().is_some() && files.roots().is_some());
    assert!(!files.refresh().unwrap());
    let certificate = fixture.certificate();
    fixture.write("chain", &certificate.chain);
    fixture.write("key", &certificate.key);
    assert!(files.refresh().unwrap());
    assert!(!files.refresh().unwrap());
}

#[test]
fn half_replaced_pair_keeps_old_certificate() {
    let fixture = Fixture::new();
    let mut files = fixture.load();
    let certificate = fixture.certificate();
    fixture.write("chain", &certificate.chain);
    for _ in 0..2 {
        let error = files.refresh().unwrap_err();
        let TlsFilesError::Invalid { source, path } = error else {
            panic!("{error}")
        };
        assert!(matches!(source, TlsConfigError::Mismatch));
        assert_eq!(path, fixture.path("key"));
    }
    assert!(files.identity().is_some());
    fixture.write("key", &certificate.key[..40]);
    assert!(files.refresh().is_err());
    fs::remove_file(fixture.path("key")).unwrap();
    assert!(matches!(files.refresh(), Err(TlsFilesError::Read { .. })));
    fixture.write("key", &certificate.key);
    assert!(files.refresh().unwrap());
}

#[test]
fn endless_file_is_rejected() {
    let paths = TlsFilePaths {
        identity: None,
        roots: Some("/dev/zero".into()),
    };
    let error = TlsFiles::load(paths).unwrap_err();
    assert!(matches!(error, TlsFilesError::TooLarge { .. }), "{error}");
}
