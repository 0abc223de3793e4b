//! The folder of the real servers, outside the repository and named after their versions.
//!
//! `cargo xtask tools` fills the folder; the end-to-end tests use it. Changed pins result in
//! another folder, so the servers always match the pins of the checkout.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The command that fills the folder.
pub const PROVIDE: &str = "cargo xtask tools";

/// The content of a complete folder: servers, clients, and folders of custom resource definitions.
/// They are created in this order, those that most tests need first.
pub const CONTENT: [&str; 18] = [
    "kube-apiserver",
    "etcd-3.6",
    "etcd",
    "crds",
    "kubectl",
    "kube-controller-manager",
    "helm",
    "etcd-3.4",
    "etcd-3.5",
    "etcd-3.7",
    FAILPOINTS,
    "promtool",
    "prometheus",
    "victoria-metrics",
    OPEN_CLUSTER,
    CLUSTER_API,
    PYTHON,
    AXE,
];

/// An etcd 3.6 whose raft loop, apply loop, store and watches can be made to hang. The version of
/// the instrumentation is part of its own name.
pub const FAILPOINTS: &str = "etcd-failpoints-v0.2.0";

/// The custom resource definitions of open-cluster-management, with their version in the name like
/// that of the Python client.
pub const OPEN_CLUSTER: &str = "open-cluster-management-crds-v1.1.0";

/// The custom resource definitions of Cluster API.
pub const CLUSTER_API: &str = "cluster-api-crds-v1.14.2";

/// The Python client for Kubernetes, a folder for `PYTHONPATH`. Its version is part of its own name
/// and not of the folder's, so that a new version does not cause the servers to be built again.
pub const PYTHON: &str = "python-kubernetes-36.0.3";

/// The rules of axe-core, a folder. Its version is part of its own name like that of the Python
/// client.
pub const AXE: &str = "axe-core-4.14.1";

/// Returns the root of the checkout in which cargo runs this program. Without cargo, it is the
/// checkout in which the program was compiled, which may be another one: two checkouts can share a
/// target folder and thus this binary.
pub fn repository() -> PathBuf {
    let compiled = Path::new(env!("CARGO_MANIFEST_DIR"));
    let running = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = running.as_deref().and_then(root_above);
    root.or_else(|| root_above(compiled))
        .unwrap_or(compiled)
        .to_path_buf()
}

fn root_above(folder: &Path) -> Option<&Path> {
    let is_root = |folder: &&Path| folder.join("tools/kubernetes/go.mod").is_file();
    folder.ancestors().find(is_root)
}

/// Returns the folder of the servers, which may not exist yet.
pub fn folder() -> Result<PathBuf> {
    let root = root(|name| env::var_os(name).map(PathBuf::from))?;
    let pins = pins(&repository().join("tools"))?;
    Ok(root.join(name(&kubernetes_version()?, &pins, assets().as_deref())))
}

/// Returns the path of an entry of [`CONTENT`]. If it is missing, the error names the command that
/// provides it.
pub fn find(name: &str) -> Result<PathBuf> {
    let path = folder()?.join(name);
    if !path.exists() {
        bail!(
            "{name} is missing (looked in {}): run `{PROVIDE}`",
            folder()?.display()
        );
    }
    Ok(path)
}

/// Returns the file of a custom resource definition such as `machines.machine.sapcloud.io`.
pub fn definition(name: &str) -> Result<PathBuf> {
    for folder in ["crds", OPEN_CLUSTER, CLUSTER_API] {
        let file = find(folder)?.join(format!("{name}.yaml"));
        if file.exists() {
            return Ok(file);
        }
    }
    bail!("`{PROVIDE}` fetches no definition of {name}")
}

/// Returns the folder that `KUBEBUILDER_ASSETS` names, if it has an API server and an etcd.
pub fn assets() -> Option<PathBuf> {
    // Links to it are created in other folders, so the path must be absolute.
    let folder = fs::canonicalize(env::var_os("KUBEBUILDER_ASSETS")?).ok()?;
    let has = |name: &str| folder.join(name).is_file();
    (has("kube-apiserver") && has("etcd")).then_some(folder)
}

/// Returns the pinned Kubernetes version, such as `v1.36.4`.
pub fn kubernetes_version() -> Result<String> {
    let path = repository().join("tools/kubernetes/go.mod");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    version_of("k8s.io/kubernetes", &text)
        .with_context(|| format!("{} requires no k8s.io/kubernetes", path.display()))
}

/// Returns the parent of all folders: `KELPIE_CACHE`, else a folder in the user's cache.
fn root(env: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    let set = |name| env(name).filter(|path| !path.as_os_str().is_empty());
    set("KELPIE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|base| base.join("kelpie")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/kelpie")))
        .context("no cache folder: set KELPIE_CACHE, XDG_CACHE_HOME or HOME")
}

/// Returns the contents of every go.mod and go.sum under `tools`, in a fixed order. Folders without
/// a Go module do not affect how the servers are built.
fn pins(tools: &Path) -> Result<Vec<u8>> {
    let mut modules: Vec<PathBuf> = fs::read_dir(tools)
        .with_context(|| format!("reading {}", tools.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    modules.retain(|module| module.join("go.mod").is_file());
    modules.sort();
    let mut all = Vec::new();
    for module in modules {
        for file in ["go.mod", "go.sum"] {
            let path = module.join(file);
            all.extend(fs::read(&path).with_context(|| format!("reading {}", path.display()))?);
        }
    }
    Ok(all)
}

fn name(version: &str, pins: &[u8], assets: Option<&Path>) -> String {
    let key = fnv1a(pins);
    // Servers from `KUBEBUILDER_ASSETS` get a separate folder, because they do not match the pins.
    match assets.map(|path| fnv1a(path.as_os_str().as_encoded_bytes())) {
        None => format!("{version}-{key:016x}"),
        Some(from) => format!("assets-{:016x}", key ^ from),
    }
}

/// FNV-1a, which is stable between Rust releases, unlike the standard hasher.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn version_of(module: &str, go_mod: &str) -> Option<String> {
    go_mod.lines().find_map(|line| {
        let line = line.trim().trim_start_matches("require ");
        let version = line.strip_prefix(module)?.strip_prefix(' ')?;
        version.split_whitespace().next().map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root_with(set: &[(&str, &str)]) -> Result<PathBuf> {
        root(|name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| PathBuf::from(value))
        })
    }

    #[test]
    fn repository_is_found_from_its_crates() {
        let root = repository();
        assert!(root.join("deny.toml").is_file());
        assert_eq!(
            root_above(&root.join("crates/kelpie")),
            Some(root.as_path())
        );
        assert_eq!(root_above(Path::new("/")), None);
    }

    #[test]
    fn environment_selects_the_cache() {
        let all = [
            ("KELPIE_CACHE", "/k"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        assert_eq!(root_with(&all).unwrap(), Path::new("/k"));
        assert_eq!(root_with(&all[1..]).unwrap(), Path::new("/x/kelpie"));
        assert_eq!(root_with(&all[2..]).unwrap(), Path::new("/h/.cache/kelpie"));
        let empty = [("KELPIE_CACHE", ""), ("HOME", "/h")];
        assert_eq!(root_with(&empty).unwrap(), Path::new("/h/.cache/kelpie"));
        assert!(root_with(&[]).is_err());
    }

    #[test]
    fn folder_depends_on_pins_and_assets() {
        let plain = name("v1.2.3", b"pins", None);
        assert!(plain.starts_with("v1.2.3-"), "{plain}");
        assert_eq!(plain, name("v1.2.3", b"pins", None));
        assert_ne!(plain, name("v1.2.3", b"other pins", None));
        assert_ne!(plain, name("v1.2.3", b"pins", Some(Path::new("/assets"))));
    }

    #[test]
    fn version_is_that_of_the_exact_module() {
        let text =
            "require (\n\tk8s.io/kubernetes-csi v0.1.0\n\tk8s.io/kubernetes v1.2.3 // x\n)\n";
        assert_eq!(
            version_of("k8s.io/kubernetes", text).as_deref(),
            Some("v1.2.3")
        );
        assert_eq!(version_of("k8s.io/other", text), None);
        assert!(kubernetes_version().unwrap().starts_with("v1."));
    }
}
