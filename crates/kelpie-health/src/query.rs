//! Parses the query of a probe. No query makes the probe fail.

use std::borrow::Cow;

/// The raw query of a request, parsed as Go's `net/http` does: pairs separated by `&`, and `+` for
/// a space. Pairs with a bad escape or a `;` are ignored.
///
/// It is parsed in place and never copied. The server limits the request target to 64 KiB.
#[derive(Clone, Copy, Debug)]
pub struct ProbeQuery<'a>(&'a str);

impl<'a> ProbeQuery<'a> {
    /// Wraps the query of a request, without the `?`.
    pub fn new(raw: Option<&'a str>) -> Self {
        Self(raw.unwrap_or_default())
    }

    /// Returns true if `verbose` is present. Its value does not matter: `verbose=false` is verbose.
    pub(crate) fn verbose(self) -> bool {
        self.pairs().any(|(key, _)| key == "verbose")
    }

    /// Returns the names to exclude, as they were given. Some may be unknown, but none is empty.
    pub fn excludes(self) -> impl Iterator<Item = Cow<'a, str>> {
        let named = self.pairs().filter(|(key, _)| key == "exclude");
        named.map(|(_, name)| name).filter(|name| !name.is_empty())
    }

    /// Returns the first value of `key`.
    pub fn value(self, key: &str) -> Option<Cow<'a, str>> {
        let mut pairs = self.pairs();
        pairs.find_map(|(name, value)| (name == key).then_some(value))
    }

    fn pairs(self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        let pairs = self.0.split('&').filter(|pair| !pair.contains(';'));
        pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((
                unescape(key, PlusSign::Space)?,
                unescape(value, PlusSign::Space)?,
            ))
        })
    }
}

/// The meaning of a `+`: a space in a query, a literal plus sign in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlusSign {
    Space,
    Literal,
}

/// Decodes percent escapes. Returns `None` if one is not `%` and two hexadecimal digits.
///
/// Bytes that are not UTF-8 become the replacement character, which occurs in no name.
pub(crate) fn unescape(raw: &str, plus: PlusSign) -> Option<Cow<'_, str>> {
    if !raw.contains(['%', '+']) {
        return Some(Cow::Borrowed(raw));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            b'+' if plus == PlusSign::Space => b' ',
            other => other,
        });
    }
    Some(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn excludes(raw: &str) -> Vec<String> {
        let query = ProbeQuery::new(Some(raw));
        query.excludes().map(Cow::into_owned).collect()
    }

    #[test]
    fn fuzz_corpus_never_panics() {
        let corpus = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fuzz/corpus/health_query"
        );
        let files = std::fs::read_dir(corpus).unwrap();
        let queries = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        let parse = |raw: String| (ProbeQuery::new(Some(&raw)).verbose(), excludes(&raw).len());
        let parsed: BTreeSet<(bool, usize)> = queries.map(parse).collect();
        assert!(parsed.contains(&(true, 1)), "{parsed:?}");
        assert!(parsed.contains(&(false, 2)), "{parsed:?}");
    }

    #[test]
    fn verbose_needs_no_value() {
        for raw in [
            "verbose",
            "verbose=",
            "verbose=false",
            "verbose=0",
            "x&verbose",
            "%76erbose",
            "a=%zz&verbose",
            "verbose&verbose",
        ] {
            assert!(ProbeQuery::new(Some(raw)).verbose(), "{raw}");
        }
        for raw in [
            "",
            "VERBOSE",
            "verbosely",
            "x=verbose",
            "verbose=%zz",
            "verbose;x",
            "verbose=a;b",
            "+verbose",
            "verbose%",
            "%00verbose",
        ] {
            assert!(!ProbeQuery::new(Some(raw)).verbose(), "{raw}");
        }
        assert!(!ProbeQuery::new(None).verbose());
    }

    #[test]
    fn excludes_are_repeatable_and_unescaped() {
        for (raw, expected) in [
            ("exclude=a", &["a"][..]),
            ("exclude=a&exclude=b", &["a", "b"]),
            ("exclude=a,b", &["a,b"]),
            ("exclude=", &[]),
            ("exclude", &[]),
            ("Exclude=a", &[]),
            ("exclude=%61%5Fb", &["a_b"]),
            ("exclude=a+b", &["a b"]),
            ("exclude=a=b", &["a=b"]),
            ("exclude=a&exclude=%", &["a"]),
            ("exclude=%6&exclude=a", &["a"]),
            ("exclude=%6g&exclude=%+1&exclude=a", &["a"]),
            ("exclude=a;exclude=b&exclude=c", &["c"]),
            ("exclude=%3B", &[";"]),
            ("&&exclude=a&&", &["a"]),
            ("%65xclude=a", &["a"]),
            ("exclude=%ff", &["\u{fffd}"]),
            ("verbose&exclude=a#b", &["a#b"]),
        ] {
            assert_eq!(excludes(raw), expected, "{raw}");
        }
    }

    #[test]
    fn plus_is_literal_in_a_path() {
        assert_eq!(unescape("a+b%2B", PlusSign::Literal).unwrap(), "a+b+");
    }

    proptest! {
        #[test]
        fn any_query_parses(raw in any::<String>()) {
            let query = ProbeQuery::new(Some(&raw));
            query.verbose();
            prop_assert!(query.excludes().all(|name| !name.is_empty()));
        }

        /// The model: the names put in, without the pairs that were corrupted on purpose.
        #[test]
        fn intact_pairs_are_excluded(
            pairs in prop::collection::vec(
                ("[a-z_ä%&;=+]{0,6}", prop_oneof![
                    Just(Corruption::None), Just(Corruption::Escape),
                    Just(Corruption::Semicolon), Just(Corruption::Key),
                ], any::<bool>()), 0..12),
        ) {
            let mut raw = Vec::new();
            let mut model = BTreeSet::new();
            for (name, corruption, escape_all) in pairs {
                let value = escape(&name, escape_all);
                raw.push(match corruption {
                    Corruption::None => format!("exclude={value}"),
                    Corruption::Escape => format!("exclude={value}%7"),
                    Corruption::Semicolon => format!("exclude={value};"),
                    Corruption::Key => format!("excluded={value}"),
                });
                if matches!(corruption, Corruption::None) && !name.is_empty() {
                    model.insert(name);
                }
            }
            let parsed: BTreeSet<String> = excludes(&raw.join("&")).into_iter().collect();
            prop_assert_eq!(parsed, model);
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Corruption {
        None,
        Escape,
        Semicolon,
        Key,
    }

    fn escape(name: &str, all: bool) -> String {
        let plain = |byte: u8| byte.is_ascii_lowercase() && !all;
        name.bytes()
            .map(|byte| match byte {
                _ if plain(byte) => char::from(byte).to_string(),
                _ => format!("%{byte:02x}"),
            })
            .collect()
    }
}
