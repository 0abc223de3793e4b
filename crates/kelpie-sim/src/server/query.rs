//! What a request asks for behind the question mark.

use std::collections::BTreeMap;
use std::time::Duration;

/// Parameters by their names; of several values of one name the first counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let mut found = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            found.entry(decode(name)).or_insert_with(|| decode(value));
        }
        Self(found)
    }

    /// A value; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    /// A time to wait. What is below zero is over already; zero says nothing.
    pub(super) fn seconds(&self, name: &str) -> Option<Duration> {
        let seconds: i64 = self.text(name).parse().ok()?;
        (seconds != 0).then(|| Duration::from_secs(seconds.max(0).unsigned_abs()))
    }

    /// Whatever Go takes for true: every client has its own way to write it.
    pub(super) fn is_true(&self, name: &str) -> bool {
        ["1", "t", "T", "true", "True", "TRUE"].contains(&self.text(name))
    }
}

/// What stands behind percent signs and plusses. Bytes that are no text are replaced.
pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        let hex = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits.get(..2)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        match (*byte, hex(rest.as_slice())) {
            (b'%', Some(decoded)) => {
                bytes.push(decoded);
                rest.nth(1);
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query =
            Query::parse("labelSelector=app+in+%28a%2Cb%29&watch=1&limit=5&x&limit=7&p=%zz%4");
        assert_eq!(query.text("labelSelector"), "app in (a,b)");
        assert!(query.is_true("watch") && Query::parse("watch=True").is_true("watch"));
        assert!(!Query::parse("watch=false&x").is_true("watch"));
        assert_eq!(query.number("limit"), Some(5));
        assert_eq!(query.text("x"), "");
        assert_eq!(query.text("p"), "%zz%4");
        assert_eq!(query.number("absent"), None);
        assert_eq!(query.seconds("limit"), Some(Duration::from_secs(5)));
        assert_eq!(query.seconds("x"), None);
        let past = Query::parse("timeoutSeconds=-5").seconds("timeoutSeconds");
        assert_eq!(past, Some(Duration::ZERO));
        assert_eq!(Query::parse("a=0").seconds("a"), None);
    }
}
