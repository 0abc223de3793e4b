//! Validates classic names of metrics and labels. Other names, of Prometheus 3, are quoted.

use std::borrow::Cow;

/// What to do with a name that is not classic. Remote write 1.0 does not allow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidNames {
    /// Replace each character that is not allowed by an underscore.
    #[default]
    Escape,
    /// Drop the sample and count it.
    Drop,
    /// Send the name as it is, to a hub that accepts UTF-8 names.
    Keep,
}

impl InvalidNames {
    /// Returns the metric name to send, or `None` if nothing may be sent.
    pub(crate) fn metric(self, name: &str) -> Option<Cow<'_, str>> {
        self.apply(&METRIC_BYTES, name)
    }

    /// Returns the label name to send, or `None` if nothing may be sent.
    pub(crate) fn label(self, name: &str) -> Option<Cow<'_, str>> {
        self.apply(&LABEL_BYTES, name)
    }

    fn apply<'n>(self, bytes: &[bool; 256], name: &'n str) -> Option<Cow<'n, str>> {
        if consists_of(bytes, name) {
            return Some(Cow::Borrowed(name));
        }
        match self {
            _ if name.is_empty() => None,
            Self::Escape => Some(Cow::Owned(escape(bytes, name))),
            Self::Drop => None,
            Self::Keep => Some(Cow::Borrowed(name)),
        }
    }
}

fn escape(bytes: &[bool; 256], name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for (at, letter) in name.char_indices() {
        let mut buffer = [0; 4];
        let is_allowed = match letter.encode_utf8(&mut buffer).as_bytes() {
            [byte] => bytes[usize::from(*byte)] && !(at == 0 && byte.is_ascii_digit()),
            _ => false,
        };
        escaped.push(if is_allowed { letter } else { '_' });
    }
    escaped
}

/// The label that holds the name of the metric.
pub(crate) const METRIC_NAME: &str = "__name__";

/// Returns true for letters, digits, `_` and `:` without a leading digit.
pub(crate) fn is_metric(name: &str) -> bool {
    consists_of(&METRIC_BYTES, name)
}

/// Returns true for letters, digits and `_` without a leading digit.
pub(crate) fn is_label(name: &str) -> bool {
    consists_of(&LABEL_BYTES, name)
}

fn consists_of(bytes: &[bool; 256], name: &str) -> bool {
    let is_allowed = |byte: u8| bytes[usize::from(byte)];
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(is_allowed)
}

/// The bytes that a metric name may have.
pub(crate) static METRIC_BYTES: [bool; 256] = {
    let mut bytes = LABEL_BYTES;
    bytes[b':' as usize] = true;
    bytes
};

/// The bytes that a label name may have.
pub(crate) static LABEL_BYTES: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        bytes[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
        byte += 1;
    }
    bytes
};
