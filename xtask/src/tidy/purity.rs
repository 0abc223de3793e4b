//! The core decides: values in, values out. No clock, no IO, no runtime.

use super::Problem;
use super::arrows::CORE;
use super::manifest::{Kind, Manifest};
use super::source::Source;

/// All the core may depend on. A crate that reads a clock or opens a socket has no place here.
const MAY_DEPEND_ON: [&str; 3] = ["jiff", "serde", "thiserror"];

/// What must not be written in the core, and what to do instead.
const BANNED: [(&str, &str); 9] = [
    ("SystemTime", "take the time as an argument"),
    ("Instant::now", "take the time as an argument"),
    ("Timestamp::now", "take the time as an argument"),
    ("Zoned::now", "take the time as an argument"),
    ("std::net", "return what to do; the shell does it"),
    ("std::fs", "return what to do; the shell does it"),
    ("std::process", "return what to do; the shell does it"),
    ("std::env", "take the value as an argument"),
    ("std::thread", "return when to wake; the shell waits"),
];

pub(super) fn check_manifest(manifest: &Manifest) -> Vec<Problem> {
    if manifest.name() != CORE {
        return Vec::new();
    }
    let dependencies = manifest.dependencies().into_iter();
    let wrong = dependencies
        .filter(|found| found.kind == Kind::Normal)
        .filter(|found| !MAY_DEPEND_ON.contains(&found.name) && !found.name.starts_with("kelpie"));
    wrong
        .map(|found| {
            let text = format!(
                "{CORE} may depend on {} only: keep {} in the crate that calls it",
                MAY_DEPEND_ON.join(", "),
                found.name
            );
            manifest.problem(found.name, text)
        })
        .collect()
}

pub(super) fn check_source(source: &Source) -> Vec<Problem> {
    if !source.path.starts_with("crates/kelpie-core/") || source.is_test() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (number, line) in source.product_lines() {
        for (banned, instead) in BANNED {
            if line.contains(banned) || is_in_group(line, banned) {
                let text = format!("no {banned} in {CORE}: {instead}");
                problems.push(source.problem(number, text));
            }
        }
    }
    problems
}

/// Whether `use std::{fs, …}` brings in `std::fs`.
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
    fn a_banned_module_is_found_in_a_group_of_imports_too() {
        let found = problems("crates/kelpie-core/src/a.rs", "use std::{env, fmt};\n");
        assert_eq!(found.len(), 1, "{found:?}");
        let fine = problems("crates/kelpie-core/src/a.rs", "use std::{fmt, time};\n");
        assert!(fine.is_empty(), "{fine:?}");
    }

    fn problems(path: &str, text: &str) -> Vec<String> {
        let problems = check_source(&Source::new(path, text));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_clock_in_the_core_is_a_problem_at_its_line() {
        let text = "fn f() {\n    let now = std::time::Instant::now();\n}\n";
        assert_eq!(
            problems("crates/kelpie-core/src/x.rs", text),
            [
                "crates/kelpie-core/src/x.rs:2: no Instant::now in kelpie-core: take the time as \
                 an argument"
            ]
        );
        assert!(problems("crates/kelpie-prober/src/x.rs", text).is_empty());
        assert!(problems("crates/kelpie-core/benches/x.rs", text).is_empty());
    }

    #[test]
    fn comments_strings_and_tests_may_speak_of_clocks() {
        let text = "// like SystemTime\nconst A: &str = \"std::fs\";\n\
            #[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert!(problems("crates/kelpie-core/src/x.rs", text).is_empty());
    }

    #[test]
    fn the_core_has_few_dependencies() {
        let text = "[package]\nname = 'kelpie-core'\n[dependencies]\nserde.workspace = true\n\
            tokio.workspace = true\n[dev-dependencies]\nproptest.workspace = true\n";
        let manifest = Manifest::parse("c/Cargo.toml", text).unwrap();
        let problems = check_manifest(&manifest);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, 5);
    }
}
