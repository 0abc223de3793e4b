//! Versions, licence and lints are defined once, in the workspace.

use toml::Value;

use super::Violation;
use super::manifest::CrateManifest;

/// The keys of `[package]` that every crate inherits.
const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];

pub(super) fn check(manifest: &CrateManifest) -> Vec<Violation> {
    let mut violations = Vec::new();
    let package = manifest.get("package");
    for key in INHERITED {
        let value = package.and_then(|package| package.get(key));
        if !value.is_some_and(is_inherited) {
            let text = format!("write `{key}.workspace = true`: the workspace defines it");
            violations.push(manifest.violation(key, text));
        }
    }
    if !manifest.get("lints").is_some_and(is_inherited) {
        let text = "write `[lints]` and `workspace = true`: the workspace defines the lints";
        violations.push(manifest.violation("[lints]", text.into()));
    }
    for dependency in manifest.dependencies() {
        if !is_inherited(dependency.value) {
            let name = dependency.name;
            let text = format!(
                "write `{name}.workspace = true` and put the version into the root Cargo.toml"
            );
            violations.push(manifest.violation(name, text));
        }
    }
    violations
}

fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = 'x'\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\npublish.workspace = true\n\
        [dependencies]\na.workspace = true\nb = { workspace = true, features = ['f'] }\n\
        [lints]\nworkspace = true\n";

    fn violations(text: &str) -> Vec<String> {
        let manifest = CrateManifest::parse("x/Cargo.toml", text).unwrap();
        check(&manifest).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn inheriting_crates_pass() {
        assert!(violations(GOOD).is_empty());
    }

    #[test]
    fn own_values_are_violations() {
        for (good, bad, line) in [
            ("version.workspace = true\ned", "version = '1'\ned", 3),
            ("license.workspace = true\n", "", 1),
            ("a.workspace = true", "a = '1'", 9),
            ("b = { workspace = true,", "b = { version = '1',", 10),
            ("[lints]\nworkspace = true\n", "", 1),
        ] {
            let violations = violations(&GOOD.replace(good, bad));
            assert_eq!(violations.len(), 1, "{bad}: {violations:?}");
            let start = format!("x/Cargo.toml:{line}: ");
            assert!(violations[0].starts_with(&start), "{violations:?}");
        }
    }
}
