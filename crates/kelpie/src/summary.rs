//! Summarizes configurations as text.

mod prober;
mod weeder;

use std::fmt::{Display, Write};

use anstyle::Style;

pub(crate) use prober::prober;
pub(crate) use weeder::weeder;

/// A table of labels and values. A label can have several lines.
#[derive(Default)]
pub(crate) struct KeyValueTable {
    pub(crate) text: String,
}

impl KeyValueTable {
    pub(crate) fn row(&mut self, label: &str, value: impl Display) {
        self.rows(label, [value]);
    }

    pub(crate) fn rows(&mut self, label: &str, values: impl IntoIterator<Item = impl Display>) {
        const WIDTH: usize = 14;
        let bold = Style::new().bold();
        for (index, value) in values.into_iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "  {bold}{label:<WIDTH$}{bold:#} {value}");
        }
    }
}

/// Formats a number with its noun: `1 failure`, `3 failures`.
pub(crate) fn pluralize<N>(number: N, one: &str, many: &str) -> String
where
    N: Copy + Display + From<u8> + PartialEq,
{
    let noun = if number == N::from(1) { one } else { many };
    format!("{number} {noun}")
}
