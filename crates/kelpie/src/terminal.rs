//! Writes to standard output and standard error, with colours only on a terminal.

use std::io::{self, ErrorKind, Write};

use anyhow::Result;
use serde::Serialize;

/// Writes to standard output. A closed pipe is not an error.
pub(crate) fn stdout(text: &str) -> io::Result<()> {
    write(&mut anstream::stdout().lock(), text)
}

/// Writes to standard output for commands that run for long. A closed pipe is an error, which
/// [`is_broken_pipe`] recognizes, so that the command can end.
pub(crate) fn stdout_streaming(text: &str) -> io::Result<()> {
    let mut stream = anstream::stdout().lock();
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Returns true if the error means that the reader of standard output has closed the pipe.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Formats a value as JSON for scripts.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Returns the number of lines of the terminal, or `None` if standard output is not a terminal.
pub(crate) fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(size.ws_row.into()).filter(|height| *height > 0)
}

/// Writes to standard error. A closed pipe is not an error.
pub(crate) fn stderr(text: &str) -> io::Result<()> {
    write(&mut anstream::stderr().lock(), text)
}

fn write(stream: &mut impl Write, text: &str) -> io::Result<()> {
    match stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush())
    {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
