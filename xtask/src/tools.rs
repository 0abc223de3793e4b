//! `cargo xtask tools`: builds the real servers from the pins in `tools/`, once.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::cache;

use crate::command::{self, program};
use crate::stopwatch::Stopwatch;
use crate::{open_cluster, packages};

/// Provide the real servers the tests run.
///
/// Builds kube-apiserver, kube-controller-manager, kubectl, helm and etcd 3.5, 3.6 and 3.7 with Go from
/// the pins in tools/, takes etcd 3.4, Prometheus, promtool and `VictoriaMetrics` out of Debian's
/// packages (nothing is installed, no service starts), and fetches the custom resource definitions of
/// Gardener and of open-cluster-management, and Python's client for Kubernetes. The first time takes
/// about ten minutes on two cores; what is there is kept. The folder stands in `KELPIE_CACHE`,
/// else `XDG_CACHE_HOME/kelpie`, else `~/.cache/kelpie`. If `KUBEBUILDER_ASSETS` names a folder
/// with a kube-apiserver and an etcd, its binaries are taken instead of built.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print only the folder on stdout
    #[arg(long)]
    print: bool,
}

/// A server or its client, the module of `tools/` that pins it, and the Go package it is built from.
struct Server {
    name: &'static str,
    module: &'static str,
    package: &'static str,
}

const SERVERS: [Server; 7] = [
    kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes(
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    Server {
        name: "helm",
        module: "helm",
        package: "helm.sh/helm/v4/cmd/helm",
    },
    etcd("etcd-3.5"),
    etcd("etcd-3.6"),
    etcd("etcd-3.7"),
];

/// Plain `etcd` is this one: the line that the pinned Kubernetes is released with.
const DEFAULT_ETCD: &str = "etcd-3.6";

/// The line that no pin can build any more: it comes from a Debian package.
const DEBIANS_ETCD: &str = "etcd-3.4";

/// From Debian's packages too: a name, the package that has it, and the file it is there. Prometheus is
/// what collectors read from and, like `VictoriaMetrics`, what they write to; promtool judges alert rules.
const DEBIANS: [(&str, &str, &str); 3] = [
    ("promtool", "prometheus", "usr/bin/promtool"),
    ("prometheus", "prometheus", "usr/bin/prometheus"),
    (
        "victoria-metrics",
        "victoria-metrics",
        "usr/bin/victoria-metrics",
    ),
];

/// A module of `tools/crds`, its folder of definitions, and the API group the tests need of it.
const DEFINITIONS: [(&str, &str, &str); 2] = [
    (
        "github.com/gardener/gardener",
        "example/seed-crds",
        "extensions.gardener.cloud",
    ),
    (
        "github.com/gardener/machine-controller-manager",
        "kubernetes/crds",
        "machine.sapcloud.io",
    ),
];

const fn kubernetes(name: &'static str, package: &'static str) -> Server {
    Server {
        name,
        module: "kubernetes",
        package,
    }
}

const fn etcd(name: &'static str) -> Server {
    Server {
        name,
        module: name,
        package: "go.etcd.io/etcd/server/v3",
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (folder, _) = provide()?;
    if arguments.print {
        println!("{}", folder.display());
    }
    Ok(())
}

/// Fills the folder and says what it had to do for it. Progress goes to stderr.
pub(crate) fn provide() -> Result<(PathBuf, String)> {
    let folder = cache::folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let _lock = lock(&folder)?;
    eprintln!("servers in {}", folder.display());

    let missing = |name: &&str| !folder.join(name).exists();
    let missing: Vec<&str> = cache::CONTENT.into_iter().filter(missing).collect();
    let there = cache::CONTENT.len() - missing.len();
    for name in &missing {
        let watch = Stopwatch::start();
        let how = provide_one(name, &folder).with_context(|| format!("providing {name}"))?;
        eprintln!("  {name}: {how} in {}", watch.read());
    }
    let did = match missing.len() {
        0 => format!("all {there} were there"),
        made => format!("{there} were there, {made} made: {}", missing.join(", ")),
    };
    eprintln!("  {did}");
    Ok((folder, did))
}

/// Makes what is missing and says how.
fn provide_one(name: &str, folder: &Path) -> Result<&'static str> {
    let given = cache::assets().map(|assets| assets.join(name));
    if let Some(given) = given.filter(|path| path.is_file()) {
        link(&given, &folder.join(name))?;
        return Ok("linked from KUBEBUILDER_ASSETS");
    }
    if name == "etcd" {
        link(Path::new(DEFAULT_ETCD), &folder.join(name))?;
        return Ok("linked to etcd-3.6");
    }
    if name == DEBIANS_ETCD {
        extract_etcd(folder)?;
        return Ok("taken out of Debian's package");
    }
    if let Some((_, package, file)) = DEBIANS.iter().find(|(debians, ..)| *debians == name) {
        let unpacked = folder.join(format!(".{name}.unpacked"));
        packages::extract(package, file, &unpacked, &folder.join(name))?;
        return Ok("taken out of Debian's package");
    }
    if name == "crds" {
        fetch_definitions(folder)?;
        return Ok("fetched");
    }
    if name == cache::OPEN_CLUSTER {
        open_cluster::fetch(folder, go_in(folder, &["mod", "download"])?)?;
        return Ok("fetched");
    }
    if name == cache::PYTHON {
        fetch_python(folder)?;
        return Ok("fetched");
    }
    let server = SERVERS.iter().find(|server| server.name == name);
    build(server.context("no such server")?, folder)?;
    Ok("built")
}

/// Replaces a link that leads nowhere any more.
fn link(to: &Path, from: &Path) -> Result<()> {
    if from.is_symlink() {
        fs::remove_file(from)?;
    }
    symlink(to, from).with_context(|| format!("linking {}", from.display()))
}

/// Debian may move on to another line one day: then this says so, once.
fn extract_etcd(folder: &Path) -> Result<()> {
    let partial = folder.join(".etcd-3.4.partial");
    let unpacked = folder.join(".etcd-3.4.unpacked");
    packages::extract("etcd-server", "usr/bin/etcd", &unpacked, &partial)?;
    let version = command::read(&mut program(&partial, &["--version"]))?;
    if !version.contains("etcd Version: 3.4.") {
        bail!(
            "Debian's etcd-server is not 3.4 any more, but {:?}: put an etcd 3.4 at {}",
            version.lines().next().unwrap_or_default(),
            folder.join(DEBIANS_ETCD).display()
        );
    }
    fs::rename(&partial, folder.join(DEBIANS_ETCD))?;
    Ok(())
}

/// Builds beside the final place and renames: a killed build leaves no half server.
fn build(server: &Server, folder: &Path) -> Result<()> {
    eprintln!("  {}: building …", server.name);
    let partial = folder.join(format!(".{}.partial", server.name));
    let mut build = go(
        server.module,
        &["build", "-buildvcs=false", "-mod=readonly"],
    )?;
    build.arg(format!("-ldflags={}", link_flags(server)?));
    build.arg("-o").arg(&partial).arg(server.package);
    command::run(&mut build)?;
    fs::rename(&partial, folder.join(server.name))?;
    Ok(())
}

/// Without symbols, which halves the size; Kubernetes also wants to be told its version.
fn link_flags(server: &Server) -> Result<String> {
    let strip = "-s -w".to_owned();
    if server.module != "kubernetes" {
        return Ok(strip);
    }
    let version = cache::kubernetes_version()?;
    let mut numbers = version.trim_start_matches('v').split('.');
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        bail!("the pinned Kubernetes version {version} has no minor");
    };
    let facts = [
        ("gitVersion", version.as_str()),
        ("gitMajor", major),
        ("gitMinor", minor),
        ("gitCommit", ""),
        ("gitTreeState", "archive"),
    ];
    let packages = [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ];
    Ok(facts.iter().fold(strip, |flags, (key, value)| {
        packages.iter().fold(flags, |flags, package| {
            format!("{flags} -X {package}.{key}={value}")
        })
    }))
}

/// Copies the definitions out of Go's module cache, where go.sum has vouched for them.
fn fetch_definitions(folder: &Path) -> Result<()> {
    let modules = command::read(&mut go("crds", &["mod", "download", "-json"])?)?;
    let modules: Vec<Value> = serde_json::Deserializer::from_str(&modules)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("reading what go mod download says")?;
    let partial = folder.join(".crds.partial");
    fs::create_dir_all(&partial)?;
    for (module, definitions, group) in DEFINITIONS {
        let found = modules.iter().find(|found| found["Path"] == module);
        let source = found.and_then(|found| found["Dir"].as_str());
        let source = source.with_context(|| format!("tools/crds does not pin {module}"))?;
        let source = Path::new(source).join(definitions);
        let mut copied = 0;
        for file in fs::read_dir(&source).with_context(|| source.display().to_string())? {
            let file = file?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if let Some(resource) = definition_of(group, &name) {
                // Written, not copied: Go's module cache is read-only and so would be the copy.
                fs::write(
                    partial.join(format!("{resource}.{group}.yaml")),
                    fs::read(&file)?,
                )?;
                copied += 1;
            }
        }
        if copied == 0 {
            bail!("{} has no definition of {group} any more", source.display());
        }
    }
    fs::rename(&partial, folder.join("crds"))?;
    Ok(())
}

/// Puts Python's client and what it imports into a folder of their own: nothing is installed.
fn fetch_python(folder: &Path) -> Result<()> {
    if command::read(&mut program("python3", &["-m", "pip", "--version"])).is_err() {
        bail!(
            "python3 or its pip is missing: install both (on Debian, `apt-get install python3-pip`); \
             `cargo xtask test --fast` does without"
        );
    }
    let partial = folder.join(".python.partial");
    // What a killed run has left behind.
    let _ = fs::remove_dir_all(&partial);
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    let mut pip = program("python3", &pip);
    pip.args([
        "--root-user-action=ignore",
        "--no-deps",
        "--no-compile",
        "--target",
    ]);
    pip.arg(&partial);
    pip.arg("--requirement").arg(requirements());
    command::run(&mut pip)?;
    fs::rename(&partial, folder.join(cache::PYTHON))?;
    Ok(())
}

fn requirements() -> PathBuf {
    cache::repository().join("tools/python/requirements.txt")
}

/// The resource (plural) a file such as `10-crd-GROUP_machines.yaml` defines.
fn definition_of<'a>(group: &str, file: &'a str) -> Option<&'a str> {
    let name = file.trim_start_matches("10-crd-").strip_suffix(".yaml")?;
    name.strip_prefix(group)?.strip_prefix('_')
}

/// Go in a module under `tools/`.
fn go(module: &str, args: &[&str]) -> Result<Command> {
    go_in(&cache::repository().join("tools").join(module), args)
}

fn go_in(folder: &Path, args: &[&str]) -> Result<Command> {
    if !command::is_installed("go") {
        bail!(
            "Go is missing: install Go 1.26 or newer (https://go.dev/dl), it builds the real \
             Kubernetes and etcd; `cargo xtask test --fast` does without"
        );
    }
    let mut go = program("go", args);
    go.current_dir(folder);
    // The toolchain that is installed: no download of another one behind the user's back.
    go.env("GOTOOLCHAIN", "local").env("GOWORK", "off");
    Ok(go)
}

/// Held while the folder is being filled, so that two commands at once do not build the same.
fn lock(folder: &Path) -> Result<File> {
    let lock = File::create(folder.join(".lock"))?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another `{}` to end …", cache::PROVIDE);
            lock.lock()?;
        }
        other => other?,
    }
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promised_thing_has_a_way_to_be_made() {
        for name in cache::CONTENT {
            let built = SERVERS.iter().any(|server| server.name == name);
            let debians = DEBIANS.iter().any(|(debians, ..)| *debians == name);
            let special = ["etcd", DEBIANS_ETCD, "crds"].contains(&name);
            let fetched = [cache::OPEN_CLUSTER, cache::PYTHON].contains(&name);
            assert!(built || debians || special || fetched, "{name}");
        }
        assert!(SERVERS.iter().any(|server| server.name == DEFAULT_ETCD));
    }

    #[test]
    fn pythons_client_is_the_one_that_is_required() {
        let required = fs::read_to_string(requirements()).unwrap();
        let line = cache::PYTHON.replace("python-kubernetes-", "kubernetes==");
        assert!(required.lines().any(|found| found == line), "{line}");
    }

    #[test]
    fn a_definition_is_known_by_its_file_name() {
        let group = "machine.sapcloud.io";
        let of = |file| definition_of(group, file);
        assert_eq!(of("machine.sapcloud.io_machines.yaml"), Some("machines"));
        assert_eq!(
            of("10-crd-machine.sapcloud.io_machines.yaml"),
            Some("machines")
        );
        assert_eq!(of("10-crd-perses.dev_perses.yaml"), None);
        assert_eq!(of("doc.go"), None);
    }

    #[test]
    fn kubernetes_is_told_its_version_etcd_knows_its_own() {
        let flags = link_flags(&SERVERS[0]).unwrap();
        let version = cache::kubernetes_version().unwrap();
        assert!(flags.contains(&format!("component-base/version.gitVersion={version} ")));
        assert!(flags.contains("component-base/version.gitMajor=1 "));
        assert_eq!(link_flags(&etcd("etcd-3.6")).unwrap(), "-s -w");
    }
}
