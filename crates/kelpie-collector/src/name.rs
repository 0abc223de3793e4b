//! Names that metrics and labels have always had. Others, of Prometheus 3, are quoted.

/// The label that holds the name of the metric.
pub(crate) const METRIC_NAME: &str = "__name__";

/// Letters, digits, `_` and `:`, no digit first.
pub(crate) fn is_metric(name: &str) -> bool {
    is_of(&METRIC_BYTES, name)
}

/// Letters, digits and `_`, no digit first.
pub(crate) fn is_label(name: &str) -> bool {
    is_of(&LABEL_BYTES, name)
}

fn is_of(bytes: &[bool; 256], name: &str) -> bool {
    let is_part = |byte: u8| bytes[usize::from(byte)];
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(is_part)
}

/// The bytes of a metric's name.
pub(crate) static METRIC_BYTES: [bool; 256] = {
    let mut bytes = LABEL_BYTES;
    bytes[b':' as usize] = true;
    bytes
};

/// The bytes of a label's name.
pub(crate) static LABEL_BYTES: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        bytes[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
        byte += 1;
    }
    bytes
};
