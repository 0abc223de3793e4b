//! The `kelpie` binary, built from this checkout.

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
use crate::image_root::ImageRoot;
use crate::plain_http::{self, HttpResponse};
use crate::poll;
use crate::process::{self, Exit, ServerProcess};

/// Limit for the start, until the address is logged.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Limit for a command that exits by itself.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// The text before the URL in the log line with the address.
const LISTENING: &str = "listening on ";

/// A running `kelpie` server. It is killed on drop.
pub struct Kelpie {
    process: ServerProcess,
    url: String,
    started: Instant,
    // Declared after the process, which must be gone before its folder is removed.
    _folder: Folder,
}

impl Kelpie {
    /// Starts a server, as in `["etcd", "--listen", "127.0.0.1:0", …]`, and waits until it logs its
    /// address.
    pub async fn start<S: AsRef<str>>(arguments: &[S]) -> Result<Self> {
        Self::start_as("kelpie", arguments).await
    }

    /// Like [`start`](Self::start), with these environment variables.
    pub async fn start_with_env<S: AsRef<str>>(
        variables: &[(&str, &str)],
        arguments: &[S],
    ) -> Result<Self> {
        Self::start_program(&binary()?, "kelpie", variables, arguments).await
    }

    /// Like [`start`](Self::start), with another name of the executable.
    pub async fn start_as<S: AsRef<str>>(name: &str, arguments: &[S]) -> Result<Self> {
        Self::start_program(&binary()?, name, &[], arguments).await
    }

    /// Like [`start`](Self::start), with all optimisations, which take minutes to build.
    pub async fn start_dist_build<S: AsRef<str>>(arguments: &[S]) -> Result<Self> {
        Self::start_program(&dist_binary()?, "kelpie", &[], arguments).await
    }

    /// Like [`start`](Self::start), in the container image. `mounts` are folders that it can read.
    pub async fn start_in<S: AsRef<str>>(
        image: &ImageRoot,
        mounts: &[&Path],
        arguments: &[S],
    ) -> Result<Self> {
        let mut words = image.command(mounts)?;
        let program = PathBuf::from(words.remove(0));
        words.extend(["--".to_owned(), image.entry_point()?]);
        words.extend(arguments.iter().map(|word| word.as_ref().to_owned()));
        Self::start_program(&program, "kelpie", &[], &words).await
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
        let mut process = ServerProcess::start_with_env(variables, &named, &arguments, &log)?;
        let url = poll::until("kelpie to listen", TIMEOUT, async || {
            if process.has_exited() {
                bail!("kelpie exited");
            }
            Ok(listen_url(&process.log()))
        });
        let url = url.await.with_context(|| process.log_tail())?;
        Ok(Self {
            process,
            url,
            started,
            _folder: folder,
        })
    }

    /// The address of the server, as in `http://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The time of the start.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The process, for its log, memory and CPU time.
    pub fn process(&self) -> &ServerProcess {
        &self.process
    }

    /// GETs `target`, as in `/readyz?verbose`.
    pub async fn get(&self, target: &str) -> Result<HttpResponse> {
        plain_http::get(&self.url, target).await
    }

    /// GETs `target` until the response has this status, and returns that response.
    pub async fn until_status(
        &self,
        target: &str,
        status: u16,
        timeout: Duration,
    ) -> Result<HttpResponse> {
        let mut last = None;
        let what = format!("status {status} on {target}");
        let found = poll::until(&what, timeout, async || {
            let reply = self.get(target).await?;
            last = Some(reply.clone());
            Ok((reply.status == status).then_some(reply))
        });
        let found = found.await;
        found.with_context(|| format!("the last response was {last:?}"))
    }

    /// Returns the value of a metric. `name` includes the labels, exactly as on the metrics page.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = self.get("/metrics").await?.body;
        crate::etcd::series_value(&text, name).with_context(|| format!("{name} is not in:\n{text}"))
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns the log lines that contain all of these words.
    pub fn lines(&self, words: &[&str]) -> Vec<String> {
        let log = self.log();
        let matches = |line: &&str| words.iter().all(|word| line.contains(word));
        log.lines().filter(matches).map(str::to_owned).collect()
    }

    /// Waits for a log line that contains all of these words, and returns the last one.
    pub async fn until_line(&self, words: &[&str], timeout: Duration) -> Result<String> {
        let what = format!("a log line with {words:?}");
        let found = poll::until(&what, timeout, async || Ok(self.lines(words).pop()));
        let found = found.await;
        found.with_context(|| self.process.log_tail())
    }

    /// GETs `target` from the health address, which must be separate from the main address.
    pub async fn health(&self, target: &str) -> Result<HttpResponse> {
        let words = ["listening on http://", "for health"];
        let line = self.until_line(&words, TIMEOUT).await?;
        let (_, rest) = line.split_once("listening on ").context("no URL")?;
        let url = rest.split(' ').next().unwrap_or_default();
        plain_http::get(url, target).await
    }

    /// Waits until the process exits by itself.
    pub async fn wait_for_exit(&mut self, timeout: Duration) -> Result<Exit> {
        self.process.wait_for_exit(timeout).await
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Sends SIGTERM and waits for the exit.
    pub async fn stop(mut self) -> Result<Exit> {
        self.process.signal("TERM")?;
        self.process.wait_for_exit(TIMEOUT).await
    }
}

impl Drop for Kelpie {
    /// Lets the process exit normally if coverage is collected: a killed process writes none.
    fn drop(&mut self) {
        if process::coverage().is_some() {
            self.process.terminate();
        }
    }
}

/// Runs `kelpie` until it exits, and returns its status and output.
pub async fn run<S: AsRef<str>>(arguments: &[S]) -> Result<Output> {
    let mut command = Command::new(binary()?);
    command.args(arguments.iter().map(AsRef::as_ref));
    command.env_clear().envs(process::coverage());
    command.kill_on_drop(true);
    let output = timeout(COMMAND_TIMEOUT, command.output()).await;
    Ok(output.with_context(|| format!("{command:?} did not exit"))??)
}

/// Returns the path of the debug build. It is built once per test run, so it is never stale.
pub fn binary() -> Result<PathBuf> {
    static BINARY: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        let build = ["build", "--quiet", "--package", "kelpie", "--bin", "kelpie"];
        command::build_executable(&build).map_err(|error| format!("{error:#}"))
    });
    BINARY.clone().map_err(|error| anyhow!("{error}"))
}

/// Returns the path of the build with all optimisations, for benchmarks.
pub fn dist_binary() -> Result<PathBuf> {
    command::build_executable(&[
        "build",
        "--profile",
        command::DIST,
        "--quiet",
        "--package",
        "kelpie",
        "--bin",
        "kelpie",
    ])
}

/// Finds the address in the log. A line that is not complete yet does not count.
pub fn listen_url(log: &str) -> Option<String> {
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
    fn url_is_taken_from_complete_lines() {
        let log = "INFO probing http://127.0.0.1:1\nINFO listening on http://127.0.0.1:2 x=y\n";
        assert_eq!(listen_url(log).as_deref(), Some("http://127.0.0.1:2"));
        let quoted = r#"{"message":"listening on http://[::1]:9","etcd":"http://x"}"#;
        let found = listen_url(&format!("{quoted}\n"));
        assert_eq!(found.as_deref(), Some("http://[::1]:9"));
        assert_eq!(listen_url("INFO probing http://127.0.0.1:1\n"), None);
        assert_eq!(listen_url("INFO listening on http://127.0.0.1:2"), None);
    }
}
