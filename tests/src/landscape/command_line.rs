//! The command line of a component of the product.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::folder::Folder;

/// `kelpie COMPONENT` with this configuration, and the folder that holds it.
pub(super) fn command_line(
    component: &str,
    kubeconfig: &Path,
    config: &str,
    flags: &[&str],
) -> Result<(Folder, Vec<String>)> {
    let folder = Folder::new(component)?;
    let file = folder.path().join("config.yaml");
    fs::write(&file, config)?;
    let fixed = [
        component.to_owned(),
        format!("--config-file={}", file.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--metrics-bind-addr=127.0.0.1:0".to_owned(),
        "--health-bind-addr=127.0.0.1:0".to_owned(),
    ];
    let name = |flag: &str| flag.split('=').next().map(str::to_owned);
    let given: Vec<_> = flags.iter().map(|flag| name(flag)).collect();
    // A flag that a test gives stands in the place of the usual one.
    let usual = fixed
        .into_iter()
        .filter(|flag| !given.contains(&name(flag)));
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    Ok((folder, usual.chain(flags).collect()))
}
