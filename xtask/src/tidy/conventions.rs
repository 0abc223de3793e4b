//! Conventions: file names are nouns, no unfinished work, a reason for every lint exception.

use super::Violation;
use super::source_file::SourceFile;

/// File names that do not say what the content is about.
const VAGUE_NAMES: [&str; 6] = [
    "common.rs",
    "helpers.rs",
    "misc.rs",
    "types.rs",
    "util.rs",
    "utils.rs",
];

/// Macros that mark unfinished work.
const UNFINISHED: [&str; 3] = ["todo!(", "unimplemented!(", "dbg!("];

pub(super) fn check(source: &SourceFile) -> Vec<Violation> {
    let mut violations = Vec::new();
    let name = source.path.rsplit('/').next().unwrap_or_default();
    if VAGUE_NAMES.contains(&name) {
        let text = format!("{name} names no concept: split it and name each part after a noun");
        violations.push(source.violation(1, text));
    }
    for (index, line) in source.code.lines().enumerate() {
        if source.path.starts_with("crates/") {
            for found in UNFINISHED.iter().filter(|word| line.contains(**word)) {
                let text = format!("{found}…) marks unfinished work: finish it");
                violations.push(source.violation(index + 1, text));
            }
        }
        if is_unexplained(source, index, line) {
            let text = "an exception from a clippy lint needs a reason: add `reason = \"…\"`";
            violations.push(source.violation(index + 1, text.into()));
        }
    }
    violations
}

/// Returns true if an attribute that silences clippy starts on this line without giving a reason:
/// neither inside the attribute, nor in a comment on its line or on the line above.
fn is_unexplained(source: &SourceFile, index: usize, line: &str) -> bool {
    let start = ["[allow(", "[expect("]
        .iter()
        .find_map(|word| line.find(word));
    let Some(start) = start.filter(|start| line[..*start].ends_with(['#', '!'])) else {
        return false;
    };
    let lines: Vec<&str> = source.code.lines().skip(index + 1).collect();
    let rest = format!("{}\n{}", &line[start..], lines.join("\n"));
    let attribute = rest.split(")]").next().unwrap_or_default();
    if !attribute.contains("clippy::") || attribute.contains("reason =") {
        return false;
    }
    let text: Vec<&str> = source.text.lines().collect();
    let above = index.checked_sub(1).map(|above| text[above].trim_start());
    !text[index].contains("//") && !above.is_some_and(|above| above.starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        let violations = check(&SourceFile::new(path, text));
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn vague_file_names_are_violations() {
        assert!(violations("crates/x/src/lease.rs", "").is_empty());
        let violations = violations("crates/x/src/utils.rs", "");
        assert!(violations[0].starts_with("crates/x/src/utils.rs:1: "));
    }

    #[test]
    fn unfinished_work_in_crates_is_a_violation() {
        let text = "fn f() {\n    todo!()\n}\n// todo!() in a comment\n";
        assert_eq!(violations("crates/x/src/lease.rs", text).len(), 1);
        assert!(violations("tests/src/lib.rs", text).is_empty());
    }

    #[test]
    fn lint_exceptions_need_a_reason() {
        for (text, fine) in [
            ("#[allow(clippy::x)]\nfn f() {}", false),
            ("#![expect(clippy::x)]\n", false),
            (
                "#[expect(\n    clippy::x,\n    clippy::y\n)]\nfn f() {}",
                false,
            ),
            ("#[allow(clippy::x)] // because\nfn f() {}", true),
            ("// because\n#[allow(clippy::x)]\nfn f() {}", true),
            (
                "#[expect(clippy::x, reason = \"because\")]\nfn f() {}",
                true,
            ),
            (
                "#[expect(\n    clippy::x,\n    reason = \"because\"\n)]\nfn f() {}",
                true,
            ),
            ("#[allow(dead_code)]\nfn f() {}", true),
            ("const A: &str = \"#[allow(clippy::x)]\";", true),
        ] {
            let violations = violations("crates/x/src/lease.rs", text);
            assert_eq!(violations.is_empty(), fine, "{text}: {violations:?}");
        }
    }
}
