//! The name and labels of a series, as spans of a text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use crate::name::InvalidNames;

/// A span of a text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextSpan {
    start: u32,
    end: u32,
}

impl TextSpan {
    /// Creates a span. Offsets fit into 32 bits, because lines are far shorter than 4 GiB.
    pub(crate) fn new(range: Range<usize>) -> Self {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            start: offset(range.start),
            end: offset(range.end),
        }
    }

    /// Returns the bytes of the span. `text` must be the text that it refers to.
    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// The first eight bytes of a name as a number. Names compare as their prefixes do, unless those
/// are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamePrefix(u64);

impl NamePrefix {
    pub(crate) fn of(name: &[u8]) -> Self {
        if let Some(first) = name.first_chunk() {
            return Self(u64::from_be_bytes(*first));
        }
        let mut padded = [0; 8];
        padded[..name.len()].copy_from_slice(name);
        Self(u64::from_be_bytes(padded))
    }
}

/// The spans of a label's name and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelSpans {
    pub(crate) prefix: NamePrefix,
    pub(crate) name: TextSpan,
    pub(crate) value: TextSpan,
}

impl LabelSpans {
    pub(crate) fn compare(&self, text: &[u8], prefix: NamePrefix, name: &[u8]) -> Ordering {
        let by_prefix = self.prefix.cmp(&prefix);
        by_prefix.then_with(|| self.name.of(text).cmp(name))
    }
}

/// The name and labels of a series, as spans of one text. It is reused for every line, so that a
/// line allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct SeriesLabels {
    pub(crate) name: TextSpan,
    pub(crate) labels: Vec<LabelSpans>,
    /// True if some name may not be classic.
    pub(crate) has_free_names: bool,
}

impl SeriesLabels {
    pub(crate) fn clear(&mut self) {
        self.has_free_names = false;
        self.name = TextSpan::default();
        self.labels.clear();
    }

    pub(crate) fn push(&mut self, text: &[u8], name: TextSpan, value: TextSpan) {
        let prefix = NamePrefix::of(name.of(text));
        self.labels.push(LabelSpans {
            prefix,
            name,
            value,
        });
    }

    /// Sets name and labels from separate strings, and writes those to `text`.
    pub(crate) fn set<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        text: &mut Vec<u8>,
    ) {
        text.clear();
        self.clear();
        self.has_free_names = true;
        self.name = append(name, text);
        for (name, value) in labels {
            self.labels.push(LabelSpans {
                prefix: NamePrefix::of(name.as_bytes()),
                name: append(name, text),
                value: append(value, text),
            });
        }
    }

    /// Replaces names that are not classic, and appends the new ones to `text`. Returns `None` if
    /// the sample must not be sent.
    pub(crate) fn fix_names(&mut self, names: InvalidNames, text: &mut Vec<u8>) -> Option<()> {
        let fixed = names.metric(str::from_utf8(self.name.of(text)).ok()?)?;
        if let Cow::Owned(fixed) = fixed {
            self.name = append(&fixed, text);
        }
        for label in &mut self.labels {
            let fixed = names.label(str::from_utf8(label.name.of(text)).ok()?)?;
            if let Cow::Owned(fixed) = fixed {
                label.prefix = NamePrefix::of(fixed.as_bytes());
                label.name = append(&fixed, text);
            }
        }
        Some(())
    }

    /// Sorts the labels by name, as remote write requires. Most lines are sorted already.
    pub(crate) fn sort(&mut self, text: &[u8]) {
        let compare = |a: &LabelSpans, b: &LabelSpans| a.compare(text, b.prefix, b.name.of(text));
        let is_ordered = |a: &LabelSpans, b: &LabelSpans| compare(a, b).is_le();
        if !self.labels.is_sorted_by(is_ordered) {
            self.labels.sort_unstable_by(compare);
        }
    }
}

/// Appends a part to the text and returns its span.
fn append(part: &str, text: &mut Vec<u8>) -> TextSpan {
    let start = text.len();
    text.extend_from_slice(part.as_bytes());
    TextSpan::new(start..text.len())
}
