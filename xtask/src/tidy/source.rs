//! A Rust file, as the rules see it: its text, and its code without comments and literals.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Problem;

/// A Rust file of the workspace.
pub(super) struct Source {
    /// From the root of the repository, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with comments and the insides of literals blanked; same lines.
    pub(super) code: String,
}

impl Source {
    /// Every Rust file of the workspace.
    pub(super) fn read_all(root: &Path) -> Result<Vec<Self>> {
        let mut sources = Vec::new();
        for folder in ["crates", "tests", "xtask"] {
            collect(root, &root.join(folder), &mut sources)?;
        }
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(sources)
    }

    pub(super) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: blank(text),
        }
    }

    /// True for files that only tests and benchmarks compile.
    pub(super) fn is_test(&self) -> bool {
        let (folders, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let test = |name| ["tests", "benches", "fuzz"].contains(&name);
        folders.split('/').any(test) || file == "tests.rs"
    }

    /// The code lines, counted from 1, without what stands under `#[cfg(test)]`.
    pub(super) fn product_lines(&self) -> Vec<(usize, &str)> {
        let mut kept = Vec::new();
        let mut lines = self.code.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            if line.trim_start().starts_with("#[cfg(test)]") {
                skip_item(line, &mut lines);
            } else {
                kept.push((index + 1, line));
            }
        }
        kept
    }

    pub(super) fn problem(&self, line: usize, text: String) -> Problem {
        let file = self.path.clone();
        Problem { file, line, text }
    }
}

/// Goes past the item that begins on `line`: up to its closing brace, or its semicolon.
fn skip_item<'a>(line: &'a str, lines: &mut impl Iterator<Item = (usize, &'a str)>) {
    let mut depth = 0_usize;
    let mut line = line;
    loop {
        for c in line.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth <= 1 => return,
                '}' => depth -= 1,
                ';' if depth == 0 => return,
                _ => {}
            }
        }
        let Some((_, next)) = lines.next() else {
            return;
        };
        line = next;
    }
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<Source>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            collect(root, &path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let inside = path.strip_prefix(root).unwrap_or(&path);
            sources.push(Source::new(&inside.to_string_lossy(), &text));
        }
    }
    Ok(())
}

/// Comments and the insides of literals become blanks, line ends stay.
fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (keep, gone) = token(rest, first, out.chars().next_back());
        out.push_str(&rest[..keep]);
        out.extend(rest[keep..keep + gone].chars().map(|c| match c {
            '\n' => '\n',
            _ => ' ',
        }));
        rest = &rest[keep + gone..];
    }
    out
}

/// How many bytes of the next token to keep, and how many after them to blank.
fn token(rest: &str, first: char, before: Option<char>) -> (usize, usize) {
    let inside_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match first {
        '/' if rest.starts_with("//") => (0, rest.find('\n').unwrap_or(rest.len())),
        '/' if rest.starts_with("/*") => (0, block_comment(rest)),
        '"' => (1, end_of_string(&rest[1..])),
        'r' if !inside_word || before == Some('b') => raw_string(rest).unwrap_or((1, 0)),
        '\'' => (1, character(&rest[1..])),
        c => (c.len_utf8(), 0),
    }
}

/// Up to the end of a comment that may hold others.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Up to the closing quote, which stays.
fn end_of_string(inside: &str) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            // Keeps the closing quote out of the next string: it is blanked with the inside.
            '"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    inside.len()
}

/// `r"…"`, `r#"…"#`, …; not `r#name`.
fn raw_string(rest: &str) -> Option<(usize, usize)> {
    let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
    let open = 1 + hashes;
    let inside = rest[open..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = inside
        .find(&close)
        .map_or(inside.len(), |at| at + close.len());
    Some((open + 1, end))
}

/// The inside of a character literal; a lifetime has none.
fn character(inside: &str) -> usize {
    let mut chars = inside.char_indices();
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            inside[after..].find('\'').map_or(0, |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_code_is_not() {
        for (text, gone, kept) in [
            ("a // gone\nb", "gone", "b"),
            ("a /* gone /* gone */ gone */ b", "gone", "b"),
            (r#"x("gone \" gone") + b"#, "gone", ") + b"),
            (r##"x(r#"gone " gone"#) + b"##, "gone", ") + b"),
            (r#"x(br"gone\") + b"#, "gone", ") + b"),
            ("'\"' + b + '\\'' + c", "\\", " + b + '"),
            (
                "fn f<'a>(x: &'a str) { b }",
                "gone",
                "fn f<'a>(x: &'a str) { b }",
            ),
            ("let r#type = b;", "gone", "let r#type = b;"),
            ("var\"gone\"b", "gone", "b"),
        ] {
            let code = blank(text);
            assert!(!code.contains(gone), "{text} -> {code}");
            assert!(code.contains(kept), "{text} -> {code}");
            assert_eq!(code.lines().count(), text.lines().count());
        }
    }

    #[test]
    fn what_stands_under_cfg_test_is_left_out() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\" }\n}\nfn c() {}\n\
            #[cfg(test)]\nmod more;\nfn d() {}\n#[cfg(test)] use x::{y, z};\nfn e() {}\n";
        let source = Source::new("crates/x/src/lib.rs", text);
        let kept: Vec<usize> = source.product_lines().iter().map(|(at, _)| *at).collect();
        assert_eq!(kept, [1, 6, 9, 11]);
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        let is_test = |path| Source::new(path, "").is_test();
        assert!(is_test("tests/src/lib.rs"));
        assert!(is_test("crates/x/tests/it/main.rs"));
        assert!(is_test("crates/x/benches/decision.rs"));
        assert!(is_test("crates/x/src/lease/tests.rs"));
        assert!(!is_test("crates/x/src/lease.rs"));
    }
}
