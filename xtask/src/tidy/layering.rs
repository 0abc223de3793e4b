//! Dependencies between crates point one way, and each client library is used by one crate only.

use super::Violation;
use super::manifest::{CrateManifest, Dependency, DependencyKind};

/// Crates that may depend on all others: the binary, the end-to-end tests and the build commands.
const UNRESTRICTED: [&str; 3] = ["kelpie", "kelpie-e2e", "xtask"];

/// Crates that are not part of the product, which must build without them.
const NON_PRODUCT: [&str; 3] = ["kelpie-e2e", CHAOS, "xtask"];

const COMPONENTS: [&str; 5] = [
    "kelpie-addon",
    "kelpie-collector",
    "kelpie-etcd",
    "kelpie-prober",
    "kelpie-weeder",
];

/// Crates between the components and the core.
const SHARED: [&str; 4] = ["kelpie-config", "kelpie-health", "kelpie-kube", "kelpie-ui"];

pub(super) const CORE: &str = "kelpie-core";
/// HTTP and TLS. Depends on no other crate, like the core.
const NET: &str = "kelpie-net";
/// The watch channel. Depends on no other crate either.
const RUNTIME: &str = "kelpie-runtime";
/// Crates that all others may depend on.
const BASE: [&str; 3] = [CORE, NET, RUNTIME];
const SIMULATOR: &str = "kelpie-sim";
/// Random faults for the tests of components.
const CHAOS: &str = "kelpie-chaos";

/// The first words of client libraries' names, with the crate that may depend on them. The
/// end-to-end tests may too.
const CLIENT_LIBRARIES: [(&str, &str); 7] = [
    ("hyper", NET),
    ("k8s-openapi", "kelpie-kube"),
    ("kube", "kelpie-kube"),
    ("reqwest", "no crate"),
    ("rustls", NET),
    ("tokio-rustls", NET),
    ("tonic", "kelpie-etcd"),
];

pub(super) fn check(manifest: &CrateManifest) -> Vec<Violation> {
    let from = manifest.name();
    let mut violations = Vec::new();
    if !is_known(from) {
        let text = format!(
            "crate {from} has no layer: assign one in xtask/src/tidy/layering.rs and in \
             docs/ARCHITECTURE.md"
        );
        violations.push(manifest.violation("name", text));
    }
    for dependency in manifest.dependencies() {
        let text = wrong_direction(from, &dependency).or_else(|| wrong_owner(from, &dependency));
        violations.extend(text.map(|text| manifest.violation(dependency.name, text)));
    }
    violations
}

fn is_known(name: &str) -> bool {
    let known = |names: &[&str]| names.contains(&name);
    known(&UNRESTRICTED)
        || known(&COMPONENTS)
        || known(&SHARED)
        || known(&BASE)
        || [SIMULATOR, CHAOS].contains(&name)
}

fn wrong_direction(from: &str, dependency: &Dependency<'_>) -> Option<String> {
    let to = dependency.name;
    if !is_known(to) {
        return None;
    }
    // The tests of a component run it against the simulated landscape.
    let is_component_test = COMPONENTS.contains(&from) && dependency.kind == DependencyKind::Dev;
    let allowed = if NON_PRODUCT.contains(&to) {
        UNRESTRICTED.contains(&from) && NON_PRODUCT.contains(&from)
            || to == CHAOS && is_component_test
    } else if UNRESTRICTED.contains(&from) {
        true
    } else if COMPONENTS.contains(&from) {
        BASE.contains(&to) || SHARED.contains(&to) || to == SIMULATOR && is_component_test
    } else if from == SIMULATOR {
        // Scenario files are parsed like all other configuration files.
        BASE.contains(&to) || to == "kelpie-config"
    } else if from == CHAOS {
        [CORE, SIMULATOR].contains(&to)
    } else if SHARED.contains(&from) {
        BASE.contains(&to)
    } else {
        false
    };
    (!allowed).then(|| {
        format!(
            "{from} must not depend on {to}: dependencies go kelpie -> components -> kube, health, \
             config -> core, net, runtime; move the shared code inwards"
        )
    })
}

fn wrong_owner(from: &str, dependency: &Dependency<'_>) -> Option<String> {
    let to = dependency.name;
    let (_, owner) = CLIENT_LIBRARIES
        .iter()
        .find(|(prefix, _)| has_prefix(to, prefix))?;
    let allowed = from == *owner || from == "kelpie-e2e";
    (!allowed).then(|| {
        format!("{to} may be used by {owner} only: put the code that needs it into that crate")
    })
}

/// Matches whole words: `kube-runtime` has the prefix `kube`, `kubewarden` does not.
fn has_prefix(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the violations of a crate `from` that has `to` in `table`.
    fn violations(from: &str, table: &str, to: &str) -> Vec<String> {
        let text = format!("[package]\nname = '{from}'\n[{table}]\n{to}.workspace = true\n");
        let manifest = CrateManifest::parse("x/Cargo.toml", &text).unwrap();
        let violations = check(&manifest);
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn inward_dependencies_pass() {
        for (from, table, to) in [
            ("kelpie", "dependencies", "kelpie-prober"),
            ("kelpie", "dependencies", "kelpie-sim"),
            ("kelpie-prober", "dependencies", "kelpie-kube"),
            ("kelpie-prober", "dependencies", "kelpie-core"),
            ("kelpie-prober", "dev-dependencies", "kelpie-sim"),
            ("kelpie-prober", "dev-dependencies", "kelpie-chaos"),
            ("kelpie-chaos", "dependencies", "kelpie-sim"),
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
            assert!(violations(from, table, to).is_empty(), "{from} -> {to}");
        }
    }

    #[test]
    fn outward_dependencies_are_violations() {
        for (from, table, to) in [
            ("kelpie-core", "dependencies", "kelpie-config"),
            ("kelpie-core", "dev-dependencies", "kelpie-sim"),
            ("kelpie-config", "dependencies", "kelpie-kube"),
            ("kelpie-prober", "dependencies", "kelpie-weeder"),
            ("kelpie-prober", "dependencies", "kelpie-sim"),
            ("kelpie-sim", "dependencies", "kelpie-prober"),
            ("kelpie-sim", "dev-dependencies", "kelpie-chaos"),
            ("kelpie-prober", "dependencies", "kelpie-chaos"),
            ("kelpie", "dev-dependencies", "kelpie-chaos"),
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
            let found = violations(from, table, to);
            assert_eq!(found.len(), 1, "{from} -> {to}");
            assert!(found[0].starts_with("x/Cargo.toml:4: "), "{found:?}");
        }
    }

    #[test]
    fn crates_without_a_layer_are_violations() {
        let found = violations("kelpie-new", "dependencies", "serde");
        assert!(found[0].contains("no layer"), "{found:?}");
    }
}
