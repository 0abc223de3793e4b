//! `cargo xtask tools`: builds the real servers from the pins in `tools/`.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::cache;

use crate::command::{self, program};
use crate::stopwatch::Stopwatch;
use crate::{axe, failpoints, module_definitions, packages, python};

/// Build or fetch the real servers that the tests use.
///
/// Builds kube-apiserver, kube-controller-manager, kubectl, helm, etcd 3.5, 3.6 and 3.7, and an
/// etcd with failpoints, with Go from the pins in tools/. Extracts etcd 3.4, Prometheus, promtool
/// and `VictoriaMetrics` from Debian's packages without installing them. Fetches the custom
/// resource definitions of Gardener, Cluster API and open-cluster-management, the Python client for
/// Kubernetes, and axe-core. The first run takes about ten minutes on two cores; later runs keep
/// what exists. The folder is in `KELPIE_CACHE`, else in `XDG_CACHE_HOME/kelpie`, else in
/// `~/.cache/kelpie`. If `KUBEBUILDER_ASSETS` names a folder with a kube-apiserver and an etcd, its
/// binaries are used instead of being built.
#[derive(clap::Args)]
pub(crate) struct ToolsArgs {
    /// Install missing Debian packages first; needs root
    #[arg(long)]
    packages: bool,
    /// Print the folder to stdout, and nothing else
    #[arg(long)]
    print: bool,
}

/// A program that is built with Go.
struct GoProgram {
    name: &'static str,
    /// The module under `tools/` that pins its version.
    module: &'static str,
    /// The Go package with its main function.
    package: &'static str,
}

const GO_PROGRAMS: [GoProgram; 7] = [
    kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes(
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    GoProgram {
        name: "helm",
        module: "helm",
        package: "helm.sh/helm/v4/cmd/helm",
    },
    etcd("etcd-3.5"),
    etcd("etcd-3.6"),
    etcd("etcd-3.7"),
];

/// The version behind the name `etcd`: the one that the pinned Kubernetes is released with.
const DEFAULT_ETCD: &str = "etcd-3.6";

/// A version that no longer builds with current Go. It is extracted from a Debian package.
const DEBIAN_ETCD: &str = "etcd-3.4";

/// Other programs from Debian packages: name, package, and file in the package. Collectors read
/// from Prometheus, and write to Prometheus and `VictoriaMetrics`; promtool tests alert rules.
const DEBIAN_PROGRAMS: [(&str, &str, &str); 3] = [
    ("promtool", "prometheus", "usr/bin/promtool"),
    ("prometheus", "prometheus", "usr/bin/prometheus"),
    (
        "victoria-metrics",
        "victoria-metrics",
        "usr/bin/victoria-metrics",
    ),
];

/// Custom resource definitions: a module of `tools/crds`, the folder in it, and the API group.
const CRD_MODULES: [(&str, &str, &str); 2] = [
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

const fn kubernetes(name: &'static str, package: &'static str) -> GoProgram {
    GoProgram {
        name,
        module: "kubernetes",
        package,
    }
}

const fn etcd(name: &'static str) -> GoProgram {
    GoProgram {
        name,
        module: name,
        package: "go.etcd.io/etcd/server/v3",
    }
}

pub(crate) fn run(arguments: &ToolsArgs) -> Result<()> {
    if arguments.packages {
        packages::provide()?;
    }
    let folder = provide()?;
    if arguments.print {
        println!("{}", folder.display());
    }
    Ok(())
}

/// Returns what is missing in the folder, in the order in which it is created.
pub(crate) fn missing(folder: &Path) -> Vec<&'static str> {
    let missing = |name: &&str| !folder.join(name).exists();
    cache::CONTENT.into_iter().filter(missing).collect()
}

/// Returns an error if something is missing and Go, which most of it is built with, is too.
pub(crate) fn check_go(missing: &[&str]) -> Result<()> {
    let is_built = |name: &&str| GO_PROGRAMS.iter().any(|program| program.name == *name);
    let built = missing.iter().any(is_built);
    if built && cache::assets().is_none() {
        go_in(Path::new("."), &[]).map(|_| ())?;
    }
    Ok(())
}

/// Creates what is missing in the folder, and returns the folder. Progress goes to stderr.
fn provide() -> Result<PathBuf> {
    let folder = cache::folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let _lock = lock(&folder)?;
    eprintln!("servers in {}", folder.display());

    let missing = missing(&folder);
    let present = cache::CONTENT.len() - missing.len();
    for name in &missing {
        let watch = Stopwatch::start();
        let how = provide_one(name, &folder).with_context(|| format!("providing {name}"))?;
        eprintln!("  {name}: {how} in {}", watch.read());
    }
    match missing.len() {
        0 => eprintln!("  all {present} present"),
        created => eprintln!("  {present} present, {created} created"),
    }
    Ok(folder)
}

/// Creates one entry of the folder. Returns how that was done.
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
    if name == DEBIAN_ETCD {
        extract_etcd(folder)?;
        return Ok("extracted from a Debian package");
    }
    if let Some((_, package, file)) = DEBIAN_PROGRAMS
        .iter()
        .find(|(program, ..)| *program == name)
    {
        let unpacked = folder.join(format!(".{name}.unpacked"));
        packages::extract(package, file, &unpacked, &folder.join(name))?;
        return Ok("extracted from a Debian package");
    }
    if name == "crds" {
        fetch_definitions(folder)?;
        return Ok("fetched");
    }
    let mut definitions = module_definitions::ALL.iter();
    if let Some(definitions) = definitions.find(|definitions| definitions.entry == name) {
        definitions.fetch(folder, go_in(folder, &["mod", "download"])?)?;
        return Ok("fetched");
    }
    if name == cache::FAILPOINTS {
        failpoints::build(
            folder,
            &cache::repository().join("tools").join(DEFAULT_ETCD),
            go_in,
        )?;
        return Ok("built");
    }
    if name == cache::PYTHON {
        python::fetch(folder)?;
        return Ok("fetched");
    }
    if name == cache::AXE {
        axe::fetch(folder)?;
        return Ok("fetched");
    }
    let program = GO_PROGRAMS.iter().find(|program| program.name == name);
    build(program.context("no rule to create it")?, folder)?;
    Ok("built")
}

/// Creates a link, and replaces a dangling one.
fn link(to: &Path, from: &Path) -> Result<()> {
    if from.is_symlink() {
        fs::remove_file(from)?;
    }
    symlink(to, from).with_context(|| format!("linking {}", from.display()))
}

/// Extracts etcd 3.4. Debian may upgrade the package some day, so the version is checked.
fn extract_etcd(folder: &Path) -> Result<()> {
    let partial = folder.join(".etcd-3.4.partial");
    let unpacked = folder.join(".etcd-3.4.unpacked");
    packages::extract("etcd-server", "usr/bin/etcd", &unpacked, &partial)?;
    let version = command::read(&mut program(&partial, &["--version"]))?;
    if !version.contains("etcd Version: 3.4.") {
        bail!(
            "Debian's etcd-server is no longer 3.4, but {:?}: put an etcd 3.4 at {}",
            version.lines().next().unwrap_or_default(),
            folder.join(DEBIAN_ETCD).display()
        );
    }
    fs::rename(&partial, folder.join(DEBIAN_ETCD))?;
    Ok(())
}

/// Builds to a temporary file and renames it, so that a killed build leaves no partial program.
fn build(program: &GoProgram, folder: &Path) -> Result<()> {
    eprintln!("  {}: building …", program.name);
    let partial = folder.join(format!(".{}.partial", program.name));
    let mut build = go(
        program.module,
        &["build", "-buildvcs=false", "-mod=readonly"],
    )?;
    build.arg(format!("-ldflags={}", link_flags(program)?));
    build.arg("-o").arg(&partial).arg(program.package);
    command::run(&mut build)?;
    fs::rename(&partial, folder.join(program.name))?;
    Ok(())
}

/// Strips symbols, which halves the size, and sets the version of Kubernetes.
fn link_flags(program: &GoProgram) -> Result<String> {
    let strip = "-s -w".to_owned();
    if program.module != "kubernetes" {
        return Ok(strip);
    }
    let version = cache::kubernetes_version()?;
    let mut numbers = version.trim_start_matches('v').split('.');
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        bail!("the pinned Kubernetes version {version} has no minor version");
    };
    let variables = [
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
    Ok(variables.iter().fold(strip, |flags, (key, value)| {
        packages.iter().fold(flags, |flags, package| {
            format!("{flags} -X {package}.{key}={value}")
        })
    }))
}

/// Copies the definitions from Go's module cache, whose content go.sum has verified.
fn fetch_definitions(folder: &Path) -> Result<()> {
    let modules = command::read(&mut go("crds", &["mod", "download", "-json"])?)?;
    let modules: Vec<Value> = serde_json::Deserializer::from_str(&modules)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("reading the output of go mod download")?;
    let partial = folder.join(".crds.partial");
    fs::create_dir_all(&partial)?;
    for (module, definitions, group) in CRD_MODULES {
        let found = modules.iter().find(|found| found["Path"] == module);
        let source = found.and_then(|found| found["Dir"].as_str());
        let source = source.with_context(|| format!("tools/crds does not pin {module}"))?;
        let source = Path::new(source).join(definitions);
        let mut copied = 0;
        for file in fs::read_dir(&source).with_context(|| source.display().to_string())? {
            let file = file?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if let Some(resource) = definition_of(group, &name) {
                // Written instead of copied: a copy from Go's module cache would be read-only.
                fs::write(
                    partial.join(format!("{resource}.{group}.yaml")),
                    fs::read(&file)?,
                )?;
                copied += 1;
            }
        }
        if copied == 0 {
            bail!("{} no longer has a definition of {group}", source.display());
        }
    }
    fs::rename(&partial, folder.join("crds"))?;
    Ok(())
}

/// Returns the plural resource that a file such as `10-crd-GROUP_machines.yaml` defines.
fn definition_of<'a>(group: &str, file: &'a str) -> Option<&'a str> {
    let name = file.trim_start_matches("10-crd-").strip_suffix(".yaml")?;
    name.strip_prefix(group)?.strip_prefix('_')
}

/// Prepares a Go command in a module under `tools/`.
fn go(module: &str, args: &[&str]) -> Result<Command> {
    go_in(&cache::repository().join("tools").join(module), args)
}

fn go_in(folder: &Path, args: &[&str]) -> Result<Command> {
    if !command::is_installed("go") {
        bail!(
            "Go is missing, which builds the real Kubernetes and etcd: install Go 1.26 or newer \
             (https://go.dev/dl), or use `cargo xtask test --fast`"
        );
    }
    let mut go = program("go", args);
    go.current_dir(folder);
    // Uses the installed toolchain and never downloads another one.
    go.env("GOTOOLCHAIN", "local").env("GOWORK", "off");
    Ok(go)
}

/// Locks the folder, so that two concurrent commands do not build the same programs.
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
    fn every_entry_has_a_rule() {
        for name in cache::CONTENT {
            let built = GO_PROGRAMS.iter().any(|program| program.name == name);
            let from_debian = DEBIAN_PROGRAMS.iter().any(|(program, ..)| *program == name);
            let special = ["etcd", DEBIAN_ETCD, "crds"].contains(&name);
            let mut definitions = module_definitions::ALL.iter();
            let is_module = definitions.any(|definitions| definitions.entry == name);
            let fetched =
                is_module || [cache::AXE, cache::FAILPOINTS, cache::PYTHON].contains(&name);
            assert!(built || from_debian || special || fetched, "{name}");
        }
        assert!(
            GO_PROGRAMS
                .iter()
                .any(|program| program.name == DEFAULT_ETCD)
        );
    }

    #[test]
    fn definitions_are_recognised_by_file_name() {
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
    fn kubernetes_gets_its_version_as_link_flags() {
        let flags = link_flags(&GO_PROGRAMS[0]).unwrap();
        let version = cache::kubernetes_version().unwrap();
        assert!(flags.contains(&format!("component-base/version.gitVersion={version} ")));
        assert!(flags.contains("component-base/version.gitMajor=1 "));
        assert_eq!(link_flags(&etcd("etcd-3.6")).unwrap(), "-s -w");
    }
}
