//! What Kubernetes allows as a name, a label, a version, a kind.

/// A rule for a text, and how a message words it.
pub(crate) struct Rule {
    pub expected: &'static str,
    pub holds: fn(&str) -> bool,
    /// What was probably meant by a text that does not keep the rule, if that keeps it.
    pub likely: fn(&str) -> String,
}

/// The name of most objects.
pub(crate) const OBJECT: Rule = Rule {
    expected: "a Kubernetes name: at most 253 lower-case letters, digits, `-` and `.`, \
               with a letter or digit at both ends of each part",
    holds: is_subdomain,
    likely: str::to_lowercase,
};

/// The name of a namespace or Service.
pub(crate) const LABEL: Rule = Rule {
    expected: "a Kubernetes name: at most 63 lower-case letters, digits and `-`, \
               with a letter or digit at both ends",
    holds: is_label,
    likely: str::to_lowercase,
};

/// `v1`, `apps/v1`.
pub(crate) const API_VERSION: Rule = Rule {
    expected: "a version such as v1 or a group and version such as apps/v1",
    holds: is_api_version,
    likely: likely_api_version,
};

/// `Deployment`.
pub(crate) const KIND: Rule = Rule {
    expected: "a kind such as Deployment: letters and digits, a capital first",
    holds: is_kind,
    likely: str::to_lowercase,
};

/// The key of a label.
pub(crate) const LABEL_KEY: Rule = Rule {
    expected: "a label key: an optional DNS prefix and `/`, then at most 63 letters, digits, `-`, \
               `_` and `.`, with a letter or digit at both ends",
    holds: is_label_key,
    likely: str::to_lowercase,
};

/// The value of a label.
pub(crate) const LABEL_VALUE: Rule = Rule {
    expected: "a label value: at most 63 letters, digits, `-`, `_` and `.`, \
               with a letter or digit at both ends",
    holds: is_label_value,
    likely: str::to_lowercase,
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
    match text.split_once('/') {
        // Custom resources may call their versions what they like.
        Some((group, version)) => {
            is_subdomain(group) && is_label(version) && version.starts_with(char::is_alphabetic)
        }
        // Alone, a group would pass for a version of the core API.
        None => is_version(text),
    }
}

/// `v1`, `v2beta1`.
fn is_version(text: &str) -> bool {
    let is_number = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
    };
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => is_number(rest),
    }
}

/// `apps` is `apps/v1`, `apps.v1` too, `1` is `v1`.
fn likely_api_version(text: &str) -> String {
    let lower = text.to_lowercase();
    if is_api_version(&lower) {
        return lower;
    }
    let number = format!("v{lower}");
    if is_version(&number) {
        return number;
    }
    let group = lower.trim_end_matches('/');
    match group.rsplit_once('.') {
        Some((group, version)) if is_version(version) => format!("{group}/{version}"),
        _ => format!("{group}/v1"),
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
                vec![
                    "v1",
                    "v2beta1",
                    "apps/v1",
                    "machine.sapcloud.io/v1alpha1",
                    "example.org/stable",
                ],
                vec![
                    "",
                    "/v1",
                    "apps/",
                    "Apps/v1",
                    "apps/v1/x",
                    "1",
                    "apps/1",
                    "apps",
                    "apps.v1",
                    "v",
                    "v0",
                    "v1beta",
                    "valpha1",
                    "v1x",
                ],
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

    #[test]
    fn a_version_that_was_probably_meant_is_found() {
        for (written, likely) in [
            ("apps", "apps/v1"),
            ("apps/", "apps/v1"),
            ("apps.v1", "apps/v1"),
            (
                "machine.sapcloud.io.v1alpha1",
                "machine.sapcloud.io/v1alpha1",
            ),
            ("Apps/V1", "apps/v1"),
            ("V1", "v1"),
            ("1", "v1"),
        ] {
            assert_eq!(likely_api_version(written), likely);
        }
    }
}
