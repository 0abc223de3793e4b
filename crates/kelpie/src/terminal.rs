//! Text to the outside: colours on a terminal only, and a reader who has left is no error.

use std::io::{self, ErrorKind, Write};

/// Writes to standard output.
pub(crate) fn stdout(text: &str) -> io::Result<()> {
    write(&mut anstream::stdout().lock(), text)
}

/// Writes to standard output for who goes on for long: that the reader has left is an error, as
/// [`has_left`] tells.
pub(crate) fn stdout_while_read(text: &str) -> io::Result<()> {
    let mut stream = anstream::stdout().lock();
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Whether an error only says that nobody reads what is written.
pub(crate) fn has_left(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// How many lines the terminal has that standard output is, if it is one.
pub(crate) fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(size.ws_row.into()).filter(|height| *height > 0)
}

/// Writes to standard error.
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
