//! `cargo xtask sim`: the prober and the weeder under simulated faults.

use anyhow::Result;
use clap::ValueEnum;

use crate::command::{DIST, cargo, run as run_command};

/// Run the prober and the weeder against simulated landscapes under random faults.
///
/// Every run has its own landscape and faults, in virtual time, and checks the invariants after
/// every step. Its number seeds the random number generator. Stops at the first run that fails, and
/// prints the broken invariant, the faults that are needed to break it, the trace up to it and the
/// command that replays it.
///
/// `matrix` runs the prober through partitions with one further fault at any phase, and prints what
/// was lost although a fence in time was possible, as a table with one line for each fault.
#[derive(clap::Args)]
pub(crate) struct SimArgs {
    /// Simulate only this component, or the matrix
    component: Option<SimComponent>,
    /// The number of runs, from run 0 on
    #[arg(long = "seeds", value_name = "N", default_value_t = 200)]
    runs: u64,
    /// The simulated hours of faults in each run
    #[arg(long, default_value_t = 0.25)]
    hours: f64,
    /// The number of plays of the matrix for each fault
    #[arg(long, value_name = "N", default_value_t = 60)]
    plays: u64,
    /// Run the matrix with only this fault, such as seed-latency
    #[arg(long, value_name = "NAME")]
    fault: Option<String>,
    /// Run the matrix with guarded clusters
    #[arg(long)]
    guard: bool,
    /// Run the matrix on landscapes of Cluster API, whose MachineHealthChecks are paused
    #[arg(long)]
    cluster_api: bool,
    /// Run only the run, or the landscape of the matrix, with this number
    #[arg(long = "seed", value_name = "NUMBER")]
    run: Option<u64>,
    /// Print every event of the run
    #[arg(long, requires = "run")]
    trace: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SimComponent {
    Prober,
    Weeder,
    Matrix,
}

impl SimComponent {
    fn package(self) -> &'static str {
        match self {
            Self::Prober | Self::Matrix => "kelpie-prober",
            Self::Weeder => "kelpie-weeder",
        }
    }

    /// Returns the test that runs the simulations.
    fn test(self) -> &'static str {
        match self {
            Self::Prober | Self::Weeder => "chaos::long",
            Self::Matrix => "matrix::long",
        }
    }
}

pub(crate) fn run(arguments: &SimArgs) -> Result<()> {
    let components = match arguments.component.as_slice() {
        [] => &[SimComponent::Prober, SimComponent::Weeder],
        chosen => chosen,
    };
    for component in components {
        let mut test = cargo(&["test", "--profile", DIST, "--quiet", "--test", "it"]);
        test.args(["--package", component.package()]);
        test.args([
            "--",
            "--ignored",
            "--exact",
            "--nocapture",
            component.test(),
        ]);
        test.env("KELPIE_SIM_SEEDS", arguments.runs.to_string());
        test.env("KELPIE_SIM_HOURS", arguments.hours.to_string());
        test.env("KELPIE_MATRIX_PLAYS", arguments.plays.to_string());
        if let Some(fault) = &arguments.fault {
            test.env("KELPIE_MATRIX_FAULT", fault);
        }
        if arguments.guard {
            test.env("KELPIE_MATRIX_GUARD", "1");
        }
        if arguments.cluster_api {
            test.env("KELPIE_MATRIX_CLUSTER_API", "1");
        }
        if let Some(run) = arguments.run {
            test.env("KELPIE_SIM_SEED", run.to_string());
        }
        if arguments.trace {
            test.env("KELPIE_SIM_TRACE", "1");
        }
        run_command(&mut test)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use xtask::cache;

    use super::*;

    #[test]
    fn simulation_tests_exist() {
        for component in SimComponent::value_variants() {
            let (module, function) = component.test().split_once("::").unwrap();
            let file = format!("crates/{}/tests/it/{module}.rs", component.package());
            let text = fs::read_to_string(cache::repository().join(&file)).unwrap();
            assert!(text.contains(&format!("fn {function}()")), "{file}");
        }
    }
}
