//! The program as the image has it: without the demo and what only the demo needs.

use anyhow::{Result, bail};

use crate::command::{cargo, read, run};

/// The flags of cargo that leave out the demo.
pub(crate) const NO_DEMO: [&str; 1] = ["--no-default-features"];

/// Packages and features that must not become part of the image, as `cargo tree` prints them.
const UNWANTED: [&str; 4] = [
    "kelpie-chaos v",
    "kelpie-sim v",
    "rcgen v",
    "tokio feature \"test-util\"",
];

/// Lints the program without the demo and checks its dependencies. Returns a summary.
pub(crate) fn check() -> Result<String> {
    const PROGRAM: [&str; 3] = ["--package", "kelpie", NO_DEMO[0]];
    run(cargo(&["clippy"])
        .args(PROGRAM)
        .args(["--", "-D", "warnings"]))?;
    let mut tree = cargo(&["tree", "--edges", "features,no-dev", "--prefix", "none"]);
    let found = unwanted(&read(tree.args(PROGRAM))?);
    if !found.is_empty() {
        bail!(
            "the image would contain {}: `cargo tree {} --invert NAME` shows who needs it",
            found.join(", "),
            PROGRAM.join(" ")
        );
    }
    Ok("without the simulator and test-util".to_owned())
}

fn unwanted(tree: &str) -> Vec<&'static str> {
    let is_listed = |unwanted: &&str| tree.lines().any(|line| line.starts_with(unwanted));
    UNWANTED.into_iter().filter(is_listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_dependencies_are_unwanted() {
        let tree = "kelpie v0.1.0\ntokio feature \"time\"\nrcgen v0.14.10 (*)\n\
                    tokio feature \"test-util\"\n";
        assert_eq!(unwanted(tree), ["rcgen v", "tokio feature \"test-util\""]);
        assert!(unwanted("kelpie v0.1.0\ntokio v1.54.0\n").is_empty());
    }
}
