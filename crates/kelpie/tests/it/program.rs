//! Runs the built program.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// The program, which runs in a folder that belongs to one test.
pub(crate) struct Program {
    pub folder: PathBuf,
    name: &'static str,
}

impl Program {
    /// Creates the folder, which is named after the test.
    pub(crate) fn new(test: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        std::fs::create_dir_all(&folder).unwrap();
        Self {
            folder,
            name: "kelpie",
        }
    }

    /// Starts the program under another name.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    pub(crate) fn with_file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.folder.join(name), content).unwrap();
        self
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kelpie"));
        command
            .arg0(self.name)
            .args(arguments)
            .current_dir(&self.folder);
        for variable in ["CLICOLOR", "CLICOLOR_FORCE", "NO_COLOR"] {
            command.env_remove(variable);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program and returns its exit code and output as one text.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        transcript(&self.command(arguments).output().unwrap())
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut child = self.command(arguments).spawn().unwrap();
        send(&mut child, input);
        transcript(&child.wait_with_output().unwrap())
    }
}

pub(crate) fn send(child: &mut Child, input: &[u8]) {
    child.stdin.take().unwrap().write_all(input).unwrap();
}

pub(crate) fn transcript(output: &Output) -> String {
    let mut text = format!("exit code: {}\n", output.status.code().unwrap());
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if !bytes.is_empty() {
            let content = String::from_utf8(bytes.clone()).unwrap();
            write!(text, "----- {name} -----\n{content}").unwrap();
        }
    }
    text
}
