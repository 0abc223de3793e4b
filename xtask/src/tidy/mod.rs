//! `cargo xtask tidy`: the house rules, as code.
//!
//! `manifest` and `source` read the repository; `arrows`, `inheritance`, `purity`, `habits` and
//! `length` each hold one family of rules over what was read.

mod arrows;
mod habits;
mod inheritance;
mod length;
mod manifest;
mod purity;
mod source;

use std::fmt;

use anyhow::{Result, bail};
use xtask::cache;

use self::manifest::Manifest;
use self::source::Source;

/// A broken rule: where, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    file: String,
    /// Counted from 1.
    line: usize,
    text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

pub(crate) fn run() -> Result<()> {
    let root = cache::repository();
    let manifests = Manifest::read_all(&root)?;
    let sources = Source::read_all(&root)?;

    let mut problems = Vec::new();
    for manifest in &manifests {
        problems.extend(arrows::check(manifest));
        problems.extend(inheritance::check(manifest));
        problems.extend(purity::check_manifest(manifest));
    }
    for source in &sources {
        problems.extend(purity::check_source(source));
        problems.extend(habits::check(source));
        problems.extend(length::check(source));
    }
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    println!("{}", length::report(&sources));
    if !problems.is_empty() {
        bail!("{} house rules are broken, see above", problems.len());
    }
    println!("{} crates are tidy", manifests.len());
    Ok(())
}
