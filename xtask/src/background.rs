//! Builds the real servers in the background, while steps run that need none.
//!
//! A child process does the work: this program with the command `tools`. Its output goes to a log,
//! so that it does not mix with that of the steps.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use xtask::cache;

use crate::{packages, tools};

/// The number of lines of the log that an error shows.
const TAIL: usize = 20;

/// The servers, or the process that builds them.
pub(crate) enum ServerBuild {
    /// Nothing was missing.
    Complete,
    Running(Running),
}

pub(crate) struct Running {
    child: Child,
    log: PathBuf,
    /// The names of what was missing.
    missing: Vec<&'static str>,
}

impl ServerBuild {
    /// Starts to build what is missing. What cannot be built on this machine is an error at once.
    pub(crate) fn start() -> Result<Self> {
        let folder = cache::folder()?;
        let (packages, servers) = (packages::missing(), tools::missing(&folder));
        if packages.is_empty() && servers.is_empty() {
            return Ok(Self::Complete);
        }
        packages::check_installable(&packages)?;
        tools::check_go(&servers)?;
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let mut program = Command::new(env::current_exe()?);
        program.args(["tools", "--packages"]);
        let missing: Vec<&str> = packages.into_iter().chain(servers).collect();
        println!("building in the background: {}", missing.join(", "));
        let running = Running::start(program, &folder.join("build.log"), missing)?;
        println!("  log: {}", running.log.display());
        Ok(Self::Running(running))
    }

    /// Returns an error if the build has failed so far.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self {
            Self::Complete => Ok(()),
            Self::Running(running) => match running.child.try_wait()? {
                None => Ok(()),
                Some(status) => running.result(status),
            },
        }
    }

    /// Waits for the end of the build. Returns a summary.
    pub(crate) fn wait(&mut self) -> Result<String> {
        match self {
            Self::Complete => Ok("all present".to_owned()),
            Self::Running(running) => running.wait(),
        }
    }

    /// Tells that the build goes on after this process, if it does.
    pub(crate) fn leave(&mut self) {
        if let Self::Running(running) = self
            && matches!(running.child.try_wait(), Ok(None))
        {
            let (id, log) = (running.child.id(), running.log.display());
            println!("process {id} goes on to build the servers for the next run, log: {log}");
        }
    }
}

impl Running {
    fn start(mut program: Command, log: &Path, missing: Vec<&'static str>) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        program.stdin(Stdio::null()).stdout(file.try_clone()?);
        let child = program.stderr(file).spawn();
        Ok(Self {
            child: child.context("cannot start the build of the servers")?,
            log: log.to_owned(),
            missing,
        })
    }

    fn wait(&mut self) -> Result<String> {
        if self.child.try_wait()?.is_none() {
            println!(
                "waiting for what is built in the background; log: {}",
                self.log.display()
            );
        }
        let status = self.child.wait()?;
        self.result(status)?;
        let count = self.missing.len();
        Ok(format!(
            "{count} built in the background: {}",
            self.missing.join(", ")
        ))
    }

    /// The last line of the log names what failed.
    fn result(&self, status: ExitStatus) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        let text = fs::read(&self.log).unwrap_or_default();
        bail!(
            "building the servers failed ({status}); the end of {}:\n{}",
            self.log.display(),
            tail(&String::from_utf8_lossy(&text))
        )
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(script: &str, name: &str) -> ServerBuild {
        let mut program = Command::new("sh");
        program.args(["-c", script]);
        let log = env::temp_dir().join(format!("kelpie-{name}-{}.log", std::process::id()));
        ServerBuild::Running(Running::start(program, &log, vec!["helm", "etcd"]).unwrap())
    }

    fn remove_log(build: &ServerBuild) {
        if let ServerBuild::Running(running) = build {
            fs::remove_file(&running.log).unwrap();
        }
    }

    #[test]
    fn finished_build_lists_what_it_built() {
        let mut build = build("echo progress", "finished");
        let summary = build.wait().unwrap();
        assert_eq!(summary, "2 built in the background: helm, etcd");
        build.check().unwrap();
        remove_log(&build);
    }

    #[test]
    fn failed_build_shows_its_log() {
        let mut build = build(
            "echo 'error: providing helm: no disk' >&2; exit 1",
            "failed",
        );
        let error = build.wait().unwrap_err().to_string();
        assert!(error.contains("kelpie-failed-"), "{error}");
        assert!(error.ends_with("providing helm: no disk"), "{error}");
        assert_eq!(build.check().unwrap_err().to_string(), error);
        remove_log(&build);
    }

    #[test]
    fn errors_show_the_end_of_a_long_log() {
        let log: Vec<String> = (1..=50).map(|line| line.to_string()).collect();
        let shown = tail(&log.join("\n"));
        assert!(shown.starts_with("31\n"), "{shown}");
        assert!(shown.ends_with("\n50"), "{shown}");
        assert_eq!(tail("one"), "one");
    }
}
