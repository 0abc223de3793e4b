//! The query of a probe. Whatever is in it, it never spoils the answer.

use std::borrow::Cow;

/// A query as it stands in the request, read the way Go's servers read it: pairs between `&`, `+`
/// for a blank; a pair with a bad escape or a `;` is as good as absent.
///
/// It is read in place, so that its length (the server takes 64 KiB of request target) is the only
/// thing that a long one costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    pub(crate) fn new(raw: Option<&'a str>) -> Self {
        Self(raw.unwrap_or_default())
    }

    /// Its presence alone counts: `verbose=false` is verbose.
    pub(crate) fn verbose(self) -> bool {
        self.pairs().any(|(key, _)| key == "verbose")
    }

    /// The names to exclude, as they were given; some may be unknown, none is empty.
    pub(crate) fn excludes(self) -> impl Iterator<Item = Cow<'a, str>> {
        let named = self.pairs().filter(|(key, _)| key == "exclude");
        named.map(|(_, name)| name).filter(|name| !name.is_empty())
    }

    fn pairs(self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        let pairs = self.0.split('&').filter(|pair| !pair.contains(';'));
        pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(key, Plus::Blank)?, unescape(value, Plus::Blank)?))
        })
    }
}

/// What a `+` stands for: a blank in a query, itself in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plus {
    Blank,
    Itself,
}

/// None if an escape is not `%` and two hexadecimal digits. Bytes that are no UTF-8 become the
/// replacement character, which is in no name.
pub(crate) fn unescape(raw: &str, plus: Plus) -> Option<Cow<'_, str>> {
    if !raw.contains(['%', '+']) {
        return Some(Cow::Borrowed(raw));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            b'+' if plus == Plus::Blank => b' ',
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
        let query = Query::new(Some(raw));
        query.excludes().map(Cow::into_owned).collect()
    }

    #[test]
    fn the_fuzzers_corpus_never_ends_the_program() {
        let corpus = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fuzz/corpus/health_query"
        );
        let files = std::fs::read_dir(corpus).unwrap();
        let queries = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        let read = |raw: String| (Query::new(Some(&raw)).verbose(), excludes(&raw).len());
        let read: BTreeSet<(bool, usize)> = queries.map(read).collect();
        assert!(read.contains(&(true, 1)), "{read:?}");
        assert!(read.contains(&(false, 2)), "{read:?}");
    }

    #[test]
    fn verbose_counts_by_its_presence() {
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
            assert!(Query::new(Some(raw)).verbose(), "{raw}");
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
            assert!(!Query::new(Some(raw)).verbose(), "{raw}");
        }
        assert!(!Query::new(None).verbose());
    }

    #[test]
    fn excludes_are_repeatable_exact_and_unescaped() {
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
    fn a_plus_is_itself_in_a_path() {
        assert_eq!(unescape("a+b%2B", Plus::Itself).unwrap(), "a+b+");
    }

    proptest! {
        #[test]
        fn no_query_is_too_strange(raw in any::<String>()) {
            let query = Query::new(Some(&raw));
            query.verbose();
            prop_assert!(query.excludes().all(|name| !name.is_empty()));
        }

        /// The naive model: what was put in, minus the pairs that were spoilt on purpose.
        #[test]
        fn the_excluded_names_are_those_that_were_put_in(
            pairs in prop::collection::vec(
                ("[a-z_ä%&;=+]{0,6}", prop_oneof![
                    Just(Spoil::No), Just(Spoil::Escape), Just(Spoil::Semicolon), Just(Spoil::Key),
                ], any::<bool>()), 0..12),
        ) {
            let mut raw = Vec::new();
            let mut model = BTreeSet::new();
            for (name, spoil, escape_all) in pairs {
                let value = escape(&name, escape_all);
                raw.push(match spoil {
                    Spoil::No => format!("exclude={value}"),
                    Spoil::Escape => format!("exclude={value}%7"),
                    Spoil::Semicolon => format!("exclude={value};"),
                    Spoil::Key => format!("excluded={value}"),
                });
                if matches!(spoil, Spoil::No) && !name.is_empty() {
                    model.insert(name);
                }
            }
            let seen: BTreeSet<String> = excludes(&raw.join("&")).into_iter().collect();
            prop_assert_eq!(seen, model);
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Spoil {
        No,
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
