//! The command line of a component of `kelpie`.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::folder::Folder;

/// The flag without which the prober refuses the clusters of tests, which are on loopback.
pub(crate) const ALLOW_LOCAL_CLUSTERS: &str = "--allow-local-clusters";

/// Returns the arguments of `kelpie COMPONENT` with this configuration, and the folder with the
/// configuration file.
pub(super) fn command_line(
    component: &str,
    kubeconfig: &Path,
    config: &str,
    flags: &[&str],
) -> Result<(Folder, Vec<String>)> {
    let folder = Folder::new(component)?;
    let file = folder.path().join("config.yaml");
    fs::write(&file, config)?;
    let defaults = [
        component.to_owned(),
        format!("--config-file={}", file.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--metrics-bind-addr=127.0.0.1:0".to_owned(),
        "--health-bind-addr=127.0.0.1:0".to_owned(),
    ];
    let local = (component == "prober").then(|| ALLOW_LOCAL_CLUSTERS.to_owned());
    let defaults = defaults.into_iter().chain(local);
    let name = |flag: &str| flag.split('=').next().map(str::to_owned);
    let given: Vec<_> = flags.iter().map(|flag| name(flag)).collect();
    // A flag of the test replaces the default.
    let defaults = defaults.filter(|flag| !given.contains(&name(flag)));
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    Ok((folder, defaults.chain(flags).collect()))
}
