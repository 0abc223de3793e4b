//! A crate's Cargo.toml, as the rules see it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Violation;

/// A parsed Cargo.toml with its text, in which violations are located.
pub(super) struct CrateManifest {
    path: String,
    text: String,
    table: Table,
}

/// The table in which a dependency is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependencyKind {
    Normal,
    Build,
    Dev,
}

/// One entry of a dependency table.
pub(super) struct Dependency<'a> {
    pub(super) name: &'a str,
    pub(super) kind: DependencyKind,
    pub(super) value: &'a Value,
}

impl CrateManifest {
    /// Reads the manifest of every member of the workspace.
    pub(super) fn read_all(root: &Path) -> Result<Vec<Self>> {
        let mut folders: Vec<PathBuf> = vec!["tests".into(), "xtask".into()];
        for entry in fs::read_dir(root.join("crates"))? {
            folders.push(Path::new("crates").join(entry?.file_name()));
        }
        folders.sort();
        let paths = folders.iter().map(|folder| folder.join("Cargo.toml"));
        let existing = paths.filter(|path| root.join(path).is_file());
        existing
            .map(|path| {
                let text = fs::read_to_string(root.join(&path))?;
                let path = path.display().to_string();
                Self::parse(&path, &text).with_context(|| path)
            })
            .collect()
    }

    pub(super) fn parse(path: &str, text: &str) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            table: text.parse()?,
        })
    }

    /// Returns the name of the crate.
    pub(super) fn name(&self) -> &str {
        let name = self.get("package").and_then(|package| package.get("name"));
        name.and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.table.get(key)
    }

    /// Returns all dependencies of the crate, including those of single platforms.
    pub(super) fn dependencies(&self) -> Vec<Dependency<'_>> {
        let platforms = self.get("target").and_then(Value::as_table);
        let platforms = platforms.into_iter().flat_map(Table::values);
        let tables = platforms.filter_map(Value::as_table).chain([&self.table]);
        let kinds = [
            ("dependencies", DependencyKind::Normal),
            ("build-dependencies", DependencyKind::Build),
            ("dev-dependencies", DependencyKind::Dev),
        ];
        let mut all = Vec::new();
        for table in tables {
            for (key, kind) in kinds {
                let found = table.get(key).and_then(Value::as_table);
                for (name, value) in found.into_iter().flatten() {
                    all.push(Dependency { name, kind, value });
                }
            }
        }
        all
    }

    /// Returns a file's path relative to the folder of the crate, if it is in there.
    pub(super) fn relative_path<'a>(&self, path: &'a str) -> Option<&'a str> {
        let folder = self.path.strip_suffix("Cargo.toml")?;
        path.strip_prefix(folder)
    }

    /// Creates a violation at the first line that starts with `word`, else at the first line.
    pub(super) fn violation(&self, word: &str, text: String) -> Violation {
        let starts = |line: &str| {
            let rest = line.trim_start().strip_prefix(word);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
        };
        let line = self.text.lines().position(starts).unwrap_or_default() + 1;
        let file = self.path.clone();
        Violation { file, line, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_every_kind_are_found() {
        let text = "[package]\nname = 'x'\n[dependencies]\na = '1'\n[dev-dependencies]\nb = '1'\n\
            [build-dependencies]\nc = '1'\n[target.'cfg(unix)'.dependencies]\nd = '1'\n";
        let manifest = CrateManifest::parse("x/Cargo.toml", text).unwrap();
        let mut found: Vec<(&str, DependencyKind)> = manifest
            .dependencies()
            .iter()
            .map(|dependency| (dependency.name, dependency.kind))
            .collect();
        found.sort_by_key(|(name, _)| *name);
        assert_eq!(
            found,
            [
                ("a", DependencyKind::Normal),
                ("b", DependencyKind::Dev),
                ("c", DependencyKind::Build),
                ("d", DependencyKind::Normal)
            ]
        );
        assert_eq!(manifest.name(), "x");
    }

    #[test]
    fn violations_are_at_the_line_of_their_word() {
        let text = "[dependencies]\nkube-client.workspace = true\nkube.workspace = true\n";
        let manifest = CrateManifest::parse("x/Cargo.toml", text).unwrap();
        let at = |word| manifest.violation(word, String::new()).line;
        assert_eq!(at("kube"), 3);
        assert_eq!(at("kube-client"), 2);
        assert_eq!(at("[lints]"), 1);
    }

    #[test]
    fn paths_are_relative_to_the_crate() {
        let manifest = CrateManifest::parse("crates/x/Cargo.toml", "").unwrap();
        assert_eq!(
            manifest.relative_path("crates/x/src/a.rs"),
            Some("src/a.rs")
        );
        assert_eq!(manifest.relative_path("crates/xy/src/a.rs"), None);
    }
}
