//! Reads a configuration from a file or from standard input.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use kelpie_config::MAX_BYTES;

/// A file, or standard input.
#[derive(Args)]
pub(crate) struct InputFile {
    /// The file, or `-` for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

/// An error in reading an [`InputFile`], with what to do about it.
#[derive(Debug)]
pub(crate) struct ReadError {
    pub message: String,
    pub remedy: &'static str,
}

impl InputFile {
    pub(crate) fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
        }
    }

    /// Returns the name of the input in messages.
    pub(crate) fn name(&self) -> String {
        if self.is_stdin() {
            "stdin".to_owned()
        } else {
            self.file.display().to_string()
        }
    }

    /// Reads the bytes. Input that is too large is cut off one byte beyond the limit, so that
    /// parsers can reject it.
    pub(crate) fn read(&self) -> Result<Vec<u8>, ReadError> {
        let limit = MAX_BYTES as u64 + 1;
        let mut bytes = Vec::new();
        let result = if self.is_stdin() {
            io::stdin().lock().take(limit).read_to_end(&mut bytes)
        } else {
            File::open(&self.file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
        };
        match result {
            Ok(_) => Ok(bytes),
            Err(error) => Err(self.describe_io_error(&error)),
        }
    }

    /// Reads the input as UTF-8, for callers without a parser that checks size and encoding.
    pub(crate) fn text(&self) -> Result<String, ReadError> {
        let bytes = self.read()?;
        if bytes.len() > MAX_BYTES {
            let reason = format!("it is larger than {MAX_BYTES} bytes");
            return Err(self.read_error(&reason, "use a smaller file"));
        }
        let text = String::from_utf8(bytes);
        text.map_err(|_| self.read_error("it is not UTF-8 text", "save it as UTF-8"))
    }

    fn describe_io_error(&self, error: &io::Error) -> ReadError {
        let (reason, remedy) = match error.kind() {
            ErrorKind::NotFound => ("no such file".to_owned(), "check the path"),
            ErrorKind::IsADirectory => ("it is a directory".to_owned(), "specify a file in it"),
            ErrorKind::PermissionDenied => (
                "permission denied".to_owned(),
                "make it readable, or run this as another user",
            ),
            _ => (without_number(error), "copy it to where it can be read"),
        };
        self.read_error(&reason, remedy)
    }

    fn read_error(&self, reason: &str, remedy: &'static str) -> ReadError {
        let name = if self.is_stdin() {
            "standard input".to_owned()
        } else {
            self.file.display().to_string()
        };
        ReadError {
            message: format!("cannot read {name}: {reason}"),
            remedy,
        }
    }

    fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }
}

/// Returns the system's message without ` (os error 5)`, which is of no use to an operator.
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((message, _)) => message.to_lowercase(),
        None => text,
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for ReadError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_errors_have_a_remedy() {
        let input = InputFile {
            file: "a.yaml".into(),
        };
        for (number, expected) in [
            (2, "no such file; check the path"),
            (
                13,
                "permission denied; make it readable, or run this as another user",
            ),
            (21, "it is a directory; specify a file in it"),
            (5, "input/output error; copy it to where it can be read"),
        ] {
            let error = input.describe_io_error(&io::Error::from_raw_os_error(number));
            assert_eq!(error.to_string(), format!("cannot read a.yaml: {expected}"));
        }
    }

    #[test]
    fn oversized_text_is_rejected_and_never_cut() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let read = |text: &[u8]| {
            std::fs::write(&file, text).unwrap();
            InputFile::new(&file)
                .text()
                .map_err(|error| error.to_string())
        };
        let whole = "ä".repeat(MAX_BYTES / 2);
        assert_eq!(read(whole.as_bytes()), Ok(whole.clone()));
        // A cut would be in the middle of a character.
        let error = read(format!("a{whole}").as_bytes()).unwrap_err();
        assert!(
            error.ends_with("it is larger than 1048576 bytes; use a smaller file"),
            "{error}"
        );
        let error = read(b"\xff").unwrap_err();
        assert!(
            error.ends_with("it is not UTF-8 text; save it as UTF-8"),
            "{error}"
        );
    }
}
