//! Versions, licence and lints stand once, in the workspace.

use toml::Value;

use super::Problem;
use super::manifest::Manifest;

/// What every `[package]` takes from the workspace.
const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];

pub(super) fn check(manifest: &Manifest) -> Vec<Problem> {
    let mut problems = Vec::new();
    let package = manifest.get("package");
    for key in INHERITED {
        let value = package.and_then(|package| package.get(key));
        if !value.is_some_and(is_inherited) {
            let text = format!("write `{key}.workspace = true`: it stands in the workspace");
            problems.push(manifest.problem(key, text));
        }
    }
    if !manifest.get("lints").is_some_and(is_inherited) {
        let text = "write `[lints]` and `workspace = true`: lints stand in the workspace";
        problems.push(manifest.problem("[lints]", text.into()));
    }
    for dependency in manifest.dependencies() {
        if !is_inherited(dependency.value) {
            let name = dependency.name;
            let text = format!(
                "write `{name}.workspace = true` and put its version into the workspace's table"
            );
            problems.push(manifest.problem(name, text));
        }
    }
    problems
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

    fn problems(text: &str) -> Vec<String> {
        let manifest = Manifest::parse("x/Cargo.toml", text).unwrap();
        check(&manifest).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_crate_that_inherits_is_fine() {
        assert!(problems(GOOD).is_empty());
    }

    #[test]
    fn what_a_crate_says_itself_is_a_problem() {
        for (good, bad, line) in [
            ("version.workspace = true\ned", "version = '1'\ned", 3),
            ("license.workspace = true\n", "", 1),
            ("a.workspace = true", "a = '1'", 9),
            ("b = { workspace = true,", "b = { version = '1',", 10),
            ("[lints]\nworkspace = true\n", "", 1),
        ] {
            let problems = problems(&GOOD.replace(good, bad));
            assert_eq!(problems.len(), 1, "{bad}: {problems:?}");
            let place = format!("x/Cargo.toml:{line}: ");
            assert!(problems[0].starts_with(&place), "{problems:?}");
        }
    }
}
