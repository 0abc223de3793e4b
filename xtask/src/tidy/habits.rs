//! Small habits: files are named after a noun, nothing is left undone, exceptions have reasons.

use super::Problem;
use super::source::Source;

/// Names that say of what kind the content is, not what it is about.
const NO_NOUNS: [&str; 6] = [
    "common.rs",
    "helpers.rs",
    "misc.rs",
    "types.rs",
    "util.rs",
    "utils.rs",
];

/// Macros that mark unfinished work.
const UNFINISHED: [&str; 3] = ["todo!(", "unimplemented!(", "dbg!("];

pub(super) fn check(source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    let name = source.path.rsplit('/').next().unwrap_or_default();
    if NO_NOUNS.contains(&name) {
        let text = format!("{name} names no concept: split it and name each part after its noun");
        problems.push(source.problem(1, text));
    }
    for (index, line) in source.code.lines().enumerate() {
        if source.path.starts_with("crates/") {
            for found in UNFINISHED.iter().filter(|word| line.contains(**word)) {
                let text = format!("{found}…) marks unfinished work: finish it");
                problems.push(source.problem(index + 1, text));
            }
        }
        if is_unexplained(source, index, line) {
            let text = "an exception from clippy needs its reason: add `reason = \"…\"`";
            problems.push(source.problem(index + 1, text.into()));
        }
    }
    problems
}

/// True if an attribute that silences clippy begins on this line and says nowhere why: not inside
/// it, not in a comment on its line or the line above.
fn is_unexplained(source: &Source, index: usize, line: &str) -> bool {
    let begins = ["[allow(", "[expect("]
        .iter()
        .find_map(|word| line.find(word));
    let Some(begin) = begins.filter(|begin| line[..*begin].ends_with(['#', '!'])) else {
        return false;
    };
    let lines: Vec<&str> = source.code.lines().skip(index + 1).collect();
    let onwards = format!("{}\n{}", &line[begin..], lines.join("\n"));
    let attribute = onwards.split(")]").next().unwrap_or_default();
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

    fn problems(path: &str, text: &str) -> Vec<String> {
        let problems = check(&Source::new(path, text));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_are_named_after_nouns() {
        assert!(problems("crates/x/src/lease.rs", "").is_empty());
        let problems = problems("crates/x/src/utils.rs", "");
        assert!(problems[0].starts_with("crates/x/src/utils.rs:1: "));
    }

    #[test]
    fn unfinished_work_is_a_problem_in_crates() {
        let text = "fn f() {\n    todo!()\n}\n// todo!() in a comment\n";
        assert_eq!(problems("crates/x/src/lease.rs", text).len(), 1);
        assert!(problems("tests/src/lib.rs", text).is_empty());
    }

    #[test]
    fn exceptions_from_clippy_have_a_reason() {
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
            let problems = problems("crates/x/src/lease.rs", text);
            assert_eq!(problems.is_empty(), fine, "{text}: {problems:?}");
        }
    }
}
