//! The product itself: the real binary, built from this checkout.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::process::Command;
use tokio::time::{Instant, timeout};
use xtask::command;

use crate::folder::Folder;
use crate::poll;
use crate::process::{self, Exit, Process};
use crate::wire::{self, Reply};

/// From the start to the line that says where it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a command that is not a server may take.
const ONE_SHOT: Duration = Duration::from_mins(1);

/// What stands before the URL in the line that says where it listens.
const LISTENING: &str = "listening on ";

/// A running `kelpie`. It ends when dropped.
pub struct Kelpie {
    process: Process,
    url: String,
    started: Instant,
    // After the process: it must be gone before its folder goes.
    _folder: Folder,
}

impl Kelpie {
    /// Starts a server, as in `["etcd", "--listen", "127.0.0.1:0", …]`, and waits until it says
    /// where it listens.
    pub async fn start<S: AsRef<str>>(arguments: &[S]) -> Result<Self> {
        Self::start_as("kelpie", arguments).await
    }

    /// The same with these variables in its environment.
    pub async fn start_in<S: AsRef<str>>(
        variables: &[(&str, &str)],
        arguments: &[S],
    ) -> Result<Self> {
        Self::start_program(&program()?, "kelpie", variables, arguments).await
    }

    /// The same under another name of the program.
    pub async fn start_as<S: AsRef<str>>(name: &str, arguments: &[S]) -> Result<Self> {
        Self::start_program(&program()?, name, &[], arguments).await
    }

    /// The same as it is released, which takes minutes to build.
    pub async fn start_released<S: AsRef<str>>(arguments: &[S]) -> Result<Self> {
        let build = ["build", "--quiet", "--release", "--package", "kelpie"];
        let program = command::build_executable(&build)?;
        Self::start_program(&program, "kelpie", &[], arguments).await
    }

    async fn start_program<S: AsRef<str>>(
        program: &Path,
        name: &str,
        variables: &[(&str, &str)],
        arguments: &[S],
    ) -> Result<Self> {
        let folder = Folder::new("kelpie")?;
        let named = folder.path().join(name);
        symlink(program, &named)?;
        let log = folder.path().join("log");
        let arguments: Vec<String> = arguments
            .iter()
            .map(|word| word.as_ref().to_owned())
            .collect();
        let started = Instant::now();
        let mut process = Process::start_in(variables, &named, &arguments, &log)?;
        let url = poll::until("kelpie to listen", PATIENCE, async || {
            if process.has_ended() {
                bail!("it ended");
            }
            Ok(listens_at(&process.log()))
        });
        let url = url.await.with_context(|| process.log_tail())?;
        Ok(Self {
            process,
            url,
            started,
            _folder: folder,
        })
    }

    /// Where it listens, as in `http://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The process behind it: its log, memory, time.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// GETs `target`, as in `/readyz?verbose`.
    pub async fn get(&self, target: &str) -> Result<Reply> {
        wire::get(&self.url, target).await
    }

    /// Asks until the status is this one, and gives that answer.
    pub async fn until(&self, target: &str, status: u16, patience: Duration) -> Result<Reply> {
        let mut last = None;
        let what = format!("{status} on {target}");
        let found = poll::until(&what, patience, async || {
            let reply = self.get(target).await?;
            last = Some(reply.clone());
            Ok((reply.status == status).then_some(reply))
        });
        let found = found.await;
        found.with_context(|| format!("the last answer was {last:?}"))
    }

    /// The value of one of its metrics; the name with its labels, as it is written there.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = self.get("/metrics").await?.body;
        crate::etcd::sample(&text, name).with_context(|| format!("{name} is not in:\n{text}"))
    }

    /// All it has logged so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The lines of the log with all of these words.
    pub fn lines(&self, words: &[&str]) -> Vec<String> {
        let log = self.log();
        let such = |line: &&str| words.iter().all(|word| line.contains(word));
        log.lines().filter(such).map(str::to_owned).collect()
    }

    /// Waits for a line with all of these words.
    pub async fn until_line(&self, words: &[&str], patience: Duration) -> Result<String> {
        let what = format!("a line with {words:?}");
        let found = poll::until(&what, patience, async || Ok(self.lines(words).pop()));
        let found = found.await;
        found.with_context(|| self.process.log_tail())
    }

    /// GETs a page of its health address, if it has one of its own.
    pub async fn health(&self, target: &str) -> Result<Reply> {
        let words = ["listening on http://", "for health"];
        let line = self.until_line(&words, PATIENCE).await?;
        let (_, rest) = line.split_once("listening on ").context("no URL")?;
        let url = rest.split(' ').next().unwrap_or_default();
        wire::get(url, target).await
    }

    /// Waits until it has ended by itself.
    pub async fn ended_within(&mut self, patience: Duration) -> Result<Exit> {
        self.process.ended_within(patience).await
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Asks it to end by SIGTERM and waits until it has.
    pub async fn stop(mut self) -> Result<Exit> {
        self.process.signal("TERM")?;
        self.process.ended_within(PATIENCE).await
    }
}

impl Drop for Kelpie {
    /// A process writes its coverage at its end; one that is killed writes none.
    fn drop(&mut self) {
        if process::coverage().is_some() {
            self.process.end();
        }
    }
}

/// Runs a command that ends by itself and gives all it said.
pub async fn run<S: AsRef<str>>(arguments: &[S]) -> Result<Output> {
    let mut command = Command::new(program()?);
    command.args(arguments.iter().map(AsRef::as_ref));
    command.env_clear().envs(process::coverage());
    command.kill_on_drop(true);
    let output = timeout(ONE_SHOT, command.output()).await;
    Ok(output.with_context(|| format!("{command:?} goes on and on"))??)
}

/// The binary, built once for each run of the tests: it is never stale and never missing.
pub fn program() -> Result<PathBuf> {
    static PROGRAM: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        let build = ["build", "--quiet", "--package", "kelpie", "--bin", "kelpie"];
        command::build_executable(&build).map_err(|error| format!("{error:#}"))
    });
    PROGRAM.clone().map_err(|error| anyhow!("{error}"))
}

/// The same, built for speed: for benchmarks.
pub fn release() -> Result<PathBuf> {
    command::build_executable(&[
        "build",
        "--release",
        "--quiet",
        "--package",
        "kelpie",
        "--bin",
        "kelpie",
    ])
}

/// The URL of the first whole line that has one.
pub fn listens_at(log: &str) -> Option<String> {
    let lines = log
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let mut urls = lines.filter_map(|line| {
        let (_, url) = line.split_once(LISTENING)?;
        let url = url.split([' ', '"', ',', '\n']).next()?;
        Some(url.to_owned())
    });
    urls.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_found_once_its_line_is_whole() {
        let log = "INFO probing http://127.0.0.1:1\nINFO listening on http://127.0.0.1:2 x=y\n";
        assert_eq!(listens_at(log).as_deref(), Some("http://127.0.0.1:2"));
        let quoted = r#"{"message":"listening on http://[::1]:9","etcd":"http://x"}"#;
        let found = listens_at(&format!("{quoted}\n"));
        assert_eq!(found.as_deref(), Some("http://[::1]:9"));
        assert_eq!(listens_at("INFO probing http://127.0.0.1:1\n"), None);
        assert_eq!(listens_at("INFO listening on http://127.0.0.1:2"), None);
    }
}
