//! Arrows between crates point one way, and a client library stands in one product crate.

use super::Problem;
use super::manifest::{Dependency, Kind, Manifest};

/// Crates that know everybody: the binary wires, the others test and build.
const KNOW_ALL: [&str; 3] = ["kelpie", "kelpie-e2e", "xtask"];

/// Crates that are no part of the product: it must build without them.
const AROUND: [&str; 2] = ["kelpie-e2e", "xtask"];

const COMPONENTS: [&str; 6] = [
    "kelpie-addon",
    "kelpie-collector",
    "kelpie-etcd",
    "kelpie-prober",
    "kelpie-ui",
    "kelpie-weeder",
];

/// Between the components and the core.
const MIDDLE: [&str; 3] = ["kelpie-config", "kelpie-health", "kelpie-kube"];

pub(super) const CORE: &str = "kelpie-core";
/// HTTP and TLS for everybody: it stands beside the core and knows nobody.
const NET: &str = "kelpie-net";
/// What tokio lacks for everybody: the same.
const BELL: &str = "kelpie-bell";
/// Whom everybody may know.
const GROUND: [&str; 3] = [CORE, NET, BELL];
const SIMULATOR: &str = "kelpie-sim";

/// Client libraries: how their names begin, and the crate that may name them. The tests may too.
const OWNED: [(&str, &str); 7] = [
    ("hyper", NET),
    ("k8s-openapi", "kelpie-kube"),
    ("kube", "kelpie-kube"),
    ("reqwest", "nobody"),
    ("rustls", NET),
    ("tokio-rustls", NET),
    ("tonic", "kelpie-etcd"),
];

pub(super) fn check(manifest: &Manifest) -> Vec<Problem> {
    let from = manifest.name();
    let mut problems = Vec::new();
    if !is_known(from) {
        let text = format!(
            "crate {from} has no place among the arrows: give it one in xtask/src/tidy/arrows.rs \
             and in docs/ARCHITECTURE.md"
        );
        problems.push(manifest.problem("name", text));
    }
    for dependency in manifest.dependencies() {
        let text = wrong_arrow(from, &dependency).or_else(|| wrong_owner(from, &dependency));
        problems.extend(text.map(|text| manifest.problem(dependency.name, text)));
    }
    problems
}

fn is_known(name: &str) -> bool {
    let known = |names: &[&str]| names.contains(&name);
    known(&KNOW_ALL) || known(&COMPONENTS) || known(&MIDDLE) || known(&GROUND) || name == SIMULATOR
}

fn wrong_arrow(from: &str, dependency: &Dependency<'_>) -> Option<String> {
    let to = dependency.name;
    if !is_known(to) {
        return None;
    }
    let allowed = if AROUND.contains(&to) {
        AROUND.contains(&from)
    } else if KNOW_ALL.contains(&from) {
        true
    } else if COMPONENTS.contains(&from) {
        // A component's tests run it against the simulated landscape.
        let simulated = to == SIMULATOR && dependency.kind == Kind::Test;
        GROUND.contains(&to) || MIDDLE.contains(&to) || simulated
    } else if from == SIMULATOR {
        // Scenarios are files, read like all others.
        GROUND.contains(&to) || to == "kelpie-config"
    } else if MIDDLE.contains(&from) {
        GROUND.contains(&to)
    } else {
        false
    };
    (!allowed).then(|| {
        format!(
            "{from} must not know {to}: arrows go kelpie -> components -> kube, health, config \
             -> core, net, bell; move the shared value inwards"
        )
    })
}

fn wrong_owner(from: &str, dependency: &Dependency<'_>) -> Option<String> {
    let to = dependency.name;
    let (_, owner) = OWNED.iter().find(|(begin, _)| begins(to, begin))?;
    let allowed = from == *owner || from == "kelpie-e2e";
    (!allowed).then(|| {
        format!(
            "{to} may be named by {owner} only: put what needs it behind that crate's functions"
        )
    })
}

/// `kube` and `kube-runtime` begin with `kube`, `kubewarden` does not.
fn begins(name: &str, begin: &str) -> bool {
    name.strip_prefix(begin)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with `from` having `to` in `table`.
    fn wrong(from: &str, table: &str, to: &str) -> Vec<String> {
        let text = format!("[package]\nname = '{from}'\n[{table}]\n{to}.workspace = true\n");
        let manifest = Manifest::parse("x/Cargo.toml", &text).unwrap();
        let problems = check(&manifest);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_that_point_inwards_are_fine() {
        for (from, table, to) in [
            ("kelpie", "dependencies", "kelpie-prober"),
            ("kelpie", "dependencies", "kelpie-sim"),
            ("kelpie-prober", "dependencies", "kelpie-kube"),
            ("kelpie-prober", "dependencies", "kelpie-core"),
            ("kelpie-prober", "dev-dependencies", "kelpie-sim"),
            ("kelpie-config", "dependencies", "kelpie-core"),
            ("kelpie-sim", "dependencies", "kelpie-core"),
            ("kelpie-kube", "dependencies", "kube"),
            ("kelpie-net", "dependencies", "hyper-util"),
            ("kelpie-kube", "dependencies", "kelpie-net"),
            ("kelpie-etcd", "dependencies", "kelpie-net"),
            ("kelpie-etcd", "dependencies", "tonic"),
            ("kelpie-e2e", "dependencies", "kube"),
            ("kelpie-e2e", "dependencies", "xtask"),
            ("kelpie-core", "dependencies", "serde"),
        ] {
            assert!(wrong(from, table, to).is_empty(), "{from} -> {to}");
        }
    }

    #[test]
    fn arrows_that_point_outwards_or_sideways_are_problems() {
        for (from, table, to) in [
            ("kelpie-core", "dependencies", "kelpie-config"),
            ("kelpie-core", "dev-dependencies", "kelpie-sim"),
            ("kelpie-config", "dependencies", "kelpie-kube"),
            ("kelpie-prober", "dependencies", "kelpie-weeder"),
            ("kelpie-prober", "dependencies", "kelpie-sim"),
            ("kelpie-sim", "dependencies", "kelpie-prober"),
            ("kelpie-prober", "dependencies", "kelpie"),
            ("kelpie", "dev-dependencies", "xtask"),
            ("kelpie-prober", "dependencies", "kube"),
            ("kelpie-prober", "dependencies", "hyper-util"),
            ("kelpie", "dependencies", "rustls"),
            ("kelpie", "build-dependencies", "k8s-openapi"),
            ("kelpie-kube", "dependencies", "hyper"),
            ("kelpie-net", "dependencies", "kelpie-core"),
            ("kelpie-kube", "dependencies", "reqwest"),
            ("kelpie-kube", "dependencies", "tonic"),
        ] {
            let problems = wrong(from, table, to);
            assert_eq!(problems.len(), 1, "{from} -> {to}");
            assert!(problems[0].starts_with("x/Cargo.toml:4: "), "{problems:?}");
        }
    }

    #[test]
    fn a_crate_without_a_place_is_a_problem() {
        let problems = wrong("kelpie-new", "dependencies", "serde");
        assert!(problems[0].contains("no place"), "{problems:?}");
    }
}
