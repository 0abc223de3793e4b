//! The formats that Kubernetes defines for names, labels, API versions and kinds.

/// A format that a string must have.
pub(crate) struct NameFormat {
    /// The description of the format in messages.
    pub expected: &'static str,
    pub is_valid: fn(&str) -> bool,
    /// Returns the string that was probably meant by an invalid one. The result may be invalid too.
    pub suggest: fn(&str) -> String,
}

/// The name of most objects: an RFC 1123 subdomain.
pub(crate) const DNS_SUBDOMAIN: NameFormat = NameFormat {
    expected: "a Kubernetes name: at most 253 lower-case letters, digits, `-` and `.`, \
               with a letter or digit at both ends of each part",
    is_valid: is_dns_subdomain,
    suggest: str::to_lowercase,
};

/// The name of a namespace or Service: an RFC 1123 label.
pub(crate) const DNS_LABEL: NameFormat = NameFormat {
    expected: "a Kubernetes name: at most 63 lower-case letters, digits and `-`, \
               with a letter or digit at both ends",
    is_valid: is_dns_label,
    suggest: str::to_lowercase,
};

/// An `apiVersion` such as `v1` or `apps/v1`.
pub(crate) const API_VERSION: NameFormat = NameFormat {
    expected: "a version such as v1 or a group and version such as apps/v1",
    is_valid: is_api_version,
    suggest: suggest_api_version,
};

/// A kind such as `Deployment`.
pub(crate) const KIND: NameFormat = NameFormat {
    expected: "a kind such as Deployment: letters and digits, a capital first",
    is_valid: is_kind,
    suggest: str::to_lowercase,
};

/// The key of a label.
pub(crate) const LABEL_KEY: NameFormat = NameFormat {
    expected: "a label key: an optional DNS prefix and `/`, then at most 63 letters, digits, `-`, \
               `_` and `.`, with a letter or digit at both ends",
    is_valid: is_label_key,
    suggest: str::to_lowercase,
};

/// The value of a label.
pub(crate) const LABEL_VALUE: NameFormat = NameFormat {
    expected: "a label value: at most 63 letters, digits, `-`, `_` and `.`, \
               with a letter or digit at both ends",
    is_valid: is_label_value,
    suggest: str::to_lowercase,
};

/// The key of a value in a Secret.
pub(crate) const SECRET_KEY: NameFormat = NameFormat {
    expected: "a key of a Secret: at most 253 letters, digits, `-`, `_` and `.`",
    is_valid: is_secret_key,
    suggest: |text| text.replace(|c: char| !c.is_ascii_alphanumeric(), "-"),
};

fn is_secret_key(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.len() <= 253 && text.bytes().all(is_allowed)
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

fn is_dns_subdomain(text: &str) -> bool {
    // Kubernetes limits the length of the whole name, not of its parts.
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    let is_letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    has_ends(text, is_letter) && text.bytes().all(|b| is_letter(b) || b == b'-')
}

fn is_api_version(text: &str) -> bool {
    match text.split_once('/') {
        // Custom resources may use any label as a version.
        Some((group, version)) => {
            is_dns_subdomain(group)
                && is_dns_label(version)
                && version.starts_with(char::is_alphabetic)
        }
        // A group without a version would otherwise pass for a version of the core API.
        None => is_version(text),
    }
}

/// Matches versions such as `v1` and `v2beta1`.
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

/// Suggests `apps/v1` for `apps` and `apps.v1`, and `v1` for `1`.
fn suggest_api_version(text: &str) -> String {
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
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
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
    fn formats_match_kubernetes() {
        let (long, too_long) = ("a".repeat(63), "a".repeat(64));
        let (longest, beyond) = ("a".repeat(253), "a".repeat(254));
        for (format, good, bad) in [
            (
                &DNS_SUBDOMAIN,
                vec!["a", "a.b-c", "0", &too_long, &longest],
                vec!["", "A", "-a", "a.", "a..b", "a_b", "ä", &beyond],
            ),
            (
                &DNS_LABEL,
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
                assert!((format.is_valid)(text), "{text:?} is {}", format.expected);
            }
            for text in bad {
                assert!(
                    !(format.is_valid)(text),
                    "{text:?} is not {}",
                    format.expected
                );
            }
        }
    }

    #[test]
    fn invalid_api_versions_get_a_suggestion() {
        for (input, suggestion) in [
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
            assert_eq!(suggest_api_version(input), suggestion);
        }
    }
}
