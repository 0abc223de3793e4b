//! The command line.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use kelpie_config::Strictness;

use crate::addon::AddonCommand;
use crate::check::Check;
use crate::check_config::CheckConfig;
use crate::completions::Completions;
use crate::crd::Crd;
#[cfg(feature = "demo")]
use crate::demo::Demo;
use crate::etcd::Etcd;
use crate::exit::ExitStatus;
use crate::explain::Explain;
use crate::generate::Generate;
use crate::go_flags::normalize_dashes;
use crate::guard::Guard;
use crate::pause::{Pause, Resume};
use crate::prober::Prober;
use crate::replay::Replay;
use crate::status::Status;
use crate::story::Events;
use crate::weeder::Weeder;

const LONG_ABOUT: &str = "\
Kelpie watches over Kubernetes control planes that run as pods in another cluster.

When the nodes of a cluster lose the connection to their control plane, its
kube-controller-manager marks them Unknown, and healthy machines get replaced. Kelpie notices
that node leases are no longer renewed and fences the controllers that would do the damage: it
scales them down before the first node turns Unknown, and restores them exactly when the nodes
are back. Pods that crash because a service they depend on was down are restarted as soon as
the service is back.

Kelpie reads the configuration files of Gardener's dependency-watchdog unchanged.";

const AFTER_HELP: &str = "\
Examples:
  kelpie demo                                see Kelpie at work for a minute, on simulated clusters
  kelpie status                              all clusters, the troubled ones first
  kelpie explain shoot--dev--one             the last decision about a cluster, with its reasons
  kelpie replay record --config f.yaml       decide again on a recorded night, with this file too
  kelpie events shoot--dev--one              what happened to a cluster
  kelpie pause --for 2h --reason drill       no new fence and no deletion for two hours
  kelpie check prober --config-file f.yaml   check configuration, permissions and every cluster
  kelpie check weeder --config-file f.yaml   check configuration, permissions and services
  kelpie check-config prober prober.yaml     summarize a file, or list all its problems
  kelpie check-config weeder - < weeder.yaml the same, from standard input
  kelpie check-config prober f.yaml -o json  the same, for scripts
  kelpie guard status --config-file f.yaml   the guard of every cluster
  kelpie etcd --listen :2378                 livez and readyz for the etcd member on this host
  kelpie etcd check                          the same checks once, as a table
  kelpie addon show                          the status of the observability addon, with reasons
  kelpie addon collector --help              forward metrics from a Prometheus to a hub
  source <(kelpie completions bash)          completion for this shell

Exit codes:
  0    success; check-config: the file is valid, possibly with warnings;
       etcd check: every check passed
  1    failure
  2    invalid command line
  3    addon report: the report was refused, nothing was written
  4    status: a cluster needs an operator, or the prober is paused
  130  demo: interrupted by Ctrl-C

If started under the name dependency-watchdog, unknown keys in configuration files are warnings
instead of errors.";

/// Returns the examples and exit codes, without those of the demo if it is left out.
fn after_help() -> String {
    let lines = AFTER_HELP.lines();
    let lines = lines.filter(|line| cfg!(feature = "demo") || !line.contains("demo"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The watchdog for Kubernetes control planes
#[derive(Parser)]
#[command(
    name = "kelpie",
    version,
    long_about = LONG_ABOUT,
    after_long_help = after_help(),
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: KelpieCommand,
}

#[derive(Subcommand)]
enum KelpieCommand {
    #[cfg(feature = "demo")]
    Demo(Demo),
    Prober(Box<Prober>),
    Weeder(Box<Weeder>),
    Status(Status),
    Explain(Explain),
    Replay(Replay),
    Events(Events),
    Pause(Pause),
    Resume(Resume),
    Check(Check),
    CheckConfig(CheckConfig),
    Guard(Guard),
    Etcd(Box<Etcd>),
    Addon(Box<AddonCommand>),
    Crd(Crd),
    Completions(Completions),
    #[command(hide = true)]
    Generate(Generate),
}

/// The name under which the program was started. It decides how strictly files are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Invocation {
    /// Unknown keys are errors
    Kelpie,
    /// Unknown keys are warnings, and the case of keys is ignored
    DependencyWatchdog,
}

const DEPENDENCY_WATCHDOG: &str = "dependency-watchdog";

impl Invocation {
    /// Detects the name in the first argument. A Deployment of dependency-watchdog that only swaps
    /// the image still starts `dependency-watchdog`.
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

/// Runs the subcommand that the arguments name. The first argument is the name of the program.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<ExitStatus> {
    let invocation = Invocation::of(arguments.first());
    let is_dwd_command = arguments
        .get(1)
        .is_some_and(|name| name == "prober" || name == "weeder");
    let arguments = if is_dwd_command {
        normalize_dashes(arguments)
    } else {
        arguments
    };
    match Cli::try_parse_from(arguments)?.command {
        #[cfg(feature = "demo")]
        KelpieCommand::Demo(command) => command.run(),
        KelpieCommand::Prober(command) => command.run(invocation),
        KelpieCommand::Weeder(command) => command.run(invocation),
        KelpieCommand::Status(command) => command.run(),
        KelpieCommand::Explain(command) => command.run(invocation),
        KelpieCommand::Replay(command) => command.run(invocation),
        KelpieCommand::Events(command) => command.run(),
        KelpieCommand::Pause(command) => command.run(),
        KelpieCommand::Resume(command) => command.run(),
        KelpieCommand::Check(command) => command.run(invocation),
        KelpieCommand::CheckConfig(command) => command.run(invocation),
        KelpieCommand::Guard(command) => command.run(invocation),
        KelpieCommand::Etcd(command) => command.run(),
        KelpieCommand::Addon(command) => command.run(),
        KelpieCommand::Crd(Crd {}) => Crd::run(),
        KelpieCommand::Completions(command) => command.run(invocation),
        KelpieCommand::Generate(command) => command.run(invocation),
    }
}

/// Creates the error for arguments that clap accepts but whose combination or value is invalid.
pub(crate) fn usage_error(message: &str) -> anyhow::Error {
    Cli::command()
        .error(ErrorKind::ValueValidation, message)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn invocation_follows_the_program_name() {
        let invocation = |name: &str| Invocation::of(Some(&OsString::from(name)));
        assert_eq!(
            invocation("/usr/local/bin/dependency-watchdog"),
            Invocation::DependencyWatchdog
        );
        assert_eq!(
            invocation("dependency-watchdog"),
            Invocation::DependencyWatchdog
        );
        assert_eq!(
            invocation("/dependency-watchdog/kelpie"),
            Invocation::Kelpie
        );
        assert_eq!(Invocation::of(None), Invocation::Kelpie);
    }
}
