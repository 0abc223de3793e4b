//! Names of leases and nodes.

use super::{WireError, malformed, shown};

/// A DNS subdomain, which is what the API server lets pass.
const LONGEST: usize = 253;

/// `bytes` as a name. Others would only come from a server that is none: names end up in logs,
/// metrics and on screens.
pub(super) fn check(bytes: &[u8]) -> Result<&str, WireError> {
    let is_allowed =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(byte);
    if bytes.is_empty() {
        return Err(malformed("it has no name"));
    }
    if bytes.len() > LONGEST {
        let text = format!("its name is longer than {LONGEST} bytes");
        return Err(malformed(text));
    }
    match str::from_utf8(bytes) {
        Ok(name) if bytes.iter().all(is_allowed) => Ok(name),
        _ => {
            let shown = shown(&String::from_utf8_lossy(bytes));
            Err(malformed(format!("{shown} is no name of an object")))
        }
    }
}
