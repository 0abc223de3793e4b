//! Transforms samples: injects and elides labels, renames metrics, checks timestamps.

use std::cmp::Ordering;
use std::collections::HashMap;

use thiserror::Error;

use crate::label::{NamePrefix, SeriesLabels};
use crate::name::{self, InvalidNames, METRIC_NAME};
use crate::sample_counts::FilterCause;
use crate::wire::{SeriesWriter, encoded_label};

const MAX_AGE_MS: i64 = 24 * 60 * 60 * 1000;
const MAX_AHEAD_MS: i64 = 5 * 60 * 1000;

/// The changes to make to every sample.
#[derive(Clone, Debug)]
pub struct TransformRules {
    /// Sorted by name, like the labels of a series, so that both are merged in one pass.
    label_rules: Vec<LabelRule>,
    renames: HashMap<Vec<u8>, Vec<u8>>,
    pub(crate) invalid_names: InvalidNames,
}

/// A rule for the label with this name.
#[derive(Clone, Debug)]
struct LabelRule {
    prefix: NamePrefix,
    name: Vec<u8>,
    action: LabelAction,
}

/// The action of a [`LabelRule`]. It overrides the label of the source.
#[derive(Clone, Debug)]
enum LabelAction {
    /// Writes this encoded label.
    Inject(Vec<u8>),
    /// Leaves the label out.
    Elide,
    /// Writes the name of the metric.
    MetricName,
}

/// An invalid transform rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransformRuleError {
    /// The label name is invalid.
    #[error(
        "{0:?} is not a valid label name: expected letters, digits and _ without a leading digit, \
         and not __name__"
    )]
    LabelName(String),
    /// The value is empty, which means no label in Prometheus.
    #[error("label {0} has no value to inject: set one, or remove the label")]
    EmptyValue(String),
    /// Two rules name the same label.
    #[error("label {0} is listed twice among the labels to inject and to elide: keep one")]
    Twice(String),
    /// The metric name is invalid.
    #[error(
        "{0:?} is not a valid metric name: expected letters, digits, _ and : without a leading \
         digit"
    )]
    MetricName(String),
    /// Two rules rename the same metric.
    #[error("metric {0} is renamed twice: keep one")]
    RenamedTwice(String),
}

impl Default for TransformRules {
    fn default() -> Self {
        Self::new()
    }
}

impl TransformRules {
    /// Creates rules that change nothing. Labels and samples that no hub accepts are still dropped.
    pub fn new() -> Self {
        let mut rules = Self {
            label_rules: Vec::new(),
            renames: HashMap::new(),
            invalid_names: InvalidNames::default(),
        };
        rules
            .label_rules
            .push(LabelRule::new(METRIC_NAME, LabelAction::MetricName));
        rules
    }

    /// Sets what to do with names that are not classic. By default they are escaped.
    #[must_use]
    pub fn invalid_names(mut self, names: InvalidNames) -> Self {
        self.invalid_names = names;
        self
    }

    /// Adds this label to every series. It replaces a label of the same name.
    pub fn inject(self, name: &str, value: &str) -> Result<Self, TransformRuleError> {
        if value.is_empty() {
            return Err(TransformRuleError::EmptyValue(name.into()));
        }
        self.add_label_rule(name, LabelAction::Inject(encoded_label(name, value)))
    }

    /// Removes this label from every series.
    pub fn elide(self, name: &str) -> Result<Self, TransformRuleError> {
        self.add_label_rule(name, LabelAction::Elide)
    }

    /// Renames the metric `from` to `to`.
    pub fn rename(mut self, from: &str, to: &str) -> Result<Self, TransformRuleError> {
        if let Some(invalid) = [from, to].into_iter().find(|name| !name::is_metric(name)) {
            return Err(TransformRuleError::MetricName(invalid.into()));
        }
        if self.renames.insert(from.into(), to.into()).is_some() {
            return Err(TransformRuleError::RenamedTwice(from.into()));
        }
        Ok(self)
    }

    fn add_label_rule(
        mut self,
        name: &str,
        action: LabelAction,
    ) -> Result<Self, TransformRuleError> {
        if !name::is_label(name) || name == METRIC_NAME {
            return Err(TransformRuleError::LabelName(name.into()));
        }
        let position = self
            .label_rules
            .binary_search_by(|rule| rule.name.as_slice().cmp(name.as_bytes()));
        match position {
            Ok(_) => Err(TransformRuleError::Twice(name.into())),
            Err(position) => {
                self.label_rules
                    .insert(position, LabelRule::new(name, action));
                Ok(self)
            }
        }
    }

    /// Writes the transformed labels: sorted, unique, and without empty values.
    pub(crate) fn write_labels(
        &self,
        text: &[u8],
        labels: &mut SeriesLabels,
        series: &mut SeriesWriter<'_>,
    ) -> Result<(), FilterCause> {
        let mut metric = labels.name.of(text);
        if let Some(other) = self.renames.get(metric) {
            metric = other;
        }
        labels.sort(text);
        let mut rules = self.label_rules.iter().peekable();
        let mut last: &[u8] = &[];
        for label in &labels.labels {
            let has_rule = loop {
                let Some(rule) = rules.peek() else {
                    break false;
                };
                match label.compare(text, rule.prefix, &rule.name) {
                    Ordering::Less => break false,
                    Ordering::Equal => break true,
                    Ordering::Greater => rule.write(metric, series),
                }
                rules.next();
            };
            if has_rule || label.value.is_empty() {
                continue;
            }
            let name = label.name.of(text);
            if name == last {
                return Err(FilterCause::DuplicateLabel);
            }
            last = name;
            series.label(name, label.value.of(text));
        }
        for rule in rules {
            rule.write(metric, series);
        }
        Ok(())
    }
}

impl LabelRule {
    fn new(name: &str, action: LabelAction) -> Self {
        Self {
            prefix: NamePrefix::of(name.as_bytes()),
            name: name.into(),
            action,
        }
    }

    fn write(&self, metric: &[u8], series: &mut SeriesWriter<'_>) {
        match &self.action {
            LabelAction::Inject(label) => series.encoded_label(label),
            LabelAction::Elide => {}
            LabelAction::MetricName => series.label(&self.name, metric),
        }
    }
}

/// Returns the cause for not sending a sample with this timestamp, if there is one.
pub(crate) fn check_timestamp(timestamp_ms: i64, now_ms: i64) -> Option<FilterCause> {
    let ahead = timestamp_ms.saturating_sub(now_ms);
    if ahead > MAX_AHEAD_MS {
        Some(FilterCause::Future)
    } else if ahead < -MAX_AGE_MS {
        Some(FilterCause::Old)
    } else {
        None
    }
}
