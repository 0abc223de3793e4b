//! A server process that ends with its test, however the test ends.

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

/// How a program that is instrumented learns where its coverage goes.
const PROFILE: &str = "LLVM_PROFILE_FILE";

/// Lines of a server's log that a failing test shows.
const TAIL: usize = 30;

/// A running server with its log in a file. Dropping it kills it and waits until it is gone; if
/// the test is panicking, the end of the log is shown.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; nothing if a signal ended it.
    pub code: Option<i32>,
    /// How long we waited for it.
    pub took: Duration,
}

/// What the kernel counts in a second of a process' time, on every Linux of today.
const TICKS_PER_SECOND: f64 = 100.0;

impl Process {
    /// Starts `program` with an empty environment; both outputs go to the file `log`.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        Self::start_in(&[], program, arguments, log)
    }

    /// The same with these variables in its environment.
    pub fn start_in(
        variables: &[(&str, &str)],
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Result<Self> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let output = File::create(log).with_context(|| log.display().to_string())?;
        // setpriv asks the kernel to kill the server when we are killed, and becomes the server.
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
                .with_context(|| format!("starting {name} by setpriv, which util-linux has"))?,
            name: name.into_owned(),
            log: log.to_owned(),
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// True if the server is not running any more.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the server and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself; all that counts is that it is gone afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end by SIGTERM, and gives it a moment.
    pub(crate) fn end(&mut self) {
        let asked = !self.has_ended() && self.signal("TERM").is_ok();
        let mut moments = 0..100;
        while asked && !self.has_ended() && moments.next().is_some() {
            thread::park_timeout(Duration::from_millis(30));
        }
    }

    /// Sends a signal by its name, as in `STOP`.
    pub fn signal(&self, name: &str) -> Result<()> {
        let id = self.id().to_string();
        let done = Command::new("kill").args(["-s", name, &id]).status()?;
        ensure!(done.success(), "SIG{name} to {}: {done}", self.name);
        Ok(())
    }

    /// True if a signal has stopped every thread of it.
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

    /// Waits until it has ended by itself.
    pub async fn ended_within(&mut self, patience: Duration) -> Result<Exit> {
        let started = Instant::now();
        let what = format!("{} to end", self.name);
        let status = poll::until(&what, patience, async || Ok(self.child.try_wait()?));
        let status = status.await.with_context(|| self.log_tail())?;
        Ok(Exit {
            code: status.code(),
            took: started.elapsed(),
        })
    }

    /// Bytes of memory it has now, with the pages of its own file that are in use.
    pub fn resident(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// Bytes of memory that are its own: what it has allocated and written.
    pub fn allocated(&self) -> Result<u64> {
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

    /// Files and sockets that it has open.
    pub fn open_files(&self) -> Result<usize> {
        let path = format!("/proc/{}/fd", self.id());
        Ok(fs::read_dir(&path).context(path)?.count())
    }

    /// The processor time it has used so far.
    pub fn processor_time(&self) -> Result<Duration> {
        processor_time(&self.id().to_string())
    }

    /// All the server has logged so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The end of the log under a title, for people.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        format!("--- end of the log of {}\n{tail}\n---", self.name)
    }
}

/// The processor time that this process has used so far.
pub(crate) fn own_processor_time() -> Result<Duration> {
    processor_time("self")
}

fn processor_time(id: &str) -> Result<Duration> {
    let path = format!("/proc/{id}/stat");
    let text = fs::read_to_string(&path).context(path)?;
    // The name in brackets may hold anything; fields are counted after it.
    let (_, fields) = text.rsplit_once(") ").context("no name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |index: usize| -> Result<f64> {
        let field = fields.get(index).context("a short line")?;
        Ok(field.parse()?)
    };
    let seconds = (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND;
    Ok(Duration::from_secs_f64(seconds))
}

/// Where the coverage of our own binary is collected, if it is.
pub(crate) fn coverage() -> Option<(&'static str, OsString)> {
    env::var_os(PROFILE).map(|file| (PROFILE, file))
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "shown by the failing test")]
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
    }
}

/// A command to start, and where to send the child.
type Order = (Command, Sender<io::Result<Child>>);

/// The thread that starts all servers. The kernel counts a child's parent as dead when the *thread*
/// that started it ends; this one ends with the process.
static STARTER: LazyLock<Sender<Order>> = LazyLock::new(|| {
    let (orders, inbox) = mpsc::channel::<Order>();
    thread::spawn(move || {
        for (mut command, reply) in inbox {
            // Nobody waits any more if the test has ended meanwhile.
            let _ = reply.send(command.spawn());
        }
    });
    orders
});

fn spawn(command: Command) -> Result<Child> {
    let (reply, child) = mpsc::channel();
    STARTER.send((command, reply))?;
    Ok(child.recv()??)
}
