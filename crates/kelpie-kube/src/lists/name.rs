//! Names of leases and nodes.

use super::{ListError, malformed, quote};

/// The maximum length of a DNS subdomain, which the API server requires of names.
const MAX_BYTES: usize = 253;

/// Returns `bytes` as the name of an object. Names end up in logs, metrics and terminals, so those
/// that no API server would accept are refused.
pub(super) fn parse_name(bytes: &[u8]) -> Result<&str, ListError> {
    let is_allowed =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(byte);
    if bytes.is_empty() {
        return Err(malformed("it has no name"));
    }
    if bytes.len() > MAX_BYTES {
        let reason = format!("its name is longer than {MAX_BYTES} bytes");
        return Err(malformed(reason));
    }
    match str::from_utf8(bytes) {
        Ok(name) if bytes.iter().all(is_allowed) => Ok(name),
        _ => {
            let quoted = quote(&String::from_utf8_lossy(bytes));
            Err(malformed(format!("{quoted} is not a valid name")))
        }
    }
}
