//! A value of a file, asked for what it should be. A wrong answer is reported once, in plain words.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::duration::{DurationError, GoDuration};
use crate::key::{self, Table};
use crate::name::Rule;
use crate::problem::{self, Place, Problem};
use crate::reader::{self, Reader, Section};
use crate::scalar::{Meaning, Scalar};
use crate::yaml::{Content, Node};

/// A value, its path, and the collector of problems.
pub(crate) struct Value<'r> {
    reader: &'r Reader,
    node: &'r Node,
    pub path: String,
    /// Where its key stands; its own place in a list.
    pub key_place: Place,
}

/// The largest count that Kubernetes and DWD can hold.
pub(crate) const MOST: u32 = i32::MAX.unsigned_abs();

/// Which durations a setting takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    AboveZero,
    ZeroOrMore,
}

impl Span {
    const fn expected(self) -> &'static str {
        match self {
            Self::AboveZero => "a duration above zero such as 30s, 1m30s or 500ms",
            Self::ZeroOrMore => "a duration such as 0s, 30s, 1m30s or 500ms",
        }
    }
}

impl<'r> Value<'r> {
    pub(crate) fn new(reader: &'r Reader, node: &'r Node, path: String, key_place: Place) -> Self {
        Self {
            reader,
            node,
            path,
            key_place,
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(&self.node.content, Content::Scalar(s) if s.meaning() == Meaning::Nothing)
    }

    /// A map with known keys.
    pub(crate) fn section(self, table: &'static Table) -> Option<Section<'r>> {
        let Content::Map(entries) = &self.node.content else {
            self.refuse_type(table.expected);
            return None;
        };
        Some(Section::open(
            self.reader,
            table,
            (self.path, self.node.place),
            entries,
        ))
    }

    /// The members of a list.
    pub(crate) fn items(&self, expected: &str) -> Option<Vec<Value<'r>>> {
        let Content::List(items) = &self.node.content else {
            self.refuse_type(expected);
            return None;
        };
        let member = |(index, node): (usize, &'r std::rc::Rc<Node>)| {
            Value::new(
                self.reader,
                node,
                format!("{}[{index}]", self.path),
                node.place,
            )
        };
        Some(items.iter().enumerate().map(member).collect())
    }

    /// The members of a list that may not be empty.
    pub(crate) fn some_items(&self, expected: &str) -> Option<Vec<Value<'r>>> {
        let items = self.items(expected)?;
        if items.is_empty() {
            self.report(self.problem("the list is empty").expected(expected));
        }
        Some(items)
    }

    /// The members of a map whose keys are data. A key given twice is reported.
    pub(crate) fn entries(&self, expected: &str) -> Option<Vec<(&'r str, Value<'r>)>> {
        let Content::Map(entries) = &self.node.content else {
            self.refuse_type(expected);
            return None;
        };
        let mut lines = HashMap::new();
        let mut members = Vec::new();
        for entry in entries {
            let path = reader::below(&self.path, &problem::shortened(&entry.key));
            match lines.entry(&entry.key) {
                MapEntry::Vacant(first) => first.insert(entry.place.line),
                MapEntry::Occupied(first) => {
                    let message = format!("given twice, first on line {}", first.get());
                    self.report(Problem::error(entry.place, &path, message).expected("it once"));
                    continue;
                }
            };
            let value = Value::new(self.reader, &entry.value, path, entry.place);
            members.push((entry.key.as_str(), value));
        }
        Some(members)
    }

    /// Text. A number or truth value that has only one spelling counts as text too, as it does for
    /// the Go decoders: `values: [1]` is `values: ["1"]`.
    pub(crate) fn text(&self, expected: &str) -> Option<&'r str> {
        let scalar = self.scalar(expected)?;
        match scalar.meaning() {
            Meaning::Text(text) => return Some(text),
            Meaning::Integer(number) if number.to_string() == scalar.text => {
                return Some(&scalar.text);
            }
            Meaning::Truth(truth) if truth.to_string() == scalar.text => return Some(&scalar.text),
            Meaning::Nothing => self.refuse_nothing(expected),
            _ => {
                let quoted = problem::quoted(&scalar.text);
                let message = format!("{} is not text", scalar.shown());
                self.report(
                    self.problem(message)
                        .value(scalar.shown())
                        .expected(expected)
                        .hint(format!("put it in quotes: {quoted}")),
                );
            }
        }
        None
    }

    /// Text that keeps a rule.
    pub(crate) fn named(&self, rule: &Rule) -> Option<&'r str> {
        let text = self.text(rule.expected)?;
        if (rule.holds)(text) {
            return Some(text);
        }
        let problem = self.not_allowed(rule.expected);
        let likely = (rule.likely)(text);
        self.report(if (rule.holds)(&likely) {
            problem.hint(format!("did you mean `{likely}`?"))
        } else {
            problem
        });
        None
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Option<T> {
        let words = || choices.iter().map(|(word, _)| *word);
        let expected = format!("one of {}", words().collect::<Vec<_>>().join(", "));
        let text = self.text(&expected)?;
        let chosen = choices
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, choice)| *choice);
        if chosen.is_none() {
            let problem = self.not_allowed(expected);
            self.report(match key::closest(text, words()) {
                Some(close) => problem.hint(format!("did you mean `{close}`?")),
                None => problem,
            });
        }
        chosen
    }

    /// `true` or `false`.
    pub(crate) fn truth(&self) -> Option<bool> {
        const EXPECTED: &str = "true or false";
        let scalar = self.scalar(EXPECTED)?;
        if let Meaning::Truth(truth) = scalar.meaning() {
            return Some(truth);
        }
        let problem = self.not_allowed(EXPECTED);
        self.report(match scalar.meaning_without_quotes() {
            Meaning::Truth(_) => problem.hint(format!("remove the quotes: {}", scalar.text)),
            _ => problem,
        });
        None
    }

    /// A whole number in a range.
    pub(crate) fn whole(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let (least, most) = (*range.start(), *range.end());
        let expected = format!("a whole number from {least} to {most}");
        let number = self.numeric(&expected)?;
        if number.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(&number) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // whole, in range
            return Some(number as u32);
        }
        self.report(self.not_allowed(expected));
        None
    }

    /// A number that `accept` takes.
    pub(crate) fn number<T>(
        &self,
        expected: &str,
        accept: impl FnOnce(f64) -> Option<T>,
    ) -> Option<T> {
        let accepted = accept(self.numeric(expected)?);
        if accepted.is_none() {
            self.report(self.not_allowed(expected));
        }
        accepted
    }

    fn numeric(&self, expected: &str) -> Option<f64> {
        let scalar = self.scalar(expected)?;
        match scalar.meaning() {
            #[expect(clippy::cast_precision_loss)] // beyond every range anyone asks for
            Meaning::Integer(number) => return Some(number as f64),
            Meaning::Number(number) => return Some(number),
            _ => {}
        }
        let problem = self.not_allowed(expected);
        self.report(match scalar.meaning_without_quotes() {
            Meaning::OddNumber => problem.hint("write it in plain decimal digits"),
            Meaning::Integer(_) | Meaning::Number(_) => {
                problem.hint(format!("remove the quotes: {}", scalar.text))
            }
            _ => problem,
        });
        None
    }

    /// A duration in Go's syntax.
    pub(crate) fn duration(&self, span: Span) -> Option<Duration> {
        let scalar = self.scalar(span.expected())?;
        let parsed = match scalar.meaning() {
            Meaning::Truth(_) => Err(DurationError::Malformed),
            _ => scalar.text.parse::<GoDuration>(),
        };
        let error = match parsed {
            Ok(duration) if duration.0.is_zero() && span == Span::AboveZero => {
                self.refuse(span.expected());
                return None;
            }
            Err(DurationError::Negative) => {
                self.refuse(span.expected());
                return None;
            }
            Ok(duration) => return Some(duration.0),
            Err(error) => error,
        };
        let shown = scalar.shown();
        let problem = self.problem(format!("{shown} {error}"));
        let problem = problem.value(shown).expected(span.expected());
        self.report(match likely_duration(&scalar.text) {
            Some(likely) => problem.hint(format!("did you mean {likely}?")),
            None => problem,
        });
        None
    }

    fn scalar(&self, expected: &str) -> Option<&'r Scalar> {
        if let Content::Scalar(scalar) = &self.node.content {
            return Some(scalar);
        }
        self.refuse_type(expected);
        None
    }

    fn shown(&self) -> String {
        match &self.node.content {
            Content::Scalar(scalar) => scalar.shown(),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a map".to_owned(),
        }
    }

    /// Reports that a value is of the wrong kind altogether.
    pub(crate) fn refuse_type(&self, expected: &str) {
        let shown = self.shown();
        let found = match &self.node.content {
            Content::List(_) | Content::Map(_) => shown.clone(),
            Content::Scalar(scalar) => match scalar.meaning() {
                Meaning::Nothing => return self.refuse_nothing(expected),
                Meaning::Text(_) => format!("the text {}", problem::quoted(&scalar.text)),
                Meaning::Truth(_) => format!("the truth value {shown}"),
                _ => format!("the number {shown}"),
            },
        };
        let message = match self.path.as_str() {
            "" => format!("the file holds {found}"),
            _ => format!("{found} is not allowed here"),
        };
        let problem = self.problem(message).value(shown).expected(expected);
        self.report(match &self.node.content {
            Content::Scalar(scalar) if scalar.plain && scalar.text.contains(':') => {
                problem.hint("a key needs a space after its `:`")
            }
            _ => problem,
        });
    }

    fn refuse_nothing(&self, expected: &str) {
        let problem = Problem::error(self.key_place, &self.path, "has no value");
        self.report(problem.expected(expected));
    }

    /// Reports that a value is not one of those allowed.
    pub(crate) fn refuse(&self, expected: impl Into<String>) {
        self.report(self.not_allowed(expected));
    }

    pub(crate) fn report(&self, problem: Problem) {
        self.reader.report(match &problem.value {
            Some(value) if problem.hint.is_none() && value.contains("{{") => {
                problem.hint("if this is a template, render it first")
            }
            _ => problem,
        });
    }

    pub(crate) fn problem(&self, message: impl Display) -> Problem {
        Problem::error(self.node.place, &self.path, message.to_string())
    }

    fn not_allowed(&self, expected: impl Into<String>) -> Problem {
        let shown = self.shown();
        self.problem(format!("{shown} is not allowed"))
            .value(shown)
            .expected(expected)
    }
}

/// The duration that was probably meant: `10` is seconds, `1d` a day, `10 S` is `10s`.
fn likely_duration(text: &str) -> Option<String> {
    let text: String = text.to_lowercase().split_whitespace().collect();
    if let Some(days) = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u16>().ok())
    {
        return Some(format!("{}h", u32::from(days) * 24));
    }
    let seconds = format!("{text}s");
    [text, seconds]
        .into_iter()
        .find(|likely| likely.parse::<GoDuration>().is_ok())
}
