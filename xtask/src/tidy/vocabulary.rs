//! Words that the project no longer uses, each with the word to use instead.
//!
//! The field's own words come first: a reader with a knowledge of client-go, controller-runtime or
//! kube-rs should guess the meaning of a name without opening its file. Comments name the actor:
//! "the caller", "another client", "the operator".

use super::Violation;
use super::markdown::MarkdownPage;
use super::source_file::SourceFile;

/// The places in which a word is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// A whole identifier or file name. The word has its use in prose: "hands out a step".
    Name,
    /// Also a part of an identifier, and the prose of comments and Markdown pages.
    Anywhere,
}

use Scope::{Anywhere, Name};

/// Retired words. A word also matches its plural.
const RETIRED: &[(&str, Scope, &str)] = &[
    // Unnamed actors.
    ("anybody", Anywhere, "the actor, as in \"any client\""),
    ("everybody", Anywhere, "the actors, as in \"all clients\""),
    ("nobody", Anywhere, "the actor, as in \"no client\""),
    ("somebody", Anywhere, "the actor, as in \"another client\""),
    ("whoever", Anywhere, "the actor, as in \"the caller\""),
    // Parts of the prober.
    ("census", Anywhere, "lease counts"),
    ("eyes", Name, "observer"),
    ("gate", Name, "deadline_queue"),
    ("hands", Name, "fence_executor"),
    ("haste", Anywhere, "urgency"),
    ("herd", Name, "cluster_machines"),
    ("hitch", Anywhere, "step error"),
    ("roster", Anywhere, "node set"),
    ("scribe", Anywhere, "reporter"),
    ("sighting", Anywhere, "round result"),
    // Parts of the weeder.
    ("lookout", Anywhere, "service watcher"),
    ("pacer", Anywhere, "rate limiter"),
    ("plot", Anywhere, "namespace worker"),
    ("swing", Name, "service_event"),
    // Parts of the addon and of the collector.
    ("farewell", Anywhere, "finalizer"),
    ("ledger", Name, "tick_stats"),
    ("outlet", Name, "sink"),
    ("underway", Name, "request_metrics"),
    // Shared parts.
    ("bell", Anywhere, "watch channel"),
    ("candidacy", Anywhere, "election"),
    ("candidacies", Anywhere, "elections"),
    ("deed", Anywhere, "operation"),
    ("exhibit", Anywhere, "metrics"),
    ("foresight", Anywhere, "lint"),
    ("guise", Anywhere, "invocation"),
    ("sieve", Anywhere, "projection"),
    ("survey", Anywhere, "batch reader"),
    // The simulator and tests.
    ("bait", Anywhere, "fixture"),
    ("crew", Anywhere, "fixture"),
    ("culprit", Anywhere, "subject"),
    ("dice", Anywhere, "rng"),
    ("happening", Name, "event"),
    ("promises", Name, "properties"),
    ("rig", Name, "fixture"),
    ("snare", Anywhere, "pause on write"),
    ("theatre", Anywhere, "fixture"),
    ("weather", Anywhere, "active faults"),
];

/// This file names the words.
const OWN_PATH: &str = "xtask/src/tidy/vocabulary.rs";

/// Checks the path, the identifiers and the comments of a Rust file. Literals are data.
pub(super) fn check_source(source: &SourceFile) -> Vec<Violation> {
    if source.path == OWN_PATH {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (word, instead) in retired_in_path(&source.path) {
        violations.push(source.violation(1, message(word, instead)));
    }
    let text = source.without_literals();
    for ((number, code), line) in (1..).zip(source.code.lines()).zip(text.lines()) {
        for (word, instead) in retired_in(line, code) {
            violations.push(source.violation(number, message(word, instead)));
        }
    }
    violations
}

/// Checks the path and the prose of a Markdown page. Code is checked where it is defined.
pub(super) fn check_page(page: &MarkdownPage) -> Vec<Violation> {
    if page.is_generated() {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (word, instead) in retired_in_path(&page.path) {
        violations.push(page.violation(1, message(word, instead)));
    }
    for (number, line) in page.prose_lines() {
        // Every second part is between backticks.
        let prose: Vec<&str> = line.split('`').step_by(2).collect();
        for (word, instead) in retired_in(&prose.join(" "), "") {
            violations.push(page.violation(number, message(word, instead)));
        }
    }
    violations
}

fn message(word: &str, instead: &str) -> String {
    format!("`{word}` is a retired word: use {instead}")
}

/// Returns the retired words in the file and folder names of a path.
fn retired_in_path(path: &str) -> Vec<(&'static str, &'static str)> {
    let path = path.trim_end_matches(".rs").trim_end_matches(".md");
    let names = path.split('/').collect::<Vec<_>>().join(" ");
    retired_in(&names, &names)
}

/// Returns the retired words in a line. `code` is the part of the line in which whole identifiers
/// count.
fn retired_in(line: &str, code: &str) -> Vec<(&'static str, &'static str)> {
    let words: Vec<String> = identifiers(line).flat_map(words_of).collect();
    let names: Vec<String> = identifiers(code).map(str::to_lowercase).collect();
    let found = RETIRED.iter().filter(|(word, scope, _)| {
        let candidates = match scope {
            Anywhere => &words,
            Name => &names,
        };
        candidates
            .iter()
            .any(|candidate| is_form_of(word, candidate))
    });
    found.map(|(word, _, instead)| (*word, *instead)).collect()
}

/// Returns true for the word itself and for its plural.
fn is_form_of(word: &str, candidate: &str) -> bool {
    let rest = candidate.strip_prefix(word);
    rest.is_some_and(|rest| rest.is_empty() || rest == "s")
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let names = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    names.filter(|name| !name.is_empty())
}

/// Splits an identifier into lower-case words: `FenceGate` and `fence_gate` into `fence`, `gate`.
fn words_of(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lowercase = false;
    for c in identifier.chars() {
        if c == '_' || (after_lowercase && c.is_uppercase()) {
            words.push(String::new());
        }
        if c != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        after_lowercase = c.is_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Vec<String> {
        let violations = check_source(&SourceFile::new(path, text));
        violations.iter().map(ToString::to_string).collect()
    }

    fn page(text: &str) -> Vec<String> {
        let violations = check_page(&MarkdownPage::new("README.md", text));
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn retired_words_are_found_in_names_and_comments() {
        for text in [
            "struct Scribe;",
            "fn new_scribe() {}",
            "struct ProbeScribes;",
            "const SCRIBE: u8 = 1;",
            "// Tells the scribe.",
            "/// Waits for SomeBody, somebody, or Somebody.",
            "let hands = 1;",
            "mod eyes;",
        ] {
            let violations = source("xtask/src/a.rs", text);
            assert_eq!(violations.len(), 1, "{text}: {violations:?}");
            assert!(violations[0].starts_with("xtask/src/a.rs:1: "));
        }
    }

    #[test]
    fn other_words_pass() {
        for text in [
            "fn describe() {}",
            "// It hands out a step, in the eyes of the caller.",
            "fn hands_out_steps() {}",
            "let text = \"nobody\";",
            "// A thundering herd of reconnects.",
        ] {
            let violations = source("xtask/src/a.rs", text);
            assert!(violations.is_empty(), "{text}: {violations:?}");
        }
    }

    #[test]
    fn retired_file_names_are_violations() {
        let found = source("xtask/src/scribe/mod.rs", "");
        assert_eq!(
            found,
            ["xtask/src/scribe/mod.rs:1: `scribe` is a retired word: use reporter"]
        );
        assert_eq!(source("xtask/src/hands.rs", "").len(), 1);
    }

    #[test]
    fn own_file_is_exempt() {
        assert!(source(OWN_PATH, "// nobody").is_empty());
        assert_eq!(source("xtask/src/a.rs", "// nobody").len(), 1);
    }

    #[test]
    fn markdown_prose_is_checked() {
        assert_eq!(page("# Title\n\nNobody reads this.\n").len(), 1);
        assert!(page("Run `scribe`.\n```\nnobody\n```\n").is_empty());
        assert!(page("<!-- Made by `cargo xtask gen`. -->\nNobody reads this.\n").is_empty());
    }

    #[test]
    fn replacements_are_not_retired_themselves() {
        for (word, _, instead) in RETIRED {
            assert!(retired_in(instead, instead).is_empty(), "{word}");
        }
    }
}
