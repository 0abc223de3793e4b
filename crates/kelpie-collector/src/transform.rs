//! What becomes of a sample on its way: labels injected and elided, metrics renamed, times judged.

use std::cmp::Ordering;
use std::collections::HashMap;

use thiserror::Error;

use crate::label::{Identity, Prefix};
use crate::name::{self, METRIC_NAME};
use crate::tally::Cause;
use crate::wire::{Series, encoded_label};

const MAX_AGE_MS: i64 = 24 * 60 * 60 * 1000;
const MAX_AHEAD_MS: i64 = 5 * 60 * 1000;

/// What becomes of every sample.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Sorted by name, as labels are on the wire: the two are merged in one walk.
    fates: Vec<Fated>,
    renames: HashMap<Vec<u8>, Vec<u8>>,
}

/// A label whose fate does not depend on the source.
#[derive(Clone, Debug)]
struct Fated {
    prefix: Prefix,
    name: Vec<u8>,
    fate: Fate,
}

/// What becomes of a label, whatever the source says.
#[derive(Clone, Debug)]
enum Fate {
    /// Is this one, as it stands on the wire.
    Injected(Vec<u8>),
    /// Is left out.
    Elided,
    /// Is the name of the metric.
    Name,
}

/// A rule that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// Not a name that a label can have.
    #[error(
        "{0:?} cannot be the name of a label: expected letters, digits and _, no digit first, and not __name__"
    )]
    LabelName(String),
    /// A label without a value is no label.
    #[error("label {0} is to be injected without a value: give it one, or leave it out")]
    EmptyValue(String),
    /// One label, two fates.
    #[error("label {0} is named twice among the labels to inject and to elide: keep one of them")]
    Twice(String),
    /// Not a name that a metric can have.
    #[error(
        "{0:?} cannot be the name of a metric: expected letters, digits, _ and :, no digit first"
    )]
    MetricName(String),
    /// One metric, two names.
    #[error("metric {0} is renamed twice: keep one of them")]
    RenamedTwice(String),
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}

impl Rules {
    /// Everything stays as it is, but for what no hub takes.
    pub fn new() -> Self {
        let mut rules = Self {
            fates: Vec::new(),
            renames: HashMap::new(),
        };
        rules.fates.push(Fated::new(METRIC_NAME, Fate::Name));
        rules
    }

    /// Every series gets this label; one that it has under this name is overridden.
    pub fn inject(self, name: &str, value: &str) -> Result<Self, RuleError> {
        if value.is_empty() {
            return Err(RuleError::EmptyValue(name.into()));
        }
        self.decide(name, Fate::Injected(encoded_label(name, value)))
    }

    /// No series keeps this label.
    pub fn elide(self, name: &str) -> Result<Self, RuleError> {
        self.decide(name, Fate::Elided)
    }

    /// The metric gets another name.
    pub fn rename(mut self, from: &str, to: &str) -> Result<Self, RuleError> {
        if let Some(wrong) = [from, to].into_iter().find(|name| !name::is_metric(name)) {
            return Err(RuleError::MetricName(wrong.into()));
        }
        if self.renames.insert(from.into(), to.into()).is_some() {
            return Err(RuleError::RenamedTwice(from.into()));
        }
        Ok(self)
    }

    fn decide(mut self, name: &str, fate: Fate) -> Result<Self, RuleError> {
        if !name::is_label(name) || name == METRIC_NAME {
            return Err(RuleError::LabelName(name.into()));
        }
        let place = self
            .fates
            .binary_search_by(|fated| fated.name.as_slice().cmp(name.as_bytes()));
        match place {
            Ok(_) => Err(RuleError::Twice(name.into())),
            Err(place) => {
                self.fates.insert(place, Fated::new(name, fate));
                Ok(self)
            }
        }
    }

    /// Writes the labels as they are sent: sorted, unique, none without a value.
    pub(crate) fn write(
        &self,
        text: &[u8],
        identity: &mut Identity,
        series: &mut Series<'_>,
    ) -> Result<(), Cause> {
        let mut metric = identity.name.of(text);
        if let Some(other) = self.renames.get(metric) {
            metric = other;
        }
        identity.sort(text);
        let mut fates = self.fates.iter().peekable();
        let mut last: &[u8] = &[];
        for label in &identity.labels {
            let is_fated = loop {
                let Some(fated) = fates.peek() else {
                    break false;
                };
                match label.compare(text, fated.prefix, &fated.name) {
                    Ordering::Less => break false,
                    Ordering::Equal => break true,
                    Ordering::Greater => fated.write(metric, series),
                }
                fates.next();
            };
            if is_fated || label.value.is_empty() {
                continue;
            }
            let name = label.name.of(text);
            if name == last {
                return Err(Cause::DuplicateLabel);
            }
            last = name;
            series.label(name, label.value.of(text));
        }
        for fated in fates {
            fated.write(metric, series);
        }
        Ok(())
    }
}

impl Fated {
    fn new(name: &str, fate: Fate) -> Self {
        Self {
            prefix: Prefix::of(name.as_bytes()),
            name: name.into(),
            fate,
        }
    }

    fn write(&self, metric: &[u8], series: &mut Series<'_>) {
        match &self.fate {
            Fate::Injected(label) => series.encoded_label(label),
            Fate::Elided => {}
            Fate::Name => series.label(&self.name, metric),
        }
    }
}

/// Why a sample of this time is not sent, if so.
pub(crate) fn judge_time(timestamp_ms: i64, now_ms: i64) -> Option<Cause> {
    let ahead = timestamp_ms.saturating_sub(now_ms);
    if ahead > MAX_AHEAD_MS {
        Some(Cause::Future)
    } else if ahead < -MAX_AGE_MS {
        Some(Cause::Old)
    } else {
        None
    }
}
