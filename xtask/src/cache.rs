//! Where the real servers are: one folder outside the repository, named after what it was made from.
//!
//! `cargo xtask tools` fills the folder; the end-to-end tests read it. Changed pins name another
//! folder, so a server never comes from pins other than the ones in the checkout.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The command that fills the folder.
pub const PROVIDE: &str = "cargo xtask tools";

/// What a complete folder holds: the servers, the folders of custom resource definitions, and clients.
pub const CONTENT: [&str; 15] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
    "helm",
    "etcd-3.4",
    "etcd-3.5",
    "etcd-3.6",
    "etcd-3.7",
    "etcd",
    "promtool",
    "prometheus",
    "victoria-metrics",
    "crds",
    OPEN_CLUSTER,
    PYTHON,
];

/// The definitions of open-cluster-management, with their version in the name like that of Python's
/// client.
pub const OPEN_CLUSTER: &str = "open-cluster-management-crds-v1.1.0";

/// Python's client for Kubernetes: a folder for `PYTHONPATH`. Its version is in its name and not in the
/// folder's, so that another one builds no server again.
pub const PYTHON: &str = "python-kubernetes-36.0.3";

/// The root of the checkout that cargo runs us from. Only without cargo is it the one this was
/// compiled in: two checkouts may share a target folder and so this very binary.
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

/// The folder of the servers, whether it is filled already or not.
pub fn folder() -> Result<PathBuf> {
    let root = root(|name| env::var_os(name).map(PathBuf::from))?;
    let pins = pins(&repository().join("tools"))?;
    Ok(root.join(name(&kubernetes_version()?, &pins, assets().as_deref())))
}

/// One server or folder of [`CONTENT`]; when it is missing, the error names the command that
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

/// The file with a custom resource definition, as in `machines.machine.sapcloud.io`.
pub fn definition(name: &str) -> Result<PathBuf> {
    for folder in ["crds", OPEN_CLUSTER] {
        let file = find(folder)?.join(format!("{name}.yaml"));
        if file.exists() {
            return Ok(file);
        }
    }
    bail!("there is no definition of {name} among those that `{PROVIDE}` fetches")
}

/// The folder named by `KUBEBUILDER_ASSETS`, if it holds an API server and an etcd.
pub fn assets() -> Option<PathBuf> {
    // Links into it are made elsewhere, and tests run elsewhere: a relative path would lead astray.
    let folder = fs::canonicalize(env::var_os("KUBEBUILDER_ASSETS")?).ok()?;
    let holds = |name: &str| folder.join(name).is_file();
    (holds("kube-apiserver") && holds("etcd")).then_some(folder)
}

/// The pinned Kubernetes version, as in `v1.36.4`.
pub fn kubernetes_version() -> Result<String> {
    let path = repository().join("tools/kubernetes/go.mod");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    version_of("k8s.io/kubernetes", &text)
        .with_context(|| format!("{} requires no k8s.io/kubernetes", path.display()))
}

/// The cache of all versions: `KELPIE_CACHE`, else the user's cache folder.
fn root(env: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    let set = |name| env(name).filter(|path| !path.as_os_str().is_empty());
    set("KELPIE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|base| base.join("kelpie")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/kelpie")))
        .context("no cache folder: set KELPIE_CACHE, XDG_CACHE_HOME or HOME")
}

/// The contents of every go.mod and go.sum under `tools`, in a fixed order. What is no Go module there
/// has no part in how the servers are built.
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
    // Servers from elsewhere get a folder of their own: they are not what the pins say.
    match assets.map(|path| fnv1a(path.as_os_str().as_encoded_bytes())) {
        None => format!("{version}-{key:016x}"),
        Some(from) => format!("assets-{:016x}", key ^ from),
    }
}

/// FNV-1a: stable between Rust releases, which the standard hasher does not promise.
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
    fn the_repository_is_found_from_each_of_its_crates() {
        let root = repository();
        assert!(root.join("deny.toml").is_file());
        assert_eq!(
            root_above(&root.join("crates/kelpie")),
            Some(root.as_path())
        );
        assert_eq!(root_above(Path::new("/")), None);
    }

    #[test]
    fn the_cache_is_where_the_user_says_else_in_the_users_cache_folder() {
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
    fn other_pins_or_other_servers_name_another_folder() {
        let plain = name("v1.2.3", b"pins", None);
        assert!(plain.starts_with("v1.2.3-"), "{plain}");
        assert_eq!(plain, name("v1.2.3", b"pins", None));
        assert_ne!(plain, name("v1.2.3", b"other pins", None));
        assert_ne!(plain, name("v1.2.3", b"pins", Some(Path::new("/assets"))));
    }

    #[test]
    fn the_version_is_the_required_one_not_a_replaced_or_similar_module() {
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
