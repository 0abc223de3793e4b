//! What identifies a series, as places in a text.

use std::cmp::Ordering;
use std::ops::Range;

/// A part of a text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Nothing is 4 GiB long: a line is limited to far less.
    pub(crate) fn new(range: Range<usize>) -> Self {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            start: place(range.start),
            end: place(range.end),
        }
    }

    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// The beginning of a name as a number: names compare as their prefixes do, unless those are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix(u64);

impl Prefix {
    pub(crate) fn of(name: &[u8]) -> Self {
        if let Some(first) = name.first_chunk() {
            return Self(u64::from_be_bytes(*first));
        }
        let mut padded = [0; 8];
        padded[..name.len()].copy_from_slice(name);
        Self(u64::from_be_bytes(padded))
    }
}

/// A label: where its name and its value are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) prefix: Prefix,
    pub(crate) name: Span,
    pub(crate) value: Span,
}

impl Label {
    pub(crate) fn compare(&self, text: &[u8], prefix: Prefix, name: &[u8]) -> Ordering {
        let by_prefix = self.prefix.cmp(&prefix);
        by_prefix.then_with(|| self.name.of(text).cmp(name))
    }
}

/// What identifies a series, as places in one text. Kept and reused: a line allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub(crate) name: Span,
    pub(crate) labels: Vec<Label>,
}

impl Identity {
    pub(crate) fn clear(&mut self) {
        self.name = Span::default();
        self.labels.clear();
    }

    pub(crate) fn push(&mut self, text: &[u8], name: Span, value: Span) {
        let prefix = Prefix::of(name.of(text));
        self.labels.push(Label {
            prefix,
            name,
            value,
        });
    }

    /// Takes over parts that are in no common text, by writing one.
    pub(crate) fn spell<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        text: &mut Vec<u8>,
    ) {
        text.clear();
        self.clear();
        let mut put = |part: &str| {
            let start = text.len();
            text.extend_from_slice(part.as_bytes());
            Span::new(start..text.len())
        };
        self.name = put(name);
        for (name, value) in labels {
            self.labels.push(Label {
                prefix: Prefix::of(name.as_bytes()),
                name: put(name),
                value: put(value),
            });
        }
    }

    /// By name, as they stand on the wire. Most lines are sorted already.
    pub(crate) fn sort(&mut self, text: &[u8]) {
        let compare = |a: &Label, b: &Label| a.compare(text, b.prefix, b.name.of(text));
        let is_ordered = |a: &Label, b: &Label| compare(a, b).is_le();
        if !self.labels.is_sorted_by(is_ordered) {
            self.labels.sort_unstable_by(compare);
        }
    }
}
