//! `cargo xtask sim`: the prober and the weeder under simulated faults, for as long as one likes.

use anyhow::Result;
use clap::ValueEnum;

use crate::command::{cargo, run as run_command};

/// Run the prober and the weeder against simulated landscapes under random faults.
///
/// Every seed is a landscape of its own with faults of its own, in virtual time; what they
/// promise is checked after every step. Ends at the first seed that fails, and prints what is wrong,
/// the faults that are needed for it, the trace before it and the command that replays it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this one
    component: Option<Component>,
    /// How many seeds, from 0 on
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// For how many simulated hours faults go on in each
    #[arg(long, default_value_t = 0.25)]
    hours: f64,
    /// Only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happens
    #[arg(long, requires = "seed")]
    trace: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Component {
    Prober,
    Weeder,
}

impl Component {
    fn package(self) -> &'static str {
        match self {
            Self::Prober => "kelpie-prober",
            Self::Weeder => "kelpie-weeder",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let one = arguments.component.as_slice();
    let components = match one {
        [] => Component::value_variants(),
        _ => one,
    };
    for component in components {
        let mut test = cargo(&["test", "--release", "--quiet", "--test", "it"]);
        test.args(["--package", component.package()]);
        test.args(["--", "--ignored", "--exact", "--nocapture", "seeds::long"]);
        test.env("KELPIE_SIM_SEEDS", arguments.seeds.to_string());
        test.env("KELPIE_SIM_HOURS", arguments.hours.to_string());
        if let Some(seed) = arguments.seed {
            test.env("KELPIE_SIM_SEED", seed.to_string());
        }
        if arguments.trace {
            test.env("KELPIE_SIM_TRACE", "1");
        }
        run_command(&mut test)?;
    }
    Ok(())
}
