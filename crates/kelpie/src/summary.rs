//! A configuration in plain words.

mod prober;
mod weeder;

use std::fmt::{Display, Write};

use anstyle::Style;

pub(crate) use prober::prober;
pub(crate) use weeder::weeder;

/// Rows of a label and what it stands for; more than one line per label is fine.
#[derive(Default)]
pub(crate) struct Sheet {
    pub(crate) text: String,
}

impl Sheet {
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

/// `1 failure`, `3 failures`.
pub(crate) fn counted(number: u32, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
