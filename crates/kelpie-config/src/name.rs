//! What Kubernetes allows as a name, a label, a version, a kind.

/// A rule for a text, and how a message words it.
pub(crate) struct Rule {
    pub expected: &'static str,
    pub holds: fn(&str) -> bool,
}

/// The name of most objects.
pub(crate) const OBJECT: Rule = Rule {
    expected: "a Kubernetes name: at most 253 lower-case letters, digits, `-` and `.`, \
               with a letter or digit at both ends of each part",
    holds: is_subdomain,
};

/// The name of a namespace or Service.
pub(crate) const LABEL: Rule = Rule {
    expected: "a Kubernetes name: at most 63 lower-case letters, digits and `-`, \
               with a letter or digit at both ends",
    holds: is_label,
};

/// `v1`, `apps/v1`.
pub(crate) const API_VERSION: Rule = Rule {
    expected: "a version such as v1 or a group and version such as apps/v1",
    holds: is_api_version,
};

/// `Deployment`.
pub(crate) const KIND: Rule = Rule {
    expected: "a kind such as Deployment: letters and digits, a capital first",
    holds: is_kind,
};

/// The key of a label.
pub(crate) const LABEL_KEY: Rule = Rule {
    expected: "a label key: an optional DNS prefix and `/`, then at most 63 letters, digits, `-`, \
               `_` and `.`, with a letter or digit at both ends",
    holds: is_label_key,
};

/// The value of a label.
pub(crate) const LABEL_VALUE: Rule = Rule {
    expected: "a label value: at most 63 letters, digits, `-`, `_` and `.`, \
               with a letter or digit at both ends",
    holds: is_label_value,
};

fn is_label(text: &str) -> bool {
    text.len() <= 63
        && has_ends(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    // Parts have no limit of their own: Kubernetes checks only the whole.
    text.len() <= 253
        && text.split('.').all(|part| {
            has_ends(part, |b| b.is_ascii_lowercase() || b.is_ascii_digit())
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
}

fn is_api_version(text: &str) -> bool {
    let is_version = |version: &str| is_label(version) && version.starts_with(char::is_alphabetic);
    match text.split_once('/') {
        Some((group, version)) => is_subdomain(group) && is_version(version),
        None => is_version(text),
    }
}

fn is_kind(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn is_label_key(text: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && is_label_value(name);
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

fn is_label_value(text: &str) -> bool {
    text.is_empty()
        || (text.len() <= 63
            && has_ends(text, |b| b.is_ascii_alphanumeric())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)))
}

fn has_ends(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&b| allowed(b)) && bytes.last().is_some_and(|&b| allowed(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_the_rules_of_kubernetes() {
        let (long, too_long) = ("a".repeat(63), "a".repeat(64));
        let (longest, beyond) = ("a".repeat(253), "a".repeat(254));
        for (rule, good, bad) in [
            (
                &OBJECT,
                vec!["a", "a.b-c", "0", &too_long, &longest],
                vec!["", "A", "-a", "a.", "a..b", "a_b", "ä", &beyond],
            ),
            (
                &LABEL,
                vec!["a", "9a", &long],
                vec!["", "a.b", "A", "a-", &too_long],
            ),
            (
                &API_VERSION,
                vec!["v1", "apps/v1", "machine.sapcloud.io/v1alpha1"],
                vec!["", "/v1", "apps/", "Apps/v1", "apps/v1/x", "1", "apps/1"],
            ),
            (
                &KIND,
                vec!["Deployment", "X1", "DRSet"],
                vec!["", "deployment", "Deploy-ment", "Ärger"],
            ),
            (
                &LABEL_KEY,
                vec!["role", "a.b/c_D.e", &long],
                vec!["", "/a", "a/", "A/b", "a b", "a/b/c", &too_long],
            ),
            (
                &LABEL_VALUE,
                vec!["", "x", "A_b.c-1", &long],
                vec!["-x", "x y", "x/", &too_long],
            ),
        ] {
            for text in good {
                assert!((rule.holds)(text), "{text:?} is {}", rule.expected);
            }
            for text in bad {
                assert!(!(rule.holds)(text), "{text:?} is not {}", rule.expected);
            }
        }
    }
}
