//! Sections of a file: known keys found, unknown ones reported, nothing given up early.

use std::cell::RefCell;
use std::rc::Rc;

use crate::foreign;
use crate::key::{self, Key, Table};
use crate::problem::{self, Place, Problem, Report, Severity};
use crate::value::Value;
use crate::yaml::{self, Entry, Node};
use crate::{Parsed, Strictness};

/// Collects the problems of one file.
pub(crate) struct Reader {
    strictness: Strictness,
    tables: &'static [&'static Table],
    problems: RefCell<Vec<Problem>>,
}

/// Reads a file whose top level has the keys of the first table. `build` makes a value of whatever
/// could be read; it is returned only if nothing was wrong.
pub(crate) fn read<T>(
    bytes: &[u8],
    strictness: Strictness,
    tables: &'static [&'static Table],
    build: impl FnOnce(&Section<'_>) -> T,
) -> Result<Parsed<T>, Report> {
    let reader = Reader {
        strictness,
        tables,
        problems: RefCell::default(),
    };
    let root = document(bytes, &reader);
    let value = root
        .as_deref()
        .and_then(|root| Value::new(&reader, root, String::new(), root.place).section(tables[0]))
        .map(|section| build(&section));
    let mut problems = reader.problems.into_inner();
    problem::sort(&mut problems);
    match value {
        Some(value) if problems.iter().all(|p| p.severity == Severity::Warning) => Ok(Parsed {
            value,
            warnings: problems,
        }),
        _ => Err(Report { problems }),
    }
}

/// The root of the one document in `bytes`, unless there is none to read.
fn document(bytes: &[u8], reader: &Reader) -> Option<Rc<Node>> {
    let document = match yaml::decode(bytes).and_then(yaml::read) {
        Ok(document) => document,
        Err(fault) => {
            reader.report(Problem::error(fault.place, "", fault.message));
            return None;
        }
    };
    if let Some(place) = document.surplus {
        const MESSAGE: &str = "the file has a second YAML document";
        reader.report(match reader.severity_of_the_unknown() {
            Severity::Error => Problem::error(place, "", MESSAGE)
                .expected("one document")
                .hint("remove the rest, or save it to a file of its own"),
            Severity::Warning => Problem::warning(place, "", format!("{MESSAGE}, ignored")),
        });
    }
    let Some(root) = document.root else {
        let problem = Problem::error(Place::START, "", "the file is empty");
        reader.report(problem.expected(reader.tables[0].expected));
        return None;
    };
    if let Some(problem) = foreign::recognise(&root, reader.tables[0]) {
        reader.report(problem);
        return None;
    }
    Some(root)
}

impl Reader {
    pub(crate) fn report(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.problems
            .borrow()
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    fn severity_of_the_unknown(&self) -> Severity {
        match self.strictness {
            Strictness::Strict => Severity::Error,
            Strictness::Lenient => Severity::Warning,
        }
    }
}

/// A map with known keys.
pub(crate) struct Section<'r> {
    pub reader: &'r Reader,
    path: String,
    place: Place,
    found: Vec<(&'static Key, &'r Entry)>,
}

impl<'r> Section<'r> {
    /// Sorts the entries of a map by the table's keys.
    pub(crate) fn open(
        reader: &'r Reader,
        table: &'static Table,
        (path, place): (String, Place),
        entries: &'r [Entry],
    ) -> Self {
        let mut section = Self {
            reader,
            path,
            place,
            found: Vec::new(),
        };
        for entry in entries {
            match table
                .keys
                .iter()
                .find(|key| key.is(&entry.key, reader.strictness))
            {
                Some(key) => section.add(key, entry),
                None => section.report_unknown(table, entry),
            }
        }
        section
    }

    fn add(&mut self, key: &'static Key, entry: &'r Entry) {
        if let Some((_, first)) = self.found.iter().find(|(known, _)| known.name == key.name) {
            let message = if first.key == entry.key {
                format!("given twice, first on line {}", first.place.line)
            } else {
                format!(
                    "the same setting as `{}` on line {}",
                    first.key, first.place.line
                )
            };
            let problem = Problem::error(entry.place, &self.below(&entry.key), message);
            self.reader.report(problem.expected("it once"));
        } else {
            self.found.push((key, entry));
        }
    }

    fn report_unknown(&self, table: &Table, entry: &Entry) {
        let severity = self.reader.severity_of_the_unknown();
        let message = match severity {
            Severity::Error => "unknown key",
            Severity::Warning => "unknown key, ignored",
        };
        let path = self.below(&problem::shortened(&entry.key));
        let problem = Problem {
            severity,
            ..Problem::error(entry.place, &path, message)
        };
        self.reader.report(match self.advice(table, &entry.key) {
            Some(advice) => problem.hint(advice),
            None => problem.expected(format!("one of {}", key::list(table.keys))),
        });
    }

    /// What the writer of an unknown key may have meant.
    fn advice(&self, table: &Table, written: &str) -> Option<String> {
        if let Some((_, advice)) = table.retired.iter().find(|(name, _)| *name == written) {
            return Some((*advice).to_owned());
        }
        if let Some(close) = key::closest(written, table.keys.iter().flat_map(Key::names)) {
            return Some(format!("did you mean `{close}`?"));
        }
        let homes: Vec<_> = self
            .reader
            .tables
            .iter()
            .filter(|table| {
                table
                    .keys
                    .iter()
                    .any(|key| key.is(written, Strictness::Lenient))
            })
            .map(|table| table.place)
            .collect();
        (!homes.is_empty()).then(|| format!("it belongs {}", homes.join(" or ")))
    }

    /// The value of a key; `None` when the key is absent or has no value.
    pub(crate) fn get(&self, name: &str) -> Option<Value<'r>> {
        let entry = self.entry(name)?;
        let value = Value::new(
            self.reader,
            &entry.value,
            self.below(&entry.key),
            entry.place,
        );
        (!value.is_nothing()).then_some(value)
    }

    /// The value of a key; its absence is reported.
    pub(crate) fn require(&self, name: &str, expected: &str) -> Option<Value<'r>> {
        let value = self.get(name);
        if value.is_none() {
            let message = if self.entry(name).is_some() {
                "has no value"
            } else {
                "missing"
            };
            let problem = Problem::error(self.place_of(name), &self.path_of(name), message);
            self.reader.report(problem.expected(expected));
        }
        value
    }

    /// Where a warning about a key points: at its value, or at the section when it is absent.
    pub(crate) fn place_of(&self, name: &str) -> Place {
        self.entry(name).map_or(self.place, |entry| entry.place)
    }

    /// The path of a key, in the spelling of the file.
    pub(crate) fn path_of(&self, name: &str) -> String {
        self.below(self.entry(name).map_or(name, |entry| &entry.key))
    }

    pub(crate) fn warn(&self, name: &str, message: impl Into<String>) {
        self.reader.report(Problem::warning(
            self.place_of(name),
            &self.path_of(name),
            message,
        ));
    }

    fn entry(&self, name: &str) -> Option<&'r Entry> {
        self.found
            .iter()
            .find(|(key, _)| key.name == name)
            .map(|(_, entry)| *entry)
    }

    fn below(&self, key: &str) -> String {
        below(&self.path, key)
    }
}

pub(crate) fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
