//! `cargo xtask bench`: runs a benchmark by name.

use anyhow::{Context, Result, ensure};

use crate::command::{DIST, cargo, run as run_command};
use crate::instruction_budget::{DECISION, STREAM};

/// Run a benchmark; without a name, list them.
///
/// Record results in docs/develop/benchmarks.md, as a table with the command beside it.
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// The name of the benchmark
    name: Option<String>,
    /// Arguments for the benchmark
    #[arg(last = true)]
    arguments: Vec<String>,
}

struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const BENCHES: [Bench; 10] = [
    Bench {
        name: "race-model",
        about: "margin to the node controller's deadline of a fixed poll and of Kelpie's schedule",
        run: |arguments| cargo_bench("kelpie-core", "race_model", arguments),
    },
    Bench {
        name: "race",
        about: "partitions on real servers: the nodes that real kube-controller-managers mark \
                Unknown before a prober stops them; --fault adds a second fault to each, --prober \
                takes the command line of any prober",
        run: |arguments| cargo_bench("kelpie-e2e", "race", arguments),
    },
    Bench {
        name: "outage",
        about: "hundreds of clusters on real servers trip in the same second: the time in which a \
                prober fences and restores all of them; --prober takes any prober's command line",
        run: |arguments| cargo_bench("kelpie-e2e", "outage", arguments),
    },
    Bench {
        name: "fleet",
        about: "memory, processor time and requests of a prober over many healthy clusters on real \
                servers; --peer takes the command line of any prober",
        run: |arguments| cargo_bench("kelpie-e2e", "fleet", arguments),
    },
    Bench {
        name: "scale",
        about: "memory, processor time, late rounds and open files of a prober over thousands of \
                healthy clusters, whose API servers are simulated",
        run: |arguments| cargo_bench("kelpie-e2e", "scale", arguments),
    },
    Bench {
        name: "landscape",
        about: "speed and maximum size of a simulated landscape",
        run: |_| long_tests("kelpie-prober", "scale::"),
    },
    Bench {
        name: "endurance",
        about: "a simulated day of faults: memory, tasks and series of a prober after each hour",
        run: |_| long_tests("kelpie-prober", "endurance::"),
    },
    Bench {
        name: "hop",
        about: "requests of the addon's hub status controller with 2,000 clusters on a simulated \
                hub, at the start and in an hour",
        run: |_| long_tests("kelpie-addon", "two_thousand_clusters"),
    },
    Bench {
        name: "decision",
        about: "instructions per lease of a decision over 5,000 leases (valgrind), with a budget",
        run: |arguments| {
            ensure!(arguments.is_empty(), "this benchmark takes no arguments");
            DECISION.check().map(|_| ())
        },
    },
    Bench {
        name: "collector",
        about: "samples per second of a collector on a real federate body, its memory with a body \
                of 1 GiB, and instructions per sample (valgrind), with a budget; `-- --process` \
                measures the whole process, `-- --peer` the command line of any collector",
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

pub(crate) fn run(arguments: &BenchArgs) -> Result<()> {
    let Some(name) = &arguments.name else {
        for bench in &BENCHES {
            println!("{:<12} {}", bench.name, bench.about);
        }
        return Ok(());
    };
    let bench = BENCHES.iter().find(|bench| bench.name == name);
    let bench = bench
        .with_context(|| format!("there is no benchmark {name}: `cargo xtask bench` lists them"))?;
    (bench.run)(&arguments.arguments)
}

/// Runs the ignored tests of a package whose path contains `name`, one after the other.
fn long_tests(package: &str, name: &str) -> Result<()> {
    let mut test = cargo(&["test", "--profile", DIST, "--quiet", "--package", package]);
    test.args(["--test", "it", "--", "--ignored", "--nocapture"]);
    run_command(test.args(["--test-threads", "1", name]))
}

pub(crate) fn cargo_bench(package: &str, target: &str, arguments: &[String]) -> Result<()> {
    let mut bench = cargo(&["bench", "--profile", DIST, "--quiet", "--package", package]);
    run_command(bench.args(["--bench", target, "--"]).args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_get_a_hint() {
        let arguments = BenchArgs {
            name: Some("speed".into()),
            arguments: Vec::new(),
        };
        let error = run(&arguments).unwrap_err().to_string();
        assert!(error.contains("`cargo xtask bench` lists them"), "{error}");
    }
}
