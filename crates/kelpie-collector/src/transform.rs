//! What becomes of a sample on its way: labels injected and elided, metrics renamed, times judged.

use std::collections::{BTreeMap, HashMap};

use thiserror::Error;

use crate::label::Identity;
use crate::tally::Cause;
use crate::wire::Series;

/// The label that holds the name of the metric.
const NAME: &str = "__name__";

const MAX_AGE_MS: i64 = 24 * 60 * 60 * 1000;
const MAX_AHEAD_MS: i64 = 5 * 60 * 1000;

/// What becomes of every sample.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Sorted by name, as labels are on the wire: the two are merged in one walk.
    fates: BTreeMap<Vec<u8>, Fate>,
    renames: HashMap<Vec<u8>, Vec<u8>>,
}

/// What becomes of a label, whatever the source says.
#[derive(Clone, Debug)]
enum Fate {
    /// Has this value.
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
        let fates = BTreeMap::from([(NAME.into(), Fate::Name)]);
        let renames = HashMap::new();
        Self { fates, renames }
    }

    /// Every series gets this label; one that it has under this name is overridden.
    pub fn inject(self, name: &str, value: &str) -> Result<Self, RuleError> {
        if value.is_empty() {
            return Err(RuleError::EmptyValue(name.into()));
        }
        self.decide(name, Fate::Injected(value.into()))
    }

    /// No series keeps this label.
    pub fn elide(self, name: &str) -> Result<Self, RuleError> {
        self.decide(name, Fate::Elided)
    }

    /// The metric gets another name.
    pub fn rename(mut self, from: &str, to: &str) -> Result<Self, RuleError> {
        if let Some(wrong) = [from, to].into_iter().find(|name| !is_metric_name(name)) {
            return Err(RuleError::MetricName(wrong.into()));
        }
        if self.renames.insert(from.into(), to.into()).is_some() {
            return Err(RuleError::RenamedTwice(from.into()));
        }
        Ok(self)
    }

    fn decide(mut self, name: &str, fate: Fate) -> Result<Self, RuleError> {
        if !is_label_name(name) || name == NAME {
            return Err(RuleError::LabelName(name.into()));
        }
        if self.fates.insert(name.into(), fate).is_some() {
            return Err(RuleError::Twice(name.into()));
        }
        Ok(self)
    }

    /// Why a sample of this time is not sent, if so.
    pub(crate) fn judge_time(&self, timestamp_ms: i64, now_ms: i64) -> Option<Cause> {
        let _ = self;
        let ahead = timestamp_ms.saturating_sub(now_ms);
        if ahead > MAX_AHEAD_MS {
            Some(Cause::Future)
        } else if ahead < -MAX_AGE_MS {
            Some(Cause::Old)
        } else {
            None
        }
    }

    /// Writes the labels as they are sent: sorted, unique, none without a value.
    pub(crate) fn write(
        &self,
        text: &[u8],
        identity: &mut Identity,
        series: &mut Series<'_>,
    ) -> Result<(), Cause> {
        let name = identity.name.of(text);
        let name = self.renames.get(name).map_or(name, Vec::as_slice);
        let labels = &mut identity.labels;
        labels.retain(|label| !label.value.is_empty());
        labels.sort_unstable_by(|a, b| a.name.of(text).cmp(b.name.of(text)));
        let mut fates = self.fates.iter().peekable();
        let mut last: &[u8] = &[];
        for label in &*labels {
            let own = label.name.of(text);
            while let Some((fated, fate)) = fates.next_if(|(fated, _)| fated.as_slice() < own) {
                fate.write(fated, name, series);
            }
            if fates
                .peek()
                .is_some_and(|(fated, _)| fated.as_slice() == own)
            {
                continue;
            }
            if own == last {
                return Err(Cause::DuplicateLabel);
            }
            last = own;
            series.label(own, label.value.of(text));
        }
        for (fated, fate) in fates {
            fate.write(fated, name, series);
        }
        Ok(())
    }
}

impl Fate {
    fn write(&self, label: &[u8], metric: &[u8], series: &mut Series<'_>) {
        match self {
            Self::Injected(value) => series.label(label, value),
            Self::Elided => {}
            Self::Name => series.label(label, metric),
        }
    }
}

fn is_label_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(is_part)
}

fn is_metric_name(name: &str) -> bool {
    is_label_name(&name.replace(':', "_"))
}
