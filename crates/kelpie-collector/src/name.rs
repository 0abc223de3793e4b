//! Validates classic names of metrics and labels. Other names, of Prometheus 3, are quoted.

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
