//! Parses just enough of `PromQL` to find the metrics in an expression.

/// Keywords that are followed by a list of labels in parentheses.
const GROUPING: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];

/// Returns the metrics in an expression, with their suffixes.
pub(crate) fn metrics(expression: &str) -> Vec<String> {
    let plain = without_braces(expression);
    let mut rest = plain.as_str();
    let mut found = Vec::new();
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
    {
        // Letters after a number belong to it, as in 1e3 or 5m.
        let is_number = rest[..start].ends_with(|letter: char| letter.is_ascii_digit());
        rest = &rest[start..];
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        let next = after.trim_start();
        if GROUPING.contains(&word) && next.starts_with('(') {
            rest = next.split_once(')').unwrap().1;
        } else if is_aggregated(next) {
            // `sum by (x) (…)`: the word is a function.
        } else if !next.starts_with('(') && !OPERATORS.contains(&word) && !is_number {
            found.push(word.to_owned());
        }
    }
    found
}

fn is_aggregated(next: &str) -> bool {
    let word = next.split([' ', '(']).next();
    matches!(word, Some("by" | "without"))
}

/// Removes label matchers and ranges: everything in braces, brackets and quotes.
fn without_braces(expression: &str) -> String {
    let mut plain = String::new();
    let (mut depth, mut is_quoted) = (0, false);
    for letter in expression.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '{' | '[' if !is_quoted => depth += 1,
            '}' | ']' if !is_quoted => {
                depth -= 1;
                plain.push(' ');
            }
            _ if is_quoted || depth > 0 => {}
            _ => plain.push(letter),
        }
    }
    plain
}

#[test]
fn metrics_are_found_in_expressions() {
    for (expression, expected) in [
        ("a > 0", &["a"][..]),
        (
            "sum by (le, x) (rate(a_bucket{le=\"b{\"}[5m])) / on(y) b",
            &["a_bucket", "b"],
        ),
        ("time() - max(a) without (c) and b offset 5m", &["a", "b"]),
        ("topk(10, 60 * a{x=~\"$cluster\"} > 0) or vector(0)", &["a"]),
        (
            "histogram_quantile(0.99, sum by (le) (increase(a_bucket[24h])))",
            &["a_bucket"],
        ),
        ("absent(a)", &["a"]),
        ("1e3 * a", &["a"]),
    ] {
        assert_eq!(metrics(expression), expected, "{expression}");
    }
}
