//! Query parameters.

use std::collections::BTreeMap;
use std::time::Duration;

use percent_encoding::percent_decode_str;

/// The query parameters by name. The first of several values counts.
#[derive(Clone, Debug, Default)]
pub(super) struct QueryParams(BTreeMap<String, String>);

impl QueryParams {
    pub(super) fn parse(query: &str) -> Self {
        let mut found = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            found
                .entry(form_decode(name))
                .or_insert_with(|| form_decode(value));
        }
        Self(found)
    }

    /// Returns a value; empty if absent.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn integer(&self, name: &str) -> Option<u64> {
        self.get(name).parse().ok()
    }

    /// Returns a duration in seconds. Negative values are zero; 0 means that none is given.
    pub(super) fn duration_seconds(&self, name: &str) -> Option<Duration> {
        let seconds: i64 = self.get(name).parse().ok()?;
        (seconds != 0).then(|| Duration::from_secs(seconds.max(0).unsigned_abs()))
    }

    /// Returns whether a boolean is set, in any spelling that Go accepts; clients differ in it.
    pub(super) fn flag(&self, name: &str) -> bool {
        ["1", "t", "T", "true", "True", "TRUE"].contains(&self.get(name))
    }
}

/// Decodes a part of a query, in which a plus sign stands for a space.
fn form_decode(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

/// Decodes percent-encoding. Invalid UTF-8 is replaced.
pub(super) fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_query_parameters() {
        let query = QueryParams::parse(
            "labelSelector=app+in+%28a%2Cb%29&watch=1&limit=5&x&limit=7&p=%zz%4",
        );
        assert_eq!(query.get("labelSelector"), "app in (a,b)");
        assert!(query.flag("watch") && QueryParams::parse("watch=True").flag("watch"));
        assert!(!QueryParams::parse("watch=false&x").flag("watch"));
        assert_eq!(query.integer("limit"), Some(5));
        assert_eq!(query.get("x"), "");
        assert_eq!(query.get("p"), "%zz%4");
        assert_eq!(query.integer("absent"), None);
        assert_eq!(
            query.duration_seconds("limit"),
            Some(Duration::from_secs(5))
        );
        assert_eq!(query.duration_seconds("x"), None);
        let past = QueryParams::parse("timeoutSeconds=-5").duration_seconds("timeoutSeconds");
        assert_eq!(past, Some(Duration::ZERO));
        assert_eq!(QueryParams::parse("a=0").duration_seconds("a"), None);
    }
}
