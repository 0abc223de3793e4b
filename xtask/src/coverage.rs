//! `cargo xtask coverage`: which lines the tests run, per crate, with a floor.

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

/// Percent of the product's lines that tests must run, and the crates that must have more.
const FLOOR: f64 = 85.0;
const HIGHER: [(&str, f64); 2] = [("kelpie-core", 95.0), ("kelpie-config", 95.0)];

/// A file with a smaller percentage is named.
const LOW: f64 = 80.0;

/// Lines of one file or crate.
#[derive(Default, Clone, Copy)]
struct Lines {
    all: u64,
    run: u64,
}

impl Lines {
    #[expect(clippy::cast_precision_loss, reason = "line counts are far below 2^52")]
    fn percent(self) -> f64 {
        match self.all {
            0 => 100.0,
            all => self.run as f64 * 100.0 / all as f64,
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
    // Gone or never written: either way nothing is left behind.
    let _ = fs::remove_file(&report);
    measured?;
    let report = serde_json::from_str(&text?)?;
    let files = product_files(&report, &cache::repository());
    for (file, lines) in &files {
        if lines.percent() < LOW {
            println!("{:>6.2} % of {file}", lines.percent());
        }
    }
    judge(&per_crate(&files))
}

/// Where LLVM's tools are when rustup has not installed its own: from a package of the same version.
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
    let major = major.context("rustc does not say its LLVM version")?;
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

/// Each file of a product crate by its path below `crates`; tests and project commands are not the
/// product.
fn product_files(report: &Value, repository: &Path) -> BTreeMap<String, Lines> {
    let folder = repository.join("crates");
    let read = |file: &Value| {
        let path = Path::new(file["filename"].as_str()?);
        let inside = path.strip_prefix(&folder).ok()?.to_str()?;
        let lines = &file["summary"]["lines"];
        let lines = Lines {
            all: lines["count"].as_u64()?,
            run: lines["covered"].as_u64()?,
        };
        Some((inside.to_owned(), lines))
    };
    let files = report["data"][0]["files"].as_array();
    files.into_iter().flatten().filter_map(read).collect()
}

fn per_crate(files: &BTreeMap<String, Lines>) -> BTreeMap<String, Lines> {
    let mut crates = BTreeMap::<String, Lines>::new();
    for (file, lines) in files {
        let name = file.split('/').next().unwrap_or_default();
        let sum = crates.entry(name.to_owned()).or_default();
        sum.all += lines.all;
        sum.run += lines.run;
    }
    crates
}

fn judge(crates: &BTreeMap<String, Lines>) -> Result<()> {
    let missing = HIGHER.iter().find(|(name, _)| !crates.contains_key(*name));
    if let Some((name, _)) = missing {
        bail!("the report has no line of {name}: did cargo-llvm-cov measure the workspace?");
    }
    let all = crates.values().fold(Lines::default(), |sum, lines| Lines {
        all: sum.all + lines.all,
        run: sum.run + lines.run,
    });
    let named = crates.iter().map(|(name, lines)| (name.as_str(), *lines));
    let mut low = Vec::new();
    for (name, lines) in named.chain([("all crates", all)]) {
        let higher = HIGHER.iter().find(|(higher, _)| *higher == name);
        let floor = match higher {
            Some((_, floor)) => *floor,
            None if name == "all crates" => FLOOR,
            None => 0.0,
        };
        let percent = lines.percent();
        println!(
            "{name:<18} {percent:>6.2} %  {:>6} of {:>6} lines",
            lines.run, lines.all
        );
        if percent < floor {
            low.push(format!(
                "{name} has {percent:.2} % of its lines tested, floor {floor} %"
            ));
        }
    }
    if !low.is_empty() {
        bail!(
            "{}: `cargo llvm-cov report --html` shows the lines",
            low.join("; ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(files: &[(&str, u64, u64)]) -> Value {
        let file = |(name, all, run): &(&str, u64, u64)| {
            serde_json::json!({
                "filename": name,
                "summary": { "lines": { "count": all, "covered": run } },
            })
        };
        let files: Vec<Value> = files.iter().map(file).collect();
        serde_json::json!({ "data": [{ "files": files }] })
    }

    const CORE: (&str, u64, u64) = ("/r/crates/kelpie-core/src/a.rs", 100, 95);
    const CONFIG: (&str, u64, u64) = ("/r/crates/kelpie-config/src/a.rs", 100, 95);

    fn judged(files: &[(&str, u64, u64)]) -> Result<()> {
        judge(&per_crate(&product_files(&report(files), Path::new("/r"))))
    }

    #[test]
    fn product_crates_alone_count() {
        let files = [
            CORE,
            CONFIG,
            ("/r/xtask/src/main.rs", 1_000, 0),
            ("/r/tests/src/lib.rs", 1_000, 0),
        ];
        assert!(judged(&files).is_ok());
    }

    #[test]
    fn the_core_has_a_higher_floor() {
        let files = [("/r/crates/kelpie-core/src/a.rs", 100, 94), CONFIG];
        let error = judged(&files).unwrap_err().to_string();
        assert!(error.starts_with("kelpie-core has 94.00 %"), "{error}");
    }

    #[test]
    fn the_whole_has_a_floor() {
        let files = [CORE, CONFIG, ("/r/crates/kelpie/src/main.rs", 1_000, 800)];
        let error = judged(&files).unwrap_err().to_string();
        assert!(error.starts_with("all crates has 82.50 %"), "{error}");
    }

    #[test]
    fn a_report_without_the_core_proves_nothing() {
        let error = judged(&[CONFIG]).unwrap_err().to_string();
        assert!(error.contains("no line of kelpie-core"), "{error}");
        assert!(judged(&[]).is_err());
    }
}
