//! `cargo xtask tidy`: the house rules, as code.
//!
//! `manifest`, `source_file` and `markdown` read the repository. Every other module checks one
//! family of rules and returns a [`Violation`] for each place that breaks one.

mod conventions;
mod file_length;
mod inheritance;
mod invariants;
mod layering;
mod line_width;
mod manifest;
mod markdown;
mod purity;
mod source_file;
mod unused_dependencies;
mod vocabulary;

use std::fmt;

use anyhow::{Result, bail};
use xtask::cache;

use self::invariants::Invariants;
use self::manifest::CrateManifest;
use self::markdown::MarkdownPage;
use self::source_file::SourceFile;

/// A broken rule: the place, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    file: String,
    /// The line, counted from 1.
    line: usize,
    text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

pub(crate) fn run() -> Result<()> {
    let root = cache::repository();
    let manifests = CrateManifest::read_all(&root)?;
    let sources = SourceFile::read_all(&root)?;
    let pages = MarkdownPage::read_all(&root)?;
    let invariants = Invariants::of(&pages);

    let mut violations = Vec::new();
    for manifest in &manifests {
        violations.extend(layering::check(manifest));
        violations.extend(inheritance::check(manifest));
        violations.extend(purity::check_manifest(manifest));
        violations.extend(unused_dependencies::check(manifest, &sources));
    }
    for source in &sources {
        violations.extend(purity::check_source(source));
        violations.extend(conventions::check(source));
        violations.extend(file_length::check(source));
        violations.extend(line_width::check_source(source));
        violations.extend(vocabulary::check_source(source));
    }
    for page in &pages {
        violations.extend(line_width::check_page(page));
        violations.extend(vocabulary::check_page(page));
    }
    violations.extend(invariants.check(&sources));

    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    println!("{}", file_length::report(&sources));
    if let Some(note) = invariants.note() {
        println!("{note}");
    }
    if !violations.is_empty() {
        bail!(
            "{} violations of the house rules, see above",
            violations.len()
        );
    }
    println!("{} crates are tidy", manifests.len());
    Ok(())
}
