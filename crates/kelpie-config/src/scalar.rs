//! What a YAML scalar means.

use crate::problem;

/// A scalar as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub text: String,
    /// Without quotes, so that `10` is a number and `true` a truth value.
    pub plain: bool,
}

/// What a scalar means, by the rules of the Go decoders that Kubernetes tools use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Meaning<'a> {
    Nothing,
    Truth(bool),
    Integer(i64),
    Number(f64),
    /// A number in a notation whose value depends on the decoder: `010`, `0x1f`, `1_000`.
    OddNumber,
    Text(&'a str),
}

impl Scalar {
    pub(crate) fn meaning(&self) -> Meaning<'_> {
        if self.plain {
            self.meaning_without_quotes()
        } else {
            Meaning::Text(&self.text)
        }
    }

    /// What it would mean if it stood there without quotes.
    pub(crate) fn meaning_without_quotes(&self) -> Meaning<'_> {
        match self.text.as_str() {
            "" | "~" | "null" | "Null" | "NULL" => Meaning::Nothing,
            "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "y" | "Y" | "on" | "On" | "ON" => {
                Meaning::Truth(true)
            }
            "false" | "False" | "FALSE" | "no" | "No" | "NO" | "n" | "N" | "off" | "Off"
            | "OFF" => Meaning::Truth(false),
            ".nan" | ".NaN" | ".NAN" => Meaning::Number(f64::NAN),
            text => number(text).unwrap_or(Meaning::Text(text)),
        }
    }

    /// How messages show it: as written, with quotes where it would be unclear without.
    pub(crate) fn shown(&self) -> String {
        let clear = self.plain && self.text.bytes().all(|byte| byte.is_ascii_graphic());
        if clear {
            problem::shortened(&self.text)
        } else {
            problem::quoted(&self.text)
        }
    }
}

fn number(text: &str) -> Option<Meaning<'static>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        let infinity = if text.starts_with('-') {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
        return Some(Meaning::Number(infinity));
    }
    let first = unsigned.bytes().next()?;
    if !(first.is_ascii_digit() || first == b'.') {
        return None;
    }
    if is_odd(unsigned) {
        return Some(Meaning::OddNumber);
    }
    if let Ok(integer) = text.parse() {
        return Some(Meaning::Integer(integer));
    }
    // Rust also reads `inf` and `nan`; those do not start with a digit or a dot.
    text.parse().ok().map(Meaning::Number)
}

fn is_odd(unsigned: &str) -> bool {
    let all = |digits: &str, allowed: fn(char) -> bool| {
        !digits.is_empty() && digits.chars().all(|c| c == '_' || allowed(c))
    };
    let prefixed = |prefixes: [&str; 2], allowed: fn(char) -> bool| {
        prefixes
            .into_iter()
            .any(|p| unsigned.strip_prefix(p).is_some_and(|d| all(d, allowed)))
    };
    let leading_zero = unsigned.len() > 1 && unsigned.starts_with('0');
    let grouped = unsigned.contains('_');
    prefixed(["0x", "0X"], |c| c.is_ascii_hexdigit())
        || prefixed(["0o", "0b"], |c| c.is_ascii_digit())
        || ((leading_zero || grouped) && all(unsigned, |c| c.is_ascii_digit()))
        || (grouped
            && all(unsigned, |c| {
                c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E')
            }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_mean_what_go_decoders_say() {
        for (text, meaning) in [
            ("", Meaning::Nothing),
            ("~", Meaning::Nothing),
            ("NULL", Meaning::Nothing),
            ("true", Meaning::Truth(true)),
            ("on", Meaning::Truth(true)),
            ("y", Meaning::Truth(true)),
            ("No", Meaning::Truth(false)),
            ("OFF", Meaning::Truth(false)),
            ("0", Meaning::Integer(0)),
            ("-7", Meaning::Integer(-7)),
            ("+7", Meaning::Integer(7)),
            ("0.6", Meaning::Number(0.6)),
            (".5", Meaning::Number(0.5)),
            ("1.", Meaning::Number(1.0)),
            ("6e-1", Meaning::Number(0.6)),
            ("99999999999999999999", Meaning::Number(1e20)),
            (".inf", Meaning::Number(f64::INFINITY)),
            ("-.INF", Meaning::Number(f64::NEG_INFINITY)),
            ("010", Meaning::OddNumber),
            ("1_000", Meaning::OddNumber),
            ("1_000.5", Meaning::OddNumber),
            ("0x1F", Meaning::OddNumber),
            ("0o17", Meaning::OddNumber),
            ("0b11", Meaning::OddNumber),
            ("0x", Meaning::Text("0x")),
            ("10s", Meaning::Text("10s")),
            ("inf", Meaning::Text("inf")),
            ("nan", Meaning::Text("nan")),
            ("-", Meaning::Text("-")),
            (".", Meaning::Text(".")),
            ("1.2.3", Meaning::Text("1.2.3")),
            ("apps/v1", Meaning::Text("apps/v1")),
        ] {
            let scalar = Scalar {
                text: text.to_owned(),
                plain: true,
            };
            assert_eq!(scalar.meaning(), meaning, "{text}");
        }
        let nan = Scalar {
            text: ".nan".to_owned(),
            plain: true,
        };
        assert!(matches!(nan.meaning(), Meaning::Number(number) if number.is_nan()));
    }

    #[test]
    fn quotes_make_everything_text() {
        for text in ["", "true", "10", "null"] {
            let scalar = Scalar {
                text: text.to_owned(),
                plain: false,
            };
            assert_eq!(scalar.meaning(), Meaning::Text(text));
        }
    }
}
