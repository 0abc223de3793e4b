//! The limit of open files and sockets.

use std::fs;
use std::process::{self, Command};

use anyhow::{Context, Result, ensure};

/// Raises the soft limit of this process to its hard limit, and returns it. Processes that are
/// started later inherit it.
pub fn raise_limit() -> Result<u64> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let (soft, hard) = parse(&limits).context("no limit of open files in /proc/self/limits")?;
    if soft < hard {
        let status = Command::new("prlimit")
            .arg(format!("--pid={}", process::id()))
            .arg(format!("--nofile={hard}:{hard}"))
            .status()
            .context("running prlimit from util-linux")?;
        ensure!(status.success(), "prlimit: {status}");
    }
    Ok(hard)
}

/// Returns the soft and the hard limit.
fn parse(limits: &str) -> Option<(u64, u64)> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let mut values = line.split_whitespace();
    let mut next = || match values.next()? {
        "unlimited" => Some(u64::MAX),
        value => value.parse().ok(),
    };
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed() {
        let text = "Max processes  1 2 processes\nMax open files            1024   20000   files\n";
        assert_eq!(parse(text), Some((1_024, 20_000)));
        assert_eq!(parse("Max processes  1 2 processes\n"), None);
    }

    #[test]
    fn soft_limit_becomes_hard_limit() {
        let limit = raise_limit().unwrap();
        let limits = fs::read_to_string("/proc/self/limits").unwrap();
        assert_eq!(parse(&limits), Some((limit, limit)));
    }
}
