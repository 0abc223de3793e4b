//! `cargo xtask dev`: a demo that is built and started anew after each change.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use xtask::cache;

use crate::command::{build_executable, program};
use crate::stopwatch::Stopwatch;

/// Run the demo, and build and start it anew when a source file changes
///
/// The demo keeps its simulated clusters running after the incident, so that kubectl and `kelpie
/// explain` work on them. Ctrl-C ends it. The first build takes minutes, one after an edit seconds.
#[derive(clap::Args)]
pub(crate) struct DevArgs {
    /// Arguments for the demo; `--once --keep` by default
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// The time between two looks at the source files.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &DevArgs) -> Result<()> {
    let sources = cache::repository().join("crates");
    let mut demo: Option<Child> = None;
    let mut built = None;
    loop {
        let changed = last_change(&sources)?;
        if built != Some(changed) {
            built = Some(changed);
            // The old demo runs while the new one is built. A build that fails is printed by cargo.
            let watch = Stopwatch::start();
            if let Ok(executable) = build_executable(&["build", "--release", "--package", "kelpie"])
            {
                println!("built in {}", watch.read());
                end(demo.take());
                let mut command = prepare(&executable, &arguments.arguments);
                demo = Some(command.spawn().context("cannot start the demo")?);
            } else {
                println!("waiting for the next change …");
            }
        }
        if let Some(running) = &mut demo
            && running.try_wait()?.is_some()
        {
            return Ok(());
        }
        wait(INTERVAL);
    }
}

fn prepare(executable: &Path, arguments: &[String]) -> Command {
    let mut command = program(executable, &["demo"]);
    if arguments.is_empty() {
        command.args(["--once", "--keep"]);
    }
    command.args(arguments);
    command
}

fn end(demo: Option<Child>) {
    if let Some(mut demo) = demo {
        // It may have exited by itself. It is gone afterwards in any case.
        let _ = demo.kill();
        let _ = demo.wait();
    }
}

/// Returns the time of the last change of a source file or a manifest.
fn last_change(folder: &Path) -> Result<SystemTime> {
    let mut last = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            last = last.max(last_change(&path)?);
        } else if path
            .extension()
            .is_some_and(|end| end == "rs" || end == "toml")
        {
            // An editor may have removed a temporary file meanwhile.
            let changed = fs::metadata(&path).and_then(|found| found.modified());
            last = last.max(changed.unwrap_or(SystemTime::UNIX_EPOCH));
        }
    }
    Ok(last)
}

/// Waits on a channel without writers.
fn wait(time: Duration) {
    let (_keep, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(time);
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn last_change_is_that_of_the_newest_source_file() {
        let folder = env::temp_dir().join(format!("kelpie-dev-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("src")).unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (name, seconds) in [("Cargo.toml", 10), ("src/main.rs", 20), ("src/notes", 30)] {
            let file = fs::File::create(folder.join(name)).unwrap();
            file.set_modified(at(seconds)).unwrap();
        }
        assert_eq!(last_change(&folder).unwrap(), at(20));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn demo_is_kept_unless_told_otherwise() {
        let words = |arguments: &[String]| {
            let command = prepare(Path::new("kelpie"), arguments);
            let words = command.get_args().map(|word| word.to_string_lossy());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(&[]), "demo --once --keep");
        assert_eq!(words(&["--clusters=3".into()]), "demo --clusters=3");
    }
}
