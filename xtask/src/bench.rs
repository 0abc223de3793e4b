//! `cargo xtask bench`: benchmarks by name.

use anyhow::{Context, Result, ensure};

use crate::command::{cargo, run as run_command};
use crate::instructions::{DECISION, STREAM};

/// Run a benchmark; without a name, list them.
///
/// Results belong into docs/benchmarks.md, as a table with the command beside it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which one
    name: Option<String>,
    /// Passed on to the benchmark
    #[arg(last = true)]
    arguments: Vec<String>,
}

struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const BENCHES: [Bench; 8] = [
    Bench {
        name: "race-model",
        about: "how far a fixed poll and Kelpie's schedule are from the node controller's deadline",
        run: |arguments| cargo_bench("kelpie-core", "race_model", arguments),
    },
    Bench {
        name: "race",
        about: "partitions on real servers: how many nodes real kube-controller-managers give up before \
                a prober stops them; any prober's command line with --prober",
        run: |arguments| cargo_bench("kelpie-e2e", "race", arguments),
    },
    Bench {
        name: "outage",
        about: "hundreds of clusters on real servers trip in the same second: how long a prober takes to \
                fence them all, and to restore them; any prober's command line with --prober",
        run: |arguments| cargo_bench("kelpie-e2e", "outage", arguments),
    },
    Bench {
        name: "fleet",
        about: "memory, processor time and requests of a prober over many healthy clusters on real \
                servers; any prober's command line after --peer",
        run: |arguments| cargo_bench("kelpie-e2e", "fleet", arguments),
    },
    Bench {
        name: "landscape",
        about: "how fast time goes by in a simulated landscape, and how large one may be",
        run: |_| long_tests("scale::"),
    },
    Bench {
        name: "endurance",
        about: "a simulated day of faults: memory, tasks and series of a prober after each hour",
        run: |_| long_tests("endurance::"),
    },
    Bench {
        name: "decision",
        about: "instructions per lease of a decision over 5,000 leases (valgrind), held to a budget",
        run: |arguments| {
            ensure!(arguments.is_empty(), "this benchmark takes no arguments");
            DECISION.check().map(|_| ())
        },
    },
    Bench {
        name: "collector",
        about: "samples a second of a collector on a real federate body, its memory under a body of \
                1 GiB, and instructions per sample (valgrind), held to a budget; with -- --process \
                the cost of the whole process, with -- --peer of any collector's command line",
        run: |arguments| match arguments {
            [] => {
                cargo_bench("kelpie-collector", "stream", &[])?;
                let large = ["--mebibytes".into(), "1024".into()];
                cargo_bench("kelpie-collector", "stream", &large)?;
                STREAM.check().map(|_| ())
            }
            [first, rest @ ..] if first == "--process" => {
                cargo_bench("kelpie-e2e", "collector", rest)
            }
            _ => cargo_bench("kelpie-e2e", "collector", arguments),
        },
    },
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Some(name) = &arguments.name else {
        for bench in &BENCHES {
            println!("{:<12} {}", bench.name, bench.about);
        }
        return Ok(());
    };
    let bench = BENCHES.iter().find(|bench| bench.name == name);
    let bench = bench
        .with_context(|| format!("no benchmark is named {name}: `cargo xtask bench` lists them"))?;
    (bench.run)(&arguments.arguments)
}

/// The prober's tests of this name that take minutes, one after the other.
fn long_tests(name: &str) -> Result<()> {
    let mut test = cargo(&["test", "--release", "--quiet", "--package", "kelpie-prober"]);
    test.args(["--test", "it", "--", "--ignored", "--nocapture"]);
    run_command(test.args(["--test-threads", "1", name]))
}

pub(crate) fn cargo_bench(package: &str, target: &str, arguments: &[String]) -> Result<()> {
    let mut bench = cargo(&["bench", "--quiet", "--package", package, "--bench", target]);
    run_command(bench.arg("--").args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_says_how_to_see_the_known_ones() {
        let arguments = Arguments {
            name: Some("speed".into()),
            arguments: Vec::new(),
        };
        let error = run(&arguments).unwrap_err().to_string();
        assert!(error.contains("`cargo xtask bench` lists them"), "{error}");
    }
}
