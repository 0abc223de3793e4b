//! Where a configuration comes from.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use kelpie_config::MAX_BYTES;

/// A file or standard input.
#[derive(Args)]
pub(crate) struct Source {
    /// The file; `-` reads standard input
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

/// A source that cannot be read: why, and what to do about it.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub message: String,
    pub remedy: &'static str,
}

impl Source {
    pub(crate) fn file(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
        }
    }

    /// How answers call it.
    pub(crate) fn name(&self) -> String {
        if self.is_stdin() {
            "stdin".to_owned()
        } else {
            self.file.display().to_string()
        }
    }

    /// Its bytes; of what is too large just enough to see that.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Unreadable> {
        let limit = MAX_BYTES as u64 + 1;
        let mut bytes = Vec::new();
        let result = if self.is_stdin() {
            io::stdin().lock().take(limit).read_to_end(&mut bytes)
        } else {
            File::open(&self.file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
        };
        match result {
            Ok(_) => Ok(bytes),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    /// Its text, for what has no parser that would say what is wrong with the bytes.
    pub(crate) fn text(&self) -> Result<String, Unreadable> {
        let bytes = self.read()?;
        if bytes.len() > MAX_BYTES {
            let reason = format!("it is larger than {MAX_BYTES} bytes");
            return Err(self.refused(&reason, "name a smaller one"));
        }
        let text = String::from_utf8(bytes);
        text.map_err(|_| self.refused("it is not UTF-8 text", "save it as UTF-8"))
    }

    fn unreadable(&self, error: &io::Error) -> Unreadable {
        let (reason, remedy) = match error.kind() {
            ErrorKind::NotFound => ("there is no such file".to_owned(), "check the path"),
            ErrorKind::IsADirectory => ("it is a directory".to_owned(), "name a file in it"),
            ErrorKind::PermissionDenied => (
                "permission denied".to_owned(),
                "make it readable, or run this as a user who may read it",
            ),
            _ => (without_number(error), "copy it to where it can be read"),
        };
        self.refused(&reason, remedy)
    }

    fn refused(&self, reason: &str, remedy: &'static str) -> Unreadable {
        let name = if self.is_stdin() {
            "standard input".to_owned()
        } else {
            self.file.display().to_string()
        };
        Unreadable {
            message: format!("cannot read {name}: {reason}"),
            remedy,
        }
    }

    fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }
}

/// The system's words without ` (os error 5)`, which tells an operator nothing.
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for Unreadable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_comes_in_words_with_something_to_do() {
        let source = Source {
            file: "a.yaml".into(),
        };
        for (number, expected) in [
            (2, "there is no such file; check the path"),
            (
                13,
                "permission denied; make it readable, or run this as a user who may read it",
            ),
            (21, "it is a directory; name a file in it"),
            (5, "input/output error; copy it to where it can be read"),
        ] {
            let said = source.unreadable(&io::Error::from_raw_os_error(number));
            assert_eq!(said.to_string(), format!("cannot read a.yaml: {expected}"));
        }
    }

    #[test]
    fn what_is_too_large_is_told_and_never_cut() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let read = |text: &[u8]| {
            std::fs::write(&file, text).unwrap();
            Source::file(&file)
                .text()
                .map_err(|error| error.to_string())
        };
        let whole = "ä".repeat(MAX_BYTES / 2);
        assert_eq!(read(whole.as_bytes()), Ok(whole.clone()));
        // A cut would come in the middle of a letter.
        let said = read(format!("a{whole}").as_bytes()).unwrap_err();
        assert!(
            said.ends_with("it is larger than 1048576 bytes; name a smaller one"),
            "{said}"
        );
        let said = read(b"\xff").unwrap_err();
        assert!(
            said.ends_with("it is not UTF-8 text; save it as UTF-8"),
            "{said}"
        );
    }
}
