//! The core is pure: values in, values out. It has no clock, no IO and no runtime.

use super::Violation;
use super::layering::CORE;
use super::manifest::{CrateManifest, DependencyKind};
use super::source_file::SourceFile;

/// The dependencies of the core. None of them reads a clock or opens a socket.
const ALLOWED: [&str; 3] = ["jiff", "serde", "thiserror"];

/// Items that the core must not use, with what to do instead.
const BANNED: [(&str, &str); 9] = [
    ("SystemTime", "take the time as an argument"),
    ("Instant::now", "take the time as an argument"),
    ("Timestamp::now", "take the time as an argument"),
    ("Zoned::now", "take the time as an argument"),
    ("std::net", "return the action; the caller performs it"),
    ("std::fs", "return the action; the caller performs it"),
    ("std::process", "return the action; the caller performs it"),
    ("std::env", "take the value as an argument"),
    (
        "std::thread",
        "return the time to wake up; the caller waits",
    ),
];

pub(super) fn check_manifest(manifest: &CrateManifest) -> Vec<Violation> {
    if manifest.name() != CORE {
        return Vec::new();
    }
    let dependencies = manifest.dependencies().into_iter();
    let wrong = dependencies
        .filter(|found| found.kind != DependencyKind::Dev)
        .filter(|found| !ALLOWED.contains(&found.name) && !found.name.starts_with("kelpie"));
    wrong
        .map(|found| {
            let text = format!(
                "{CORE} may depend on {} only: keep {} in the crate that calls it",
                ALLOWED.join(", "),
                found.name
            );
            manifest.violation(found.name, text)
        })
        .collect()
}

pub(super) fn check_source(source: &SourceFile) -> Vec<Violation> {
    if !source.path.starts_with("crates/kelpie-core/") || source.is_test() {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (number, line) in source.product_lines() {
        for (banned, instead) in BANNED {
            if line.contains(banned) || is_in_group(line, banned) {
                let text = format!("no {banned} in {CORE}: {instead}");
                violations.push(source.violation(number, text));
            }
        }
    }
    violations
}

/// Returns true if the line imports the banned item in a group, as `use std::{fs, …}` does.
fn is_in_group(line: &str, banned: &str) -> bool {
    let Some((_, module)) = banned.split_once("std::") else {
        return false;
    };
    let group = line.trim_start().strip_prefix("use std::{");
    group.is_some_and(|group| {
        let mut words = group.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| word == module)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grouped_imports_are_checked() {
        let found = violations("crates/kelpie-core/src/a.rs", "use std::{env, fmt};\n");
        assert_eq!(found.len(), 1, "{found:?}");
        let fine = violations("crates/kelpie-core/src/a.rs", "use std::{fmt, time};\n");
        assert!(fine.is_empty(), "{fine:?}");
    }

    fn violations(path: &str, text: &str) -> Vec<String> {
        let violations = check_source(&SourceFile::new(path, text));
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn clocks_in_the_core_are_violations() {
        let text = "fn f() {\n    let now = std::time::Instant::now();\n}\n";
        assert_eq!(
            violations("crates/kelpie-core/src/x.rs", text),
            [
                "crates/kelpie-core/src/x.rs:2: no Instant::now in kelpie-core: take the time as \
                 an argument"
            ]
        );
        assert!(violations("crates/kelpie-prober/src/x.rs", text).is_empty());
        assert!(violations("crates/kelpie-core/benches/x.rs", text).is_empty());
    }

    #[test]
    fn comments_strings_and_tests_are_exempt() {
        let text = "// like SystemTime\nconst A: &str = \"std::fs\";\n\
            #[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert!(violations("crates/kelpie-core/src/x.rs", text).is_empty());
    }

    #[test]
    fn core_dependencies_are_limited() {
        let text = "[package]\nname = 'kelpie-core'\n[dependencies]\nserde.workspace = true\n\
            tokio.workspace = true\n[dev-dependencies]\nproptest.workspace = true\n";
        let manifest = CrateManifest::parse("c/Cargo.toml", text).unwrap();
        let violations = check_manifest(&manifest);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].line, 5);
    }
}
