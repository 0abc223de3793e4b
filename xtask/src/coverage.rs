//! `cargo xtask coverage`: line coverage per crate, with a minimum.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::cache;

use crate::command::{self, cargo, is_installed, program};
use crate::packages::install_subcommand;

/// The minimum line coverage of the product, in percent.
const MINIMUM: f64 = 85.0;

/// Crates with a higher minimum.
const CRATE_MINIMUMS: [(&str, f64); 2] = [("kelpie-core", 95.0), ("kelpie-config", 95.0)];

/// Files with a lower coverage are listed.
const LISTED_BELOW: f64 = 80.0;

/// The line coverage of a file or crate.
#[derive(Default, Clone, Copy)]
struct LineCoverage {
    total: u64,
    covered: u64,
}

impl LineCoverage {
    #[expect(clippy::cast_precision_loss, reason = "line counts are far below 2^52")]
    fn percent(self) -> f64 {
        match self.total {
            0 => 100.0,
            total => self.covered as f64 * 100.0 / total as f64,
        }
    }
}

pub(crate) fn run() -> Result<()> {
    install_subcommand("cargo-llvm-cov", "0.9.1")?;
    let report = env::temp_dir().join(format!("kelpie-coverage-{}.json", process::id()));
    let mut measure = cargo(&["llvm-cov", "--workspace", "--json", "--summary-only"]);
    measure.arg("--output-path").arg(&report);
    measure.envs(llvm_tools()?);
    let measured = command::run(&mut measure);
    let text = fs::read_to_string(&report).context("cargo-llvm-cov wrote no report");
    // An error means that there is no file, which is fine.
    let _ = fs::remove_file(&report);
    measured?;
    let report = serde_json::from_str(&text?)?;
    let files = product_files(&report, &cache::repository());
    for (file, lines) in &files {
        if lines.percent() < LISTED_BELOW {
            println!("{:>6.2} % of {file}", lines.percent());
        }
    }
    check_minimums(&per_crate(&files))
}

/// Returns variables that name LLVM's tools, if rustup has not installed its own. They must have
/// the version of the compiler.
fn llvm_tools() -> Result<Vec<(&'static str, String)>> {
    let libraries = command::read(&mut program("rustc", &["--print", "target-libdir"]))?;
    let own = Path::new(libraries.trim()).with_file_name("bin");
    if own.join("llvm-profdata").is_file() {
        return Ok(Vec::new());
    }
    let about = command::read(&mut program("rustc", &["--version", "--verbose"]))?;
    let version = about
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "));
    let major = version.and_then(|version| version.split('.').next());
    let major = major.context("rustc does not print its LLVM version")?;
    let tools = [("LLVM_COV", "llvm-cov"), ("LLVM_PROFDATA", "llvm-profdata")];
    let tools = tools.map(|(variable, tool)| (variable, format!("{tool}-{major}")));
    if tools.iter().any(|(_, tool)| !is_installed(tool)) {
        bail!(
            "LLVM's tools are missing: `rustup component add llvm-tools`, or on Debian as root \
             `apt-get install llvm-{major}`"
        );
    }
    Ok(tools.to_vec())
}

/// Returns the coverage of each product file by its path below `crates`. Tests and project commands
/// are not part of the product.
fn product_files(report: &Value, repository: &Path) -> BTreeMap<String, LineCoverage> {
    let folder = repository.join("crates");
    let read = |file: &Value| {
        let path = Path::new(file["filename"].as_str()?);
        let inside = path.strip_prefix(&folder).ok()?.to_str()?;
        let lines = &file["summary"]["lines"];
        let lines = LineCoverage {
            total: lines["count"].as_u64()?,
            covered: lines["covered"].as_u64()?,
        };
        Some((inside.to_owned(), lines))
    };
    let files = report["data"][0]["files"].as_array();
    files.into_iter().flatten().filter_map(read).collect()
}

fn per_crate(files: &BTreeMap<String, LineCoverage>) -> BTreeMap<String, LineCoverage> {
    let mut crates = BTreeMap::<String, LineCoverage>::new();
    for (file, lines) in files {
        let name = file.split('/').next().unwrap_or_default();
        let sum = crates.entry(name.to_owned()).or_default();
        sum.total += lines.total;
        sum.covered += lines.covered;
    }
    crates
}

fn check_minimums(crates: &BTreeMap<String, LineCoverage>) -> Result<()> {
    let missing = CRATE_MINIMUMS
        .iter()
        .find(|(name, _)| !crates.contains_key(*name));
    if let Some((name, _)) = missing {
        bail!("the report has no lines of {name}: did cargo-llvm-cov measure the workspace?");
    }
    let product = crates
        .values()
        .fold(LineCoverage::default(), |sum, lines| LineCoverage {
            total: sum.total + lines.total,
            covered: sum.covered + lines.covered,
        });
    let named = crates.iter().map(|(name, lines)| (name.as_str(), *lines));
    let mut low = Vec::new();
    for (name, lines) in named.chain([("all crates", product)]) {
        let own = CRATE_MINIMUMS.iter().find(|(own, _)| *own == name);
        let minimum = match own {
            Some((_, minimum)) => *minimum,
            None if name == "all crates" => MINIMUM,
            None => 0.0,
        };
        let percent = lines.percent();
        println!(
            "{name:<18} {percent:>6.2} %  {:>6} of {:>6} lines",
            lines.covered, lines.total
        );
        if percent < minimum {
            low.push(format!(
                "{name} has a line coverage of {percent:.2} %, minimum {minimum} %"
            ));
        }
    }
    if !low.is_empty() {
        bail!(
            "{}: `cargo llvm-cov report --html` shows the uncovered lines",
            low.join("; ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(files: &[(&str, u64, u64)]) -> Value {
        let file = |(name, total, covered): &(&str, u64, u64)| {
            serde_json::json!({
                "filename": name,
                "summary": { "lines": { "count": total, "covered": covered } },
            })
        };
        let files: Vec<Value> = files.iter().map(file).collect();
        serde_json::json!({ "data": [{ "files": files }] })
    }

    const CORE: (&str, u64, u64) = ("/r/crates/kelpie-core/src/a.rs", 100, 95);
    const CONFIG: (&str, u64, u64) = ("/r/crates/kelpie-config/src/a.rs", 100, 95);

    fn check(files: &[(&str, u64, u64)]) -> Result<()> {
        check_minimums(&per_crate(&product_files(&report(files), Path::new("/r"))))
    }

    #[test]
    fn only_product_crates_count() {
        let files = [
            CORE,
            CONFIG,
            ("/r/xtask/src/main.rs", 1_000, 0),
            ("/r/tests/src/lib.rs", 1_000, 0),
        ];
        assert!(check(&files).is_ok());
    }

    #[test]
    fn core_has_a_higher_minimum() {
        let files = [("/r/crates/kelpie-core/src/a.rs", 100, 94), CONFIG];
        let error = check(&files).unwrap_err().to_string();
        assert!(
            error.starts_with("kelpie-core has a line coverage of 94.00 %"),
            "{error}"
        );
    }

    #[test]
    fn product_has_a_minimum() {
        let files = [CORE, CONFIG, ("/r/crates/kelpie/src/main.rs", 1_000, 800)];
        let error = check(&files).unwrap_err().to_string();
        assert!(
            error.starts_with("all crates has a line coverage of 82.50 %"),
            "{error}"
        );
    }

    #[test]
    fn reports_without_the_core_are_rejected() {
        let error = check(&[CONFIG]).unwrap_err().to_string();
        assert!(error.contains("no lines of kelpie-core"), "{error}");
        assert!(check(&[]).is_err());
    }
}
