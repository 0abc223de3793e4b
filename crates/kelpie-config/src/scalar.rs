//! The typed value of a YAML scalar.

use crate::problem;

/// A scalar as written in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub text: String,
    /// True if the scalar has no quotes, so that `10` is a number and `true` a boolean.
    pub plain: bool,
}

/// The value of a scalar, by the rules of the Go decoders that Kubernetes tools use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ScalarValue<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    /// A number in a notation that decoders disagree on: `010`, `0x1f`, `1_000`.
    AmbiguousNumber,
    String(&'a str),
}

impl Scalar {
    pub(crate) fn value(&self) -> ScalarValue<'_> {
        if self.plain {
            self.unquoted_value()
        } else {
            ScalarValue::String(&self.text)
        }
    }

    /// Returns the value that the scalar would have without its quotes.
    pub(crate) fn unquoted_value(&self) -> ScalarValue<'_> {
        match self.text.as_str() {
            "" | "~" | "null" | "Null" | "NULL" => ScalarValue::Null,
            "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "y" | "Y" | "on" | "On" | "ON" => {
                ScalarValue::Bool(true)
            }
            "false" | "False" | "FALSE" | "no" | "No" | "NO" | "n" | "N" | "off" | "Off"
            | "OFF" => ScalarValue::Bool(false),
            ".nan" | ".NaN" | ".NAN" => ScalarValue::Float(f64::NAN),
            text => number(text).unwrap_or(ScalarValue::String(text)),
        }
    }

    /// Formats the scalar for a message: as written, and quoted if it would be unclear otherwise.
    pub(crate) fn display(&self) -> String {
        let is_clear = self.plain && self.text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_clear {
            problem::truncated(&self.text)
        } else {
            problem::quoted(&self.text)
        }
    }
}

fn number(text: &str) -> Option<ScalarValue<'static>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        let infinity = if text.starts_with('-') {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
        return Some(ScalarValue::Float(infinity));
    }
    let first = unsigned.bytes().next()?;
    if !(first.is_ascii_digit() || first == b'.') {
        return None;
    }
    if is_ambiguous(unsigned) {
        return Some(ScalarValue::AmbiguousNumber);
    }
    if let Ok(integer) = text.parse() {
        return Some(ScalarValue::Integer(integer));
    }
    // Rust also reads `inf` and `nan`; those do not start with a digit or a dot.
    text.parse().ok().map(ScalarValue::Float)
}

fn is_ambiguous(unsigned: &str) -> bool {
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
    fn plain_scalars_are_typed_as_in_go() {
        for (text, value) in [
            ("", ScalarValue::Null),
            ("~", ScalarValue::Null),
            ("NULL", ScalarValue::Null),
            ("true", ScalarValue::Bool(true)),
            ("on", ScalarValue::Bool(true)),
            ("y", ScalarValue::Bool(true)),
            ("No", ScalarValue::Bool(false)),
            ("OFF", ScalarValue::Bool(false)),
            ("0", ScalarValue::Integer(0)),
            ("-7", ScalarValue::Integer(-7)),
            ("+7", ScalarValue::Integer(7)),
            ("0.6", ScalarValue::Float(0.6)),
            (".5", ScalarValue::Float(0.5)),
            ("1.", ScalarValue::Float(1.0)),
            ("6e-1", ScalarValue::Float(0.6)),
            ("99999999999999999999", ScalarValue::Float(1e20)),
            (".inf", ScalarValue::Float(f64::INFINITY)),
            ("-.INF", ScalarValue::Float(f64::NEG_INFINITY)),
            ("010", ScalarValue::AmbiguousNumber),
            ("1_000", ScalarValue::AmbiguousNumber),
            ("1_000.5", ScalarValue::AmbiguousNumber),
            ("0x1F", ScalarValue::AmbiguousNumber),
            ("0o17", ScalarValue::AmbiguousNumber),
            ("0b11", ScalarValue::AmbiguousNumber),
            ("0x", ScalarValue::String("0x")),
            ("10s", ScalarValue::String("10s")),
            ("inf", ScalarValue::String("inf")),
            ("nan", ScalarValue::String("nan")),
            ("-", ScalarValue::String("-")),
            (".", ScalarValue::String(".")),
            ("1.2.3", ScalarValue::String("1.2.3")),
            ("apps/v1", ScalarValue::String("apps/v1")),
        ] {
            let scalar = Scalar {
                text: text.to_owned(),
                plain: true,
            };
            assert_eq!(scalar.value(), value, "{text}");
        }
        let nan = Scalar {
            text: ".nan".to_owned(),
            plain: true,
        };
        assert!(matches!(nan.value(), ScalarValue::Float(number) if number.is_nan()));
    }

    #[test]
    fn quoted_scalars_are_strings() {
        for text in ["", "true", "10", "null"] {
            let scalar = Scalar {
                text: text.to_owned(),
                plain: false,
            };
            assert_eq!(scalar.value(), ScalarValue::String(text));
        }
    }
}
