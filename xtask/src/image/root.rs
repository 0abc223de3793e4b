//! The file system of the image.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::{Context, Result};

/// The user of the image, who has no rights.
pub(super) const USER: u32 = 65_532;

/// The path of the binary. Under its second name it is what Gardener's Deployments of
/// dependency-watchdog start.
pub(super) const FOLDER: &str = "usr/local/bin";
pub(super) const NAME: &str = "kelpie";
const SECOND_NAME: &str = "dependency-watchdog";

/// The certificate authorities, in the place where Debian has them.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Places on this machine where the certificate authorities may be: Debian, Fedora, Alpine.
const SOURCES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Fills an empty folder with what is in the image.
pub(super) fn fill(root: &Path, executable: &Path) -> Result<()> {
    let binaries = root.join(FOLDER);
    fs::create_dir_all(&binaries)?;
    let binary = binaries.join(NAME);
    fs::copy(executable, &binary)?;
    fs::set_permissions(&binary, Permissions::from_mode(0o755))?;
    symlink(NAME, binaries.join(SECOND_NAME))?;

    let authorities = SOURCES.iter().find_map(|source| fs::read(source).ok());
    let authorities = authorities
        .context("this machine has no certificate authorities: install ca-certificates")?;
    write(root, AUTHORITIES, &authorities)?;
    let passwd = format!("root:x:0:0::/:/sbin/nologin\nkelpie:x:{USER}:{USER}::/:/sbin/nologin\n");
    write(root, "etc/passwd", passwd.as_bytes())?;
    write(
        root,
        "etc/group",
        format!("root:x:0:\nkelpie:x:{USER}:\n").as_bytes(),
    )
}

fn write(root: &Path, path: &str, content: &[u8]) -> Result<()> {
    let path = root.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    // The umask of this process must not change the image.
    fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    Ok(())
}
