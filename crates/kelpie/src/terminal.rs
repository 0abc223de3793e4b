//! Writes to standard output and standard error, with colours only on a terminal.

use std::io::{self, ErrorKind, Write};

use anyhow::Result;
use serde::Serialize;

/// Writes to standard output. A closed pipe is not an error.
pub(crate) fn stdout(text: &str) -> io::Result<()> {
    write(&mut anstream::stdout().lock(), text)
}

/// Formats a value as JSON for scripts.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
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
