//! Names and labels of one series, as places in a text.

use std::ops::Range;

/// A part of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Bounds beyond 4 GiB do not occur: a line is limited to far less.
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

/// A label: where its name and its value are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) name: Span,
    pub(crate) value: Span,
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
            let (name, value) = (put(name), put(value));
            self.labels.push(Label { name, value });
        }
    }
}
