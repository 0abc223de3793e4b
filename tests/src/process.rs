//! A server process that never outlives its test, however the test ends.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::poll;

/// The variable that tells an instrumented program where to write its coverage.
const COVERAGE_VARIABLE: &str = "LLVM_PROFILE_FILE";

/// Number of log lines that a failing test prints.
const TAIL_LINES: usize = 30;

/// A running server whose output goes to a file.
///
/// Dropping it kills the process and waits for its end. If the test panics, the end of the log is
/// printed.
pub struct ServerProcess {
    name: String,
    child: Child,
    log: PathBuf,
}

/// The exit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// The duration of the wait for the exit.
    pub took: Duration,
}

/// Clock ticks per second in `/proc/PID/stat`. It is 100 on every current Linux.
const TICKS_PER_SECOND: f64 = 100.0;

impl ServerProcess {
    /// Starts `program` with an empty environment. Its stdout and stderr go to the file `log`.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        Self::start_with_env(&[], program, arguments, log)
    }

    /// Starts `program` with these variables in its environment.
    pub fn start_with_env(
        variables: &[(&str, &str)],
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Result<Self> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let output = File::create(log).with_context(|| log.display().to_string())?;
        // setpriv asks the kernel to kill the server when this process dies, then becomes the
        // server by exec.
        let mut command = Command::new("setpriv");
        command
            .arg("--pdeathsig=KILL")
            .arg(program)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(variables.iter().copied())
            .envs(coverage())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(Self {
            child: spawn(command)
                .with_context(|| format!("starting {name} with setpriv from util-linux"))?,
            name: name.into_owned(),
            log: log.to_owned(),
        })
    }

    /// The id of the process, as in `/proc`.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the process has exited.
    pub fn has_exited(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        // The process may have exited by itself. It is gone afterwards in any case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGTERM and waits up to three seconds for the exit.
    pub(crate) fn terminate(&mut self) {
        let signalled = !self.has_exited() && self.signal("TERM").is_ok();
        let mut attempts = 0..100;
        while signalled && !self.has_exited() && attempts.next().is_some() {
            thread::park_timeout(Duration::from_millis(30));
        }
    }

    /// Sends a signal by its name, as in `TERM` or `STOP`.
    pub fn signal(&self, name: &str) -> Result<()> {
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status()?;
        ensure!(status.success(), "SIG{name} to {}: {status}", self.name);
        Ok(())
    }

    /// Returns true if all threads of the process are stopped by a signal.
    pub fn is_stopped(&self) -> Result<bool> {
        for thread in fs::read_dir(format!("/proc/{}/task", self.id()))? {
            let text = fs::read_to_string(thread?.path().join("stat"))?;
            let (_, fields) = text.rsplit_once(") ").context("no name")?;
            if !fields.starts_with('T') {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until the process exits by itself.
    pub async fn wait_for_exit(&mut self, timeout: Duration) -> Result<Exit> {
        let started = Instant::now();
        let what = format!("{} to exit", self.name);
        let status = poll::until(&what, timeout, async || Ok(self.child.try_wait()?));
        let status = status.await.with_context(|| self.log_tail())?;
        Ok(Exit {
            code: status.code(),
            took: started.elapsed(),
        })
    }

    /// The resident memory in bytes, including the mapped pages of the executable.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// The resident anonymous memory in bytes, which the process allocated and wrote.
    pub fn anonymous_bytes(&self) -> Result<u64> {
        self.memory("RssAnon:")
    }

    fn memory(&self, kind: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.id());
        let text = fs::read_to_string(&path).context(path)?;
        let line = text.lines().find_map(|line| line.strip_prefix(kind));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes = kilobytes.with_context(|| format!("no {kind}"))?;
        Ok(kilobytes.parse::<u64>()? * 1024)
    }

    /// The number of open files and sockets.
    pub fn open_files(&self) -> Result<usize> {
        let path = format!("/proc/{}/fd", self.id());
        Ok(fs::read_dir(&path).context(path)?.count())
    }

    /// The CPU time used so far.
    pub fn cpu_time(&self) -> Result<Duration> {
        cpu_time(&self.id().to_string())
    }

    /// The output so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last lines of the output, with a title, for error messages.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        format!("--- end of the log of {}\n{tail}\n---", self.name)
    }
}

/// The CPU time that the test process itself has used so far.
pub(crate) fn own_cpu_time() -> Result<Duration> {
    cpu_time("self")
}

fn cpu_time(id: &str) -> Result<Duration> {
    let path = format!("/proc/{id}/stat");
    let text = fs::read_to_string(&path).context(path)?;
    // The name in parentheses may contain spaces, so fields are counted after it.
    let (_, fields) = text.rsplit_once(") ").context("no name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |index: usize| -> Result<f64> {
        let field = fields.get(index).context("too few fields")?;
        Ok(field.parse()?)
    };
    let seconds = (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND;
    Ok(Duration::from_secs_f64(seconds))
}

/// The environment variable for coverage; `None` unless coverage is collected.
pub(crate) fn coverage() -> Option<(&'static str, OsString)> {
    env::var_os(COVERAGE_VARIABLE).map(|file| (COVERAGE_VARIABLE, file))
}

impl Drop for ServerProcess {
    #[expect(clippy::print_stderr, reason = "printed by the failing test")]
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
    }
}

/// A command to start, and the channel for the child process.
type SpawnRequest = (Command, Sender<io::Result<Child>>);

/// Starts all servers on one thread. The kernel signals a parent's death when the *thread* that
/// started the child ends, and this thread lives as long as the process.
static SPAWNER: LazyLock<Sender<SpawnRequest>> = LazyLock::new(|| {
    let (requests, inbox) = mpsc::channel::<SpawnRequest>();
    thread::spawn(move || {
        for (mut command, reply) in inbox {
            // The receiver is gone if the test has ended meanwhile.
            let _ = reply.send(command.spawn());
        }
    });
    requests
});

fn spawn(command: Command) -> Result<Child> {
    let (reply, child) = mpsc::channel();
    SPAWNER.send((command, reply))?;
    Ok(child.recv()??)
}
