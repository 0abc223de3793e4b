//! The results of a check, as a table of rows.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::exit::ExitStatus;
use crate::printable::printable;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CheckStatus {
    Ok,
    /// The component works, but the operator should know about this.
    Warn,
    /// The component does not work, or not for this cluster.
    Fail,
}

/// The result of one check. The JSON keys are part of the output format and keep their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CheckRow {
    #[serde(rename = "grade")]
    status: CheckStatus,
    /// The thing that was checked, such as `permission` or the name of a cluster.
    #[serde(rename = "about")]
    pub(crate) subject: String,
    #[serde(rename = "found")]
    finding: String,
    /// The next step for the operator. Rows with a warning or a failure have one.
    remedy: Option<String>,
}

impl CheckRow {
    pub(crate) fn ok(subject: &str, finding: impl Into<String>) -> Self {
        Self {
            status: CheckStatus::Ok,
            subject: subject.to_owned(),
            finding: finding.into(),
            remedy: None,
        }
    }

    pub(crate) fn warn(
        subject: &str,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: CheckStatus::Warn,
            remedy: Some(remedy.into()),
            ..Self::ok(subject, finding)
        }
    }

    pub(crate) fn fail(
        subject: &str,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: CheckStatus::Fail,
            ..Self::warn(subject, finding, remedy)
        }
    }

    /// Turns a failure into a warning, for things that the component can do without.
    pub(crate) fn at_most_warn(mut self) -> Self {
        if self.status == CheckStatus::Fail {
            self.status = CheckStatus::Warn;
        }
        self
    }
}

/// All results of a check, in the order in which they are printed.
#[derive(Debug, Default)]
pub(crate) struct CheckTable {
    rows: Vec<CheckRow>,
}

impl CheckTable {
    pub(crate) fn add(&mut self, row: CheckRow) {
        self.rows.push(row);
    }

    /// Returns a failure if any row failed. Warnings do not count.
    pub(crate) fn exit_status(&self) -> ExitStatus {
        if self.count(CheckStatus::Fail) == 0 {
            ExitStatus::Success
        } else {
            ExitStatus::Failure
        }
    }

    fn count(&self, status: CheckStatus) -> usize {
        self.rows.iter().filter(|row| row.status == status).count()
    }

    /// Formats the rows for a terminal, with a summary in the last line.
    pub(crate) fn text(&self) -> String {
        let subject_width = |row: &CheckRow| row.subject.chars().count();
        let width = self.rows.iter().map(subject_width).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            let (label, color) = match row.status {
                CheckStatus::Ok => ("ok", AnsiColor::Green),
                CheckStatus::Warn => ("warn", AnsiColor::Yellow),
                CheckStatus::Fail => ("FAIL", AnsiColor::Red),
            };
            let style = Style::new().bold().fg_color(Some(color.into()));
            let (subject, finding) = (&row.subject, printable(&row.finding));
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{style}{label:<4}{style:#}  {subject:<width$}  {finding}"
            );
            if let Some(remedy) = &row.remedy {
                let _ = writeln!(text, "      {:<width$}  -> {}", "", printable(remedy));
            }
        }
        let (ok, warnings) = (self.count(CheckStatus::Ok), self.count(CheckStatus::Warn));
        let plural = if warnings == 1 { "" } else { "s" };
        let failed = self.count(CheckStatus::Fail);
        let _ = writeln!(
            text,
            "\n{ok} ok, {warnings} warning{plural}, {failed} failed"
        );
        text
    }

    /// Formats the rows as one JSON object, for scripts.
    pub(crate) fn json(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct CheckOutput<'a> {
            ok: bool,
            rows: &'a [CheckRow],
        }
        let output = CheckOutput {
            ok: self.count(CheckStatus::Fail) == 0,
            rows: &self.rows,
        };
        Ok(serde_json::to_string_pretty(&output)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> CheckTable {
        let mut table = CheckTable::default();
        table.add(CheckRow::ok("seed", "v1.36.4"));
        table.add(CheckRow::warn("shoot--a", "1 node", "nothing"));
        table.add(CheckRow::fail("shoot--b", "gone\u{1b}[2J", "find it"));
        table
    }

    #[test]
    fn text_is_aligned_and_has_remedies() {
        let text = anstream::adapter::strip_str(&table().text()).to_string();
        assert_eq!(
            text,
            "ok    seed      v1.36.4\n\
             warn  shoot--a  1 node\n                -> nothing\n\
             FAIL  shoot--b  gone [2J\n                -> find it\n\
             \n1 ok, 1 warning, 1 failed\n"
        );
        assert_eq!(table().exit_status(), ExitStatus::Failure);
        assert_eq!(CheckTable::default().exit_status(), ExitStatus::Success);
    }

    #[test]
    fn failures_of_optional_things_are_warnings() {
        let failure = CheckRow::fail("a", "gone", "find it");
        assert_eq!(
            failure.at_most_warn(),
            CheckRow::warn("a", "gone", "find it")
        );
        assert_eq!(
            CheckRow::ok("a", "here").at_most_warn(),
            CheckRow::ok("a", "here")
        );
    }

    #[test]
    fn json_has_the_same_rows() {
        let json: serde_json::Value = serde_json::from_str(&table().json().unwrap()).unwrap();
        assert_eq!(json["ok"], false);
        assert_eq!(json["rows"][2]["grade"], "fail");
        assert_eq!(json["rows"][2]["remedy"], "find it");
        assert!(json["rows"][0]["remedy"].is_null());
    }
}
