//! A sample as text, for people and for other programs.

use std::fmt::Write;

use crate::Sample;

/// A line of the text format.
pub fn exposition(sample: &Sample) -> String {
    let mut line = String::new();
    let (names, labels): (Vec<_>, Vec<_>) = sample
        .labels
        .iter()
        .partition(|(label, _)| label == "__name__");
    line.extend(names.iter().map(|(_, name)| name.as_str()));
    for (index, (name, value)) in labels.iter().enumerate() {
        line.push(if index == 0 { '{' } else { ',' });
        line.push_str(name);
        line.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\\' => line.push_str("\\\\"),
                '"' => line.push_str("\\\""),
                '\n' => line.push_str("\\n"),
                other => line.push(other),
            }
        }
        line.push('"');
    }
    if !labels.is_empty() {
        line.push('}');
    }
    let (value, time) = (sample.value, sample.timestamp_ms);
    // Writing to a String cannot fail.
    let _ = if value.is_infinite() {
        let sign = if value > 0.0 { '+' } else { '-' };
        writeln!(line, " {sign}Inf {time}")
    } else {
        writeln!(line, " {value} {time}")
    };
    line
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Pipeline, Rules, Seen};

    /// What is shown of `text`.
    fn shown(text: &str) -> String {
        let mut batches = Vec::new();
        let mut pipeline = Pipeline::new(Arc::new(Rules::new()), Arc::new(Seen::default()), 0);
        let mut out = |batch: crate::Batch| batches.push(batch);
        pipeline.feed(text.as_bytes(), &mut out).unwrap();
        pipeline.finish(&mut out).unwrap();
        let samples = batches.iter().flat_map(crate::Batch::samples);
        samples.map(|sample| exposition(&sample)).collect()
    }

    #[test]
    fn what_is_shown_is_read_again_as_the_same() {
        let text = "up 1 5\n\
            a{b=\"\\\\ \\\" \\n ä\",c=\"d\"} NaN 5\n\
            b +Inf 5\nc -Inf 5\nd 0.1 -7\ne 1e300 5\n";
        let once = shown(text);
        assert!(
            once.starts_with("up 1 5\na{b=\"\\\\ \\\" \\n ä\",c=\"d\"} NaN 5\n"),
            "{once}"
        );
        assert_eq!(shown(&once), once);
    }
}
