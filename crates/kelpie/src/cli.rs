//! The command line.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use kelpie_config::Strictness;

use crate::addon::Addon;
use crate::check::Check;
use crate::check_config::CheckConfig;
use crate::completions::Completions;
use crate::crd::Crd;
use crate::demo::Demo;
use crate::etcd::Etcd;
use crate::exit::Outcome;
use crate::explain::Explain;
use crate::generate::Generate;
use crate::go_flags::with_two_dashes;
use crate::prober::Prober;
use crate::weeder::Weeder;

const LONG_ABOUT: &str = "\
Kelpie watches over Kubernetes control planes that run as pods in another cluster.

When the nodes of a cluster lose their connection to the control plane, its
kube-controller-manager takes them for dead, and machines that are fine get replaced.
Kelpie sees that the node leases stop being renewed and fences the controllers that would
do the damage (scales them down) before the first node turns Unknown; when the nodes are
back, it restores them exactly. Pods that crash because a service they need was away are
restarted as soon as the service is back.

It takes the configuration files of Gardener's dependency-watchdog as they are.";

const AFTER_HELP: &str = "\
Examples:
  kelpie demo                                what it does, in a minute, on a simulated fleet
  kelpie explain shoot--dev--one             what the prober last decided about a cluster, and why
  kelpie check prober --config-file f.yaml   would the prober work here: permissions, every cluster
  kelpie check weeder --config-file f.yaml   would the weeder: permissions, services
  kelpie check-config prober prober.yaml     what a file means, or everything that is wrong with it
  kelpie check-config weeder - < weeder.yaml the same, from standard input
  kelpie check-config prober f.yaml -o json  for scripts
  kelpie etcd --listen :2378                 livez and readyz for the etcd member on this host
  kelpie etcd check                          the same checks once, as a table
  kelpie addon show                          how the observability addon is, and why
  kelpie addon collector --help              forward metrics from a Prometheus to a hub
  source <(kelpie completions bash)          completion for this shell

Exit codes:
  0  it worked; for check-config: the file can be used, even if there are warnings;
     for etcd check: every check is ok
  1  it did not
  2  the command line was wrong
  3  addon report: the report was refused, and nothing written
  130  demo: it was ended by Ctrl-C before its end

Started under the name dependency-watchdog, unknown keys in configuration files only warn.";

/// The watchdog for Kubernetes control planes
#[derive(Parser)]
#[command(
    name = "kelpie",
    version,
    long_about = LONG_ABOUT,
    after_long_help = AFTER_HELP,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(Demo),
    Prober(Box<Prober>),
    Weeder(Box<Weeder>),
    Explain(Explain),
    Check(Check),
    CheckConfig(CheckConfig),
    Etcd(Box<Etcd>),
    Addon(Box<Addon>),
    Crd(Crd),
    Completions(Completions),
    #[command(hide = true)]
    Generate(Generate),
}

/// The name the program goes by, which decides how strict it is with configuration files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Guise {
    /// Unknown keys are errors
    Kelpie,
    /// Unknown keys only warn, and the case of keys is ignored
    DependencyWatchdog,
}

const DEPENDENCY_WATCHDOG: &str = "dependency-watchdog";

impl Guise {
    /// By the first argument: a swapped image still starts `dependency-watchdog`.
    fn of(program: Option<&OsString>) -> Self {
        match program.and_then(|path| Path::new(path).file_name()) {
            Some(name) if name == DEPENDENCY_WATCHDOG => Self::DependencyWatchdog,
            _ => Self::Kelpie,
        }
    }

    pub(crate) const fn strictness(self) -> Strictness {
        match self {
            Self::Kelpie => Strictness::Strict,
            Self::DependencyWatchdog => Strictness::Lenient,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kelpie => "kelpie",
            Self::DependencyWatchdog => DEPENDENCY_WATCHDOG,
        }
    }
}

/// Does what the arguments ask; the first is the name of the program.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<Outcome> {
    let guise = Guise::of(arguments.first());
    let is_for_dwd = arguments
        .get(1)
        .is_some_and(|word| word == "prober" || word == "weeder");
    let arguments = if is_for_dwd {
        with_two_dashes(arguments)
    } else {
        arguments
    };
    match Cli::try_parse_from(arguments)?.command {
        Command::Demo(command) => command.run(),
        Command::Prober(command) => command.run(guise),
        Command::Weeder(command) => command.run(guise),
        Command::Explain(command) => command.run(guise),
        Command::Check(command) => command.run(guise),
        Command::CheckConfig(command) => command.run(guise),
        Command::Etcd(command) => command.run(),
        Command::Addon(command) => command.run(),
        Command::Crd(Crd {}) => Crd::run(),
        Command::Completions(command) => command.run(guise),
        Command::Generate(command) => command.run(guise),
    }
}

/// A command line that is well formed, and wrong all the same.
pub(crate) fn usage_error(message: &str) -> anyhow::Error {
    Cli::command()
        .error(ErrorKind::ValueValidation, message)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_guise_follows_the_name_of_the_program() {
        let guise = |name: &str| Guise::of(Some(&OsString::from(name)));
        assert_eq!(
            guise("/usr/local/bin/dependency-watchdog"),
            Guise::DependencyWatchdog
        );
        assert_eq!(guise("dependency-watchdog"), Guise::DependencyWatchdog);
        assert_eq!(guise("/dependency-watchdog/kelpie"), Guise::Kelpie);
        assert_eq!(Guise::of(None), Guise::Kelpie);
    }
}
