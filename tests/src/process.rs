//! A server process that ends with its test, however the test ends.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

use anyhow::{Context, Result};

/// Lines of a server's log that a failing test shows.
const TAIL: usize = 30;

/// A running server with its log in a file. Dropping it kills it and waits until it is gone; if
/// the test is panicking, the end of the log is shown.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with an empty environment; both outputs go to the file `log`.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Self> {
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
