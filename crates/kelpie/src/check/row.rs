//! What a check found, row by row.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::exit::Outcome;
use crate::printable::printable;

/// How well something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Grade {
    /// As it should be.
    Ok,
    /// It works, and somebody should know.
    Warn,
    /// It does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    grade: Grade,
    /// What was looked at.
    about: String,
    /// What was found.
    found: String,
    /// What to do about it.
    remedy: Option<String>,
}

impl Row {
    pub(super) fn ok(about: &str, found: impl Into<String>) -> Self {
        Self::new(Grade::Ok, about, found.into(), None)
    }

    pub(super) fn warn(about: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Grade::Warn, about, found.into(), Some(remedy.into()))
    }

    pub(super) fn fail(about: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Grade::Fail, about, found.into(), Some(remedy.into()))
    }

    fn new(grade: Grade, about: &str, found: String, remedy: Option<String>) -> Self {
        let about = about.to_owned();
        Self {
            grade,
            about,
            found,
            remedy,
        }
    }

    pub(super) fn about(&self) -> &str {
        &self.about
    }
}

/// Everything that was found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(super) fn outcome(&self) -> Outcome {
        if self.count(Grade::Fail) == 0 {
            Outcome::Success
        } else {
            Outcome::Failure
        }
    }

    fn count(&self, grade: Grade) -> usize {
        self.rows.iter().filter(|row| row.grade == grade).count()
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let wide = |row: &Row| row.about.chars().count();
        let width = self.rows.iter().map(wide).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            let (word, color) = match row.grade {
                Grade::Ok => ("ok", AnsiColor::Green),
                Grade::Warn => ("warn", AnsiColor::Yellow),
                Grade::Fail => ("FAIL", AnsiColor::Red),
            };
            let style = Style::new().bold().fg_color(Some(color.into()));
            let (about, found) = (&row.about, printable(&row.found));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{style}{word:<4}{style:#}  {about:<width$}  {found}");
            if let Some(remedy) = &row.remedy {
                let _ = writeln!(text, "      {:<width$}  -> {}", "", printable(remedy));
            }
        }
        let (warnings, failures) = (self.count(Grade::Warn), self.count(Grade::Fail));
        let _ = writeln!(
            text,
            "\n{} ok, {warnings} to know about, {failures} failed",
            self.count(Grade::Ok)
        );
        text
    }

    /// For scripts.
    pub(super) fn json(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Answer<'a> {
            ok: bool,
            rows: &'a [Row],
        }
        let answer = Answer {
            ok: self.count(Grade::Fail) == 0,
            rows: &self.rows,
        };
        Ok(serde_json::to_string_pretty(&answer)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        table.add(Row::ok("seed", "v1.36.4"));
        table.add(Row::warn("shoot--a", "1 node", "nothing"));
        table.add(Row::fail("shoot--b", "gone\u{1b}[2J", "find it"));
        table
    }

    #[test]
    fn rows_line_up_and_every_failure_has_its_remedy() {
        let text = anstream::adapter::strip_str(&table().text()).to_string();
        assert_eq!(
            text,
            "ok    seed      v1.36.4\n\
             warn  shoot--a  1 node\n                -> nothing\n\
             FAIL  shoot--b  gone [2J\n                -> find it\n\
             \n1 ok, 1 to know about, 1 failed\n"
        );
        assert_eq!(table().outcome(), Outcome::Failure);
        assert_eq!(Table::default().outcome(), Outcome::Success);
    }

    #[test]
    fn scripts_get_the_same_rows() {
        let json: serde_json::Value = serde_json::from_str(&table().json().unwrap()).unwrap();
        assert_eq!(json["ok"], false);
        assert_eq!(json["rows"][2]["grade"], "fail");
        assert_eq!(json["rows"][2]["remedy"], "find it");
        assert!(json["rows"][0]["remedy"].is_null());
    }
}
