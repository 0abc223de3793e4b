//! Every dependency of a crate is used by the sources it is declared for.

use super::Violation;
use super::manifest::{CrateManifest, Dependency, DependencyKind};
use super::source_file::SourceFile;

/// Reports dependencies whose name does not occur in the sources that can use them.
pub(super) fn check(manifest: &CrateManifest, sources: &[SourceFile]) -> Vec<Violation> {
    let dependencies = manifest.dependencies().into_iter();
    let unused = dependencies.filter(|dependency| !is_used(manifest, dependency, sources));
    unused
        .map(|dependency| {
            let (name, place) = (dependency.name, searched(dependency.kind));
            let text = format!("{name} is not used in {place}: remove it, or move it");
            manifest.violation(name, text)
        })
        .collect()
}

fn is_used(manifest: &CrateManifest, dependency: &Dependency<'_>, sources: &[SourceFile]) -> bool {
    let name = dependency.name.replace('-', "_");
    sources.iter().any(|source| {
        let Some(path) = manifest.relative_path(&source.path) else {
            return false;
        };
        match dependency.kind {
            DependencyKind::Normal if path.starts_with("src/") => {
                let mut lines = source.product_lines().into_iter();
                lines.any(|(_, line)| names(line, &name))
            }
            DependencyKind::Normal => false,
            DependencyKind::Build => path == "build.rs" && names(&source.code, &name),
            DependencyKind::Dev => path != "build.rs" && names(&source.code, &name),
        }
    })
}

fn searched(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::Normal => "src outside of tests",
        DependencyKind::Build => "build.rs",
        DependencyKind::Dev => "src, tests and benches",
    }
}

/// Returns true if `code` contains `name` as a whole identifier.
fn names(code: &str, name: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a crate `crates/x` with one dependency in `table` and one source file.
    fn unused(table: &str, dependency: &str, path: &str, code: &str) -> Vec<String> {
        let text = format!("[package]\nname = 'x'\n[{table}]\n{dependency}.workspace = true\n");
        let manifest = CrateManifest::parse("crates/x/Cargo.toml", &text).unwrap();
        let violations = check(&manifest, &[SourceFile::new(path, code)]);
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn used_dependencies_pass() {
        for (table, dependency, path, code) in [
            ("dependencies", "serde", "src/a.rs", "use serde::Serialize;"),
            ("dependencies", "tokio-util", "src/a.rs", "tokio_util::f();"),
            ("dev-dependencies", "insta", "tests/it/a.rs", "insta::f();"),
            ("dev-dependencies", "dhat", "benches/a.rs", "use dhat;"),
            ("dev-dependencies", "insta", "src/a.rs", "use insta::f;"),
            ("build-dependencies", "prost", "build.rs", "prost::f();"),
        ] {
            let violations = unused(table, dependency, &format!("crates/x/{path}"), code);
            assert!(violations.is_empty(), "{violations:?}");
        }
    }

    #[test]
    fn unused_dependencies_are_violations() {
        for (table, dependency, path, code) in [
            (
                "dependencies",
                "prost",
                "crates/x/src/a.rs",
                "use prost_types::A;",
            ),
            ("dependencies", "prost", "crates/x/src/a.rs", "// prost"),
            (
                "dependencies",
                "prost",
                "crates/x/tests/a.rs",
                "use prost::A;",
            ),
            (
                "dependencies",
                "prost",
                "crates/xy/src/a.rs",
                "use prost::A;",
            ),
            (
                "dependencies",
                "prost",
                "crates/x/src/a.rs",
                "#[cfg(test)]\nmod tests {\n    use prost::A;\n}\n",
            ),
            (
                "build-dependencies",
                "prost",
                "crates/x/src/a.rs",
                "use prost::A;",
            ),
            (
                "dev-dependencies",
                "prost",
                "crates/x/build.rs",
                "prost::f();",
            ),
        ] {
            let violations = unused(table, dependency, path, code);
            assert_eq!(violations.len(), 1, "{table} {path} {code}");
            let start = "crates/x/Cargo.toml:4: prost is not used in ";
            assert!(violations[0].starts_with(start), "{violations:?}");
        }
    }
}
