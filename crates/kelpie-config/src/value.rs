//! Typed access to the values of a file. Each accessor reports a value that does not fit.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::duration::{DurationError, GoDuration};
use crate::name_format::NameFormat;
use crate::parse::{self, ParseContext, Section};
use crate::problem::{self, ConfigProblem, SourcePosition};
use crate::scalar::{Scalar, ScalarValue};
use crate::schema::{self, MapSchema};
use crate::yaml::{YamlContent, YamlNode};

/// A value with its path, bound to the context that collects problems.
pub(crate) struct ConfigValue<'r> {
    context: &'r ParseContext,
    node: &'r YamlNode,
    pub path: String,
    /// The position of its key, or its own position if it is a list item.
    pub key_position: SourcePosition,
}

/// The largest count that Kubernetes and dependency-watchdog can represent.
pub(crate) const MAX_COUNT: u32 = i32::MAX.unsigned_abs();

/// The range of durations that a setting accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DurationRange {
    Positive,
    NonNegative,
}

impl DurationRange {
    const fn expected(self) -> &'static str {
        match self {
            Self::Positive => "a duration above zero such as 30s, 1m30s or 500ms",
            Self::NonNegative => "a duration such as 0s, 30s, 1m30s or 500ms",
        }
    }
}

impl<'r> ConfigValue<'r> {
    pub(crate) fn new(
        context: &'r ParseContext,
        node: &'r YamlNode,
        path: String,
        key_position: SourcePosition,
    ) -> Self {
        Self {
            context,
            node,
            path,
            key_position,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.node.content, YamlContent::Scalar(s) if s.value() == ScalarValue::Null)
    }

    /// Returns the value as a map with the keys of `schema`.
    pub(crate) fn section(self, schema: &'static MapSchema) -> Option<Section<'r>> {
        let YamlContent::Map(entries) = &self.node.content else {
            self.reject_type(schema.expected);
            return None;
        };
        Some(Section::open(
            self.context,
            schema,
            (self.path, self.node.position),
            entries,
        ))
    }

    /// Returns the items of a list.
    pub(crate) fn items(&self, expected: &str) -> Option<Vec<ConfigValue<'r>>> {
        let YamlContent::List(items) = &self.node.content else {
            self.reject_type(expected);
            return None;
        };
        let item = |(index, node): (usize, &'r std::rc::Rc<YamlNode>)| {
            ConfigValue::new(
                self.context,
                node,
                format!("{}[{index}]", self.path),
                node.position,
            )
        };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// Returns the items of a list that must not be empty.
    pub(crate) fn non_empty_items(&self, expected: &str) -> Option<Vec<ConfigValue<'r>>> {
        let items = self.items(expected)?;
        if items.is_empty() {
            self.report(self.problem("the list is empty").expected(expected));
        }
        Some(items)
    }

    /// Returns the entries of a map whose keys are data. Duplicate keys are reported.
    pub(crate) fn entries(&self, expected: &str) -> Option<Vec<(&'r str, ConfigValue<'r>)>> {
        let YamlContent::Map(entries) = &self.node.content else {
            self.reject_type(expected);
            return None;
        };
        let mut lines = HashMap::new();
        let mut members = Vec::new();
        for entry in entries {
            let path = parse::child_path(&self.path, &problem::truncated(&entry.key));
            match lines.entry(&entry.key) {
                MapEntry::Vacant(first) => first.insert(entry.position.line),
                MapEntry::Occupied(first) => {
                    let message = format!("set twice, first on line {}", first.get());
                    self.report(
                        ConfigProblem::error(entry.position, &path, message)
                            .expected("it only once"),
                    );
                    continue;
                }
            };
            let value = ConfigValue::new(self.context, &entry.value, path, entry.position);
            members.push((entry.key.as_str(), value));
        }
        Some(members)
    }

    /// Returns the value as a string. A number or boolean in its canonical spelling counts as a
    /// string too, as in the Go decoders: `values: [1]` is `values: ["1"]`.
    pub(crate) fn string(&self, expected: &str) -> Option<&'r str> {
        let scalar = self.scalar(expected)?;
        let is_canonical = match scalar.value() {
            ScalarValue::String(_) => true,
            ScalarValue::Integer(number) => number.to_string() == scalar.text,
            ScalarValue::Bool(boolean) => boolean.to_string() == scalar.text,
            _ => false,
        };
        if is_canonical {
            return Some(&scalar.text);
        }
        if self.is_null() {
            self.reject_null(expected);
        } else {
            let display = scalar.display();
            let problem = self.problem(format!("{display} is not a string"));
            let hint = format!("put it in quotes: {}", problem::quoted(&scalar.text));
            self.report(problem.value(display).expected(expected).hint(hint));
        }
        None
    }

    /// Returns the value as a string in the given format.
    pub(crate) fn formatted(&self, format: &NameFormat) -> Option<&'r str> {
        let text = self.string(format.expected)?;
        if (format.is_valid)(text) {
            return Some(text);
        }
        let suggestion = Some((format.suggest)(text)).filter(|it| (format.is_valid)(it));
        let hint = suggestion.map(|it| format!("did you mean `{it}`?"));
        self.report(self.not_allowed(format.expected).hint_if(hint));
        None
    }

    /// Returns the choice whose name is the value.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Option<T> {
        let names = choices.iter().map(|(name, _)| *name);
        let expected = format!("one of {}", names.clone().collect::<Vec<_>>().join(", "));
        let text = self.string(&expected)?;
        let mut choices = choices.iter();
        let chosen = choices.find(|(name, _)| *name == text);
        if chosen.is_none() {
            let hint = schema::closest(text, names).map(|it| format!("did you mean `{it}`?"));
            self.report(self.not_allowed(expected).hint_if(hint));
        }
        chosen.map(|(_, choice)| *choice)
    }

    /// Returns the value as a boolean.
    pub(crate) fn boolean(&self) -> Option<bool> {
        const EXPECTED: &str = "true or false";
        let scalar = self.scalar(EXPECTED)?;
        if let ScalarValue::Bool(boolean) = scalar.value() {
            return Some(boolean);
        }
        let is_quoted = matches!(scalar.unquoted_value(), ScalarValue::Bool(_));
        let hint = is_quoted.then(|| format!("remove the quotes: {}", scalar.text));
        self.report(self.not_allowed(EXPECTED).hint_if(hint));
        None
    }

    /// Returns the value as an integer in the range.
    pub(crate) fn integer(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let (min, max) = (*range.start(), *range.end());
        let expected = format!("an integer from {min} to {max}");
        let number = self.float(&expected)?;
        if number.fract() == 0.0 && (f64::from(min)..=f64::from(max)).contains(&number) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an integer in the range of u32"
            )]
            return Some(number as u32);
        }
        self.report(self.not_allowed(expected));
        None
    }

    /// Returns the value as a number that `accept` converts. `None` from `accept` is reported.
    pub(crate) fn number<T>(
        &self,
        expected: &str,
        accept: impl FnOnce(f64) -> Option<T>,
    ) -> Option<T> {
        let accepted = accept(self.float(expected)?);
        if accepted.is_none() {
            self.report(self.not_allowed(expected));
        }
        accepted
    }

    fn float(&self, expected: &str) -> Option<f64> {
        let scalar = self.scalar(expected)?;
        match scalar.value() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "inexact only beyond 2^53, outside every range"
            )]
            ScalarValue::Integer(number) => return Some(number as f64),
            ScalarValue::Float(number) => return Some(number),
            _ => {}
        }
        let problem = self.not_allowed(expected);
        self.report(match scalar.unquoted_value() {
            ScalarValue::AmbiguousNumber => problem.hint("write it in plain decimal digits"),
            ScalarValue::Integer(_) | ScalarValue::Float(_) => {
                problem.hint(format!("remove the quotes: {}", scalar.text))
            }
            _ => problem,
        });
        None
    }

    /// Returns the value as a duration in Go's syntax.
    pub(crate) fn duration(&self, range: DurationRange) -> Option<Duration> {
        let scalar = self.scalar(range.expected())?;
        let parsed = match scalar.value() {
            ScalarValue::Bool(_) => Err(DurationError::Malformed),
            _ => scalar.text.parse::<GoDuration>(),
        };
        let expected = range.expected();
        self.report(match parsed {
            Ok(duration) if range == DurationRange::NonNegative || !duration.0.is_zero() => {
                return Some(duration.0);
            }
            Ok(_) | Err(DurationError::Negative) => self.not_allowed(expected),
            Err(error) => {
                let display = scalar.display();
                let hint = suggest_duration(&scalar.text).map(|it| format!("did you mean {it}?"));
                let problem = self.problem(format!("{display} {error}"));
                problem.value(display).expected(expected).hint_if(hint)
            }
        });
        None
    }

    /// Reports the key of this value if it does not have the given format. `kind` names the key.
    pub(crate) fn check_key(&self, kind: &str, key: &str, format: &NameFormat) -> bool {
        let is_valid = (format.is_valid)(key);
        if !is_valid {
            let display = problem::quoted(key);
            let message = format!("the {kind} {display} is not allowed");
            let problem = ConfigProblem::error(self.key_position, &self.path, message);
            self.report(problem.value(display).expected(format.expected));
        }
        is_valid
    }

    fn scalar(&self, expected: &str) -> Option<&'r Scalar> {
        if let YamlContent::Scalar(scalar) = &self.node.content {
            return Some(scalar);
        }
        self.reject_type(expected);
        None
    }

    fn display(&self) -> String {
        match &self.node.content {
            YamlContent::Scalar(scalar) => scalar.display(),
            YamlContent::List(_) => "a list".to_owned(),
            YamlContent::Map(_) => "a map".to_owned(),
        }
    }

    /// Reports that the value has the wrong type.
    pub(crate) fn reject_type(&self, expected: &str) {
        let display = self.display();
        let found = match &self.node.content {
            YamlContent::List(_) | YamlContent::Map(_) => display.clone(),
            YamlContent::Scalar(scalar) => match scalar.value() {
                ScalarValue::Null => return self.reject_null(expected),
                ScalarValue::String(_) => format!("the string {}", problem::quoted(&scalar.text)),
                ScalarValue::Bool(_) => format!("the boolean {display}"),
                _ => format!("the number {display}"),
            },
        };
        let message = match self.path.as_str() {
            "" => format!("the file contains {found}"),
            _ => format!("{found} is not allowed here"),
        };
        let problem = self.problem(message).value(display).expected(expected);
        self.report(match &self.node.content {
            YamlContent::Scalar(scalar) if scalar.plain && scalar.text.contains(':') => {
                problem.hint("a key needs a space after its `:`")
            }
            _ => problem,
        });
    }

    fn reject_null(&self, expected: &str) {
        let problem = ConfigProblem::error(self.key_position, &self.path, "has no value");
        self.report(problem.expected(expected));
    }

    /// Reports that the value is not allowed.
    pub(crate) fn reject(&self, expected: impl Into<String>) {
        self.report(self.not_allowed(expected));
    }

    pub(crate) fn report(&self, problem: ConfigProblem) {
        self.context.report(match &problem.value {
            Some(value) if problem.hint.is_none() && value.contains("{{") => {
                problem.hint("if this is a template, render it first")
            }
            _ => problem,
        });
    }

    pub(crate) fn problem(&self, message: impl Display) -> ConfigProblem {
        ConfigProblem::error(self.node.position, &self.path, message.to_string())
    }

    fn not_allowed(&self, expected: impl Into<String>) -> ConfigProblem {
        let display = self.display();
        self.problem(format!("{display} is not allowed"))
            .value(display)
            .expected(expected)
    }
}

/// Returns the duration that was probably meant: `10s` for `10` and `10 S`, `24h` for `1d`.
fn suggest_duration(text: &str) -> Option<String> {
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
        .find(|suggestion| suggestion.parse::<GoDuration>().is_ok())
}
