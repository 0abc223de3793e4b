//! Reads a record: a folder of files, or one of them. A record is not trusted.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use serde::Deserialize;

use super::line::{FORMAT, Header, Line};
use super::record_files;

/// The maximum length of a line: the state of a cluster with tens of thousands of nodes.
const MAX_LINE_BYTES: u64 = 32 << 20;

/// The reason why a record cannot be read, with its place.
#[derive(Debug)]
pub struct RecordError {
    place: Place,
    problem: String,
}

/// A line of a record.
#[derive(Clone, Debug)]
pub(super) struct Place {
    file: Arc<Path>,
    /// Counted from 1; 0 stands for the whole file.
    line: u64,
}

/// The content of a line.
#[derive(Debug)]
pub(super) enum Content {
    /// A file begins.
    Header(Header),
    Line(Line),
    /// The last line of a file is incomplete: its process was killed while it was written.
    CutOff,
}

impl Place {
    pub(super) fn error(&self, problem: impl fmt::Display) -> RecordError {
        RecordError {
            place: self.clone(),
            problem: problem.to_string(),
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { file, line } = &self.place;
        write!(f, "{}", file.display())?;
        if *line > 0 {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for RecordError {}

/// The lines of a record.
#[derive(Debug)]
pub struct RecordReader {
    files: vec::IntoIter<PathBuf>,
    current: Option<OpenFile>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct OpenFile {
    reader: BufReader<File>,
    place: Place,
}

/// The version of the format, which is checked before anything else of a header.
#[derive(Deserialize)]
struct Version {
    #[serde(rename = "kelpieRecord")]
    format: u32,
}

impl RecordReader {
    /// Opens a record: the folder of its files, or one file.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let whole = Place {
            file: path.into(),
            line: 0,
        };
        let files = if path.is_dir() {
            let files = record_files::list(path).map_err(|error| whole.error(error))?;
            if files.is_empty() {
                return Err(whole.error("the folder contains no record"));
            }
            files
        } else {
            vec![path.to_owned()]
        };
        Ok(Self {
            files: files.into_iter(),
            current: None,
            buffer: Vec::new(),
        })
    }

    /// Returns the configuration of the first file, in the format of its file.
    pub fn config(mut self) -> Result<Option<serde_json::Value>, RecordError> {
        for line in &mut self {
            if let Content::Header(header) = line?.content {
                return Ok(Some(header.config));
            }
        }
        Ok(None)
    }

    fn read(&mut self) -> Result<Option<(Place, Content)>, RecordError> {
        loop {
            let Some(file) = &mut self.current else {
                let Some(path) = self.files.next() else {
                    return Ok(None);
                };
                self.current = Some(OpenFile::open(&path)?);
                continue;
            };
            file.place.line += 1;
            let place = file.place.clone();
            self.buffer.clear();
            let mut limited = file.reader.by_ref().take(MAX_LINE_BYTES + 1);
            let read = limited.read_until(b'\n', &mut self.buffer);
            read.map_err(|error| place.error(error))?;
            if self.buffer.last() == Some(&b'\n') {
                let content = parse(&self.buffer, &place)?;
                return Ok(Some((place, content)));
            }
            if self.buffer.len() as u64 > MAX_LINE_BYTES {
                let text = format!("the line is longer than {MAX_LINE_BYTES} bytes");
                return Err(place.error(text));
            }
            self.current = None;
            if !self.buffer.is_empty() || place.line == 1 {
                return Ok(Some((place, Content::CutOff)));
            }
        }
    }
}

impl Iterator for RecordReader {
    type Item = Result<PlacedLine, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read().transpose()?;
        if next.is_err() {
            // Nothing after a broken line can be trusted.
            self.files = Vec::new().into_iter();
            self.current = None;
        }
        Some(next.map(|(place, content)| PlacedLine { place, content }))
    }
}

/// A line of a record and its place.
#[derive(Debug)]
pub struct PlacedLine {
    pub(super) place: Place,
    pub(super) content: Content,
}

impl OpenFile {
    fn open(path: &Path) -> Result<Self, RecordError> {
        let place = Place {
            file: path.into(),
            line: 0,
        };
        let file = File::open(path).map_err(|error: io::Error| place.error(error))?;
        Ok(Self {
            reader: BufReader::new(file),
            place,
        })
    }
}

fn parse(line: &[u8], place: &Place) -> Result<Content, RecordError> {
    if place.line > 1 {
        let line = serde_json::from_slice(line);
        return line
            .map(Content::Line)
            .map_err(|error| place.error(format!("not a line of a record: {error}")));
    }
    let version: Version = serde_json::from_slice(line)
        .map_err(|error| place.error(format!("not the header of a record: {error}")))?;
    if version.format != FORMAT {
        let text = format!(
            "the record has format {}, but this version of kelpie reads format {FORMAT}",
            version.format
        );
        return Err(place.error(text));
    }
    let header = serde_json::from_slice(line);
    header
        .map(Content::Header)
        .map_err(|error| place.error(format!("invalid header: {error}")))
}
