//! A Rust file, as the rules see it: its text, and its code without comments and literals.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Violation;

/// A Rust file of the workspace.
pub(super) struct SourceFile {
    /// The path from the root of the repository, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with comments and the content of literals blanked. Line numbers are the same.
    pub(super) code: String,
}

impl SourceFile {
    /// Reads every Rust file of the workspace and of the fuzz targets.
    pub(super) fn read_all(root: &Path) -> Result<Vec<Self>> {
        let mut sources = Vec::new();
        for folder in ["crates", "fuzz", "tests", "xtask"] {
            collect(root, &root.join(folder), &mut sources)?;
        }
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(sources)
    }

    pub(super) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: blank(text, Comments::Blank),
        }
    }

    /// Returns the text with the content of literals blanked, which leaves code and comments.
    pub(super) fn without_literals(&self) -> String {
        blank(&self.text, Comments::Keep)
    }

    /// Returns true for files that are compiled only for tests, benchmarks and fuzzing.
    pub(super) fn is_test(&self) -> bool {
        let (folders, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let is_test = |name| ["tests", "benches", "fuzz"].contains(&name);
        folders.split('/').any(is_test) || file == "tests.rs"
    }

    /// Returns the lines of code outside `#[cfg(test)]` items, numbered from 1.
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

    pub(super) fn violation(&self, line: usize, text: String) -> Violation {
        let file = self.path.clone();
        Violation { file, line, text }
    }
}

/// Skips the item that starts on `line`, up to its closing brace or semicolon.
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

fn collect(root: &Path, folder: &Path, sources: &mut Vec<SourceFile>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            collect(root, &path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let inside = path.strip_prefix(root).unwrap_or(&path);
            sources.push(SourceFile::new(&inside.to_string_lossy(), &text));
        }
    }
    Ok(())
}

/// The treatment of comments in [`blank`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comments {
    Blank,
    Keep,
}

/// Replaces the content of literals, and comments if asked to, by spaces. Line ends stay.
fn blank(text: &str, comments: Comments) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (keep, blanked) = token(rest, first, out.chars().next_back(), comments);
        out.push_str(&rest[..keep]);
        out.extend(rest[keep..keep + blanked].chars().map(|c| match c {
            '\n' => '\n',
            _ => ' ',
        }));
        rest = &rest[keep + blanked..];
    }
    out
}

/// Returns the number of bytes of the next token to keep, and the number after them to blank.
fn token(rest: &str, first: char, before: Option<char>, comments: Comments) -> (usize, usize) {
    let comment = |length| match comments {
        Comments::Blank => (0, length),
        Comments::Keep => (length, 0),
    };
    let inside_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match first {
        '/' if rest.starts_with("//") => comment(rest.find('\n').unwrap_or(rest.len())),
        '/' if rest.starts_with("/*") => comment(block_comment(rest)),
        '"' => (1, end_of_string(&rest[1..])),
        'r' if !inside_word || before == Some('b') => raw_string(rest).unwrap_or((1, 0)),
        '\'' => (1, character(&rest[1..])),
        c => (c.len_utf8(), 0),
    }
}

/// Returns the length of a block comment, which may contain others.
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

/// Returns the length up to and including the closing quote.
fn end_of_string(inside: &str) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            // The closing quote is blanked too, so that it does not open the next string.
            '"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    inside.len()
}

/// Matches `r"…"` and `r#"…"#`, but not `r#name`.
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

/// Returns the length of a character literal after its opening quote; 0 for a lifetime.
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
    fn comments_and_literals_are_blanked() {
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
            let code = blank(text, Comments::Blank);
            assert!(!code.contains(gone), "{text} -> {code}");
            assert!(code.contains(kept), "{text} -> {code}");
            assert_eq!(code.lines().count(), text.lines().count());
        }
    }

    #[test]
    fn comments_are_kept_without_literals() {
        let source = SourceFile::new("crates/x/src/lib.rs", "// kept\nf(\"gone\"); /* kept */\n");
        let text = source.without_literals();
        assert_eq!(text.matches("kept").count(), 2, "{text}");
        assert!(!text.contains("gone"), "{text}");
    }

    #[test]
    fn cfg_test_items_are_not_product_code() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\" }\n}\nfn c() {}\n\
            #[cfg(test)]\nmod more;\nfn d() {}\n#[cfg(test)] use x::{y, z};\nfn e() {}\n";
        let source = SourceFile::new("crates/x/src/lib.rs", text);
        let kept: Vec<usize> = source.product_lines().iter().map(|(at, _)| *at).collect();
        assert_eq!(kept, [1, 6, 9, 11]);
    }

    #[test]
    fn test_files_are_recognised_by_path() {
        let is_test = |path| SourceFile::new(path, "").is_test();
        assert!(is_test("tests/src/lib.rs"));
        assert!(is_test("crates/x/tests/it/main.rs"));
        assert!(is_test("crates/x/benches/decision.rs"));
        assert!(is_test("crates/x/src/lease/tests.rs"));
        assert!(!is_test("crates/x/src/lease.rs"));
    }
}
