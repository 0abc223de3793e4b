//! `cargo xtask sim`: the prober and the weeder under simulated random faults.

use anyhow::Result;
use clap::ValueEnum;

use crate::command::{cargo, run as run_command};

/// Run the prober and the weeder against simulated landscapes under random faults.
///
/// Every run has its own landscape and faults, in virtual time, and checks the invariants after
/// every step. Its number seeds the random number generator. Stops at the first run that fails, and
/// prints the broken invariant, the faults that are needed to break it, the trace up to it and the
/// command that replays it.
#[derive(clap::Args)]
pub(crate) struct SimArgs {
    /// Simulate only this component
    component: Option<SimComponent>,
    /// The number of runs, from run 0 on
    #[arg(long = "seeds", value_name = "N", default_value_t = 200)]
    runs: u64,
    /// The simulated hours of faults in each run
    #[arg(long, default_value_t = 0.25)]
    hours: f64,
    /// Run only the run with this number
    #[arg(long = "seed", value_name = "NUMBER")]
    run: Option<u64>,
    /// Print every event of the run
    #[arg(long, requires = "run")]
    trace: bool,
}

/// The test that runs the simulations, in the package of each component.
const TEST: &str = "chaos::long";

#[derive(Clone, Copy, ValueEnum)]
enum SimComponent {
    Prober,
    Weeder,
}

impl SimComponent {
    fn package(self) -> &'static str {
        match self {
            Self::Prober => "kelpie-prober",
            Self::Weeder => "kelpie-weeder",
        }
    }
}

pub(crate) fn run(arguments: &SimArgs) -> Result<()> {
    let components = match arguments.component.as_slice() {
        [] => SimComponent::value_variants(),
        chosen => chosen,
    };
    for component in components {
        let mut test = cargo(&["test", "--release", "--quiet", "--test", "it"]);
        test.args(["--package", component.package()]);
        test.args(["--", "--ignored", "--exact", "--nocapture", TEST]);
        test.env("KELPIE_SIM_SEEDS", arguments.runs.to_string());
        test.env("KELPIE_SIM_HOURS", arguments.hours.to_string());
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
        let (module, function) = TEST.split_once("::").unwrap();
        for component in SimComponent::value_variants() {
            let file = format!("crates/{}/tests/it/{module}.rs", component.package());
            let text = fs::read_to_string(cache::repository().join(&file)).unwrap();
            assert!(text.contains(&format!("fn {function}()")), "{file}");
        }
    }
}
