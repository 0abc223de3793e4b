//! A crate's Cargo.toml, as the rules see it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Problem;

/// A Cargo.toml with its text, for the line of a problem.
pub(super) struct Manifest {
    path: String,
    text: String,
    table: Table,
}

/// When a dependency is there: always, or only while testing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Test,
}

/// One line of a dependency table.
pub(super) struct Dependency<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    pub(super) value: &'a Value,
}

impl Manifest {
    /// Every member of the workspace.
    pub(super) fn read_all(root: &Path) -> Result<Vec<Self>> {
        let mut folders: Vec<PathBuf> = vec!["tests".into(), "xtask".into()];
        for entry in fs::read_dir(root.join("crates"))? {
            folders.push(Path::new("crates").join(entry?.file_name()));
        }
        folders.sort();
        let paths = folders.iter().map(|folder| folder.join("Cargo.toml"));
        let there = paths.filter(|path| root.join(path).is_file());
        there
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

    /// The crate's name.
    pub(super) fn name(&self) -> &str {
        let name = self.get("package").and_then(|package| package.get("name"));
        name.and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.table.get(key)
    }

    /// Everything the crate depends on, also for one platform only.
    pub(super) fn dependencies(&self) -> Vec<Dependency<'_>> {
        let platforms = self.get("target").and_then(Value::as_table);
        let platforms = platforms.into_iter().flat_map(Table::values);
        let tables = platforms.filter_map(Value::as_table).chain([&self.table]);
        let kinds = [
            ("dependencies", Kind::Normal),
            ("build-dependencies", Kind::Normal),
            ("dev-dependencies", Kind::Test),
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

    /// A problem at the first line that starts with `word`, else at the first line.
    pub(super) fn problem(&self, word: &str, text: String) -> Problem {
        let starts = |line: &str| {
            let rest = line.trim_start().strip_prefix(word);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
        };
        let line = self.text.lines().position(starts).unwrap_or_default() + 1;
        let file = self.path.clone();
        Problem { file, line, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_every_kind_are_seen() {
        let text = "[package]\nname = 'x'\n[dependencies]\na = '1'\n[dev-dependencies]\nb = '1'\n\
            [build-dependencies]\nc = '1'\n[target.'cfg(unix)'.dependencies]\nd = '1'\n";
        let manifest = Manifest::parse("x/Cargo.toml", text).unwrap();
        let mut seen: Vec<(&str, Kind)> = manifest
            .dependencies()
            .iter()
            .map(|found| (found.name, found.kind))
            .collect();
        seen.sort_by_key(|(name, _)| *name);
        let normal = Kind::Normal;
        assert_eq!(
            seen,
            [
                ("a", normal),
                ("b", Kind::Test),
                ("c", normal),
                ("d", normal)
            ]
        );
        assert_eq!(manifest.name(), "x");
    }

    #[test]
    fn a_problem_stands_at_the_line_of_its_word() {
        let text = "[dependencies]\nkube-client.workspace = true\nkube.workspace = true\n";
        let manifest = Manifest::parse("x/Cargo.toml", text).unwrap();
        let at = |word| manifest.problem(word, String::new()).line;
        assert_eq!(at("kube"), 3);
        assert_eq!(at("kube-client"), 2);
        assert_eq!(at("[lints]"), 1);
    }
}
