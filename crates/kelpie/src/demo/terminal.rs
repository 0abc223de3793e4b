//! The terminal that the demo is shown on.

use std::io::{self, ErrorKind, Write};

/// Writes to standard output. A closed pipe is an error, which [`is_broken_pipe`] recognizes, so
/// that the demo can end.
pub(super) fn write(text: &str) -> io::Result<()> {
    let mut stream = anstream::stdout().lock();
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Returns true if the error means that the reader of standard output has closed the pipe.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Returns the number of lines of the terminal, or `None` if standard output is not a terminal.
pub(super) fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(size.ws_row.into()).filter(|height| *height > 0)
}
