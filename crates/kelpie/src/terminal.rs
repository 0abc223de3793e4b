//! Text to the outside: colours on a terminal only, and a reader who has left is no error.

use std::io::{self, ErrorKind, Write};

/// Writes to standard output.
pub(crate) fn stdout(text: &str) -> io::Result<()> {
    write(&mut anstream::stdout().lock(), text)
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
