//! `kelpie replay`.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use kelpie_config::{GoDuration, ProberConfig, Strictness, prober};
use kelpie_core::Time;
use kelpie_prober::{
    ChangedSetting, ClusterReport, OtherSettings, RecordReader, ReplayReport, WantedFence, replay,
};

use crate::cli::{Invocation, usage_error};
use crate::exit::ExitStatus;
use crate::output_format::OutputFormat;
use crate::printable::{printable, readable_instant};
use crate::summary::{KeyValueTable, pluralize};
use crate::{config_file, terminal};

/// Decide again on what a prober recorded, possibly with another configuration
///
/// A prober that runs with --record DIR writes down what it sees and decides. This command makes
/// the decisions again with the same code, offline:
///
///   kelpie replay DIR                        does the record lead to the decisions that it has?
///   kelpie replay DIR --config other.yaml    what would have been fenced, when, with which margin?
///   kelpie replay DIR --grace 60s            the same with another grace period in all clusters
///
/// The recorded fences and those with the other configuration are shown side by side, and what
/// differs is marked. The observations are those of the record: a prober with other settings
/// might have looked at other instants, some seconds earlier or later.
///
/// Exits with 0 if the recorded configuration leads to the recorded decisions, byte for byte, and
/// with 1 if it does not or if the record cannot be read. Fences that differ because of --config
/// or --grace are no failure.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Replay {
    /// Folder of the record, or one of its files
    #[arg(value_name = "RECORD", value_hint = ValueHint::AnyPath)]
    record: PathBuf,

    /// Configuration file of the prober to decide with, beside the recorded one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,

    /// Grace period of every cluster to decide with, whatever the clusters set themselves
    #[arg(long, value_name = "DURATION")]
    grace: Option<GoDuration>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
}

impl Replay {
    pub(crate) fn run(&self, invocation: Invocation) -> Result<ExitStatus> {
        let other = self.other(invocation)?;
        let report = replay(RecordReader::open(&self.record)?, other.as_ref())?;
        let text = match self.output {
            OutputFormat::Json => terminal::json(&report)?,
            OutputFormat::Text => describe(&report),
        };
        terminal::stdout(&text).context("cannot write the report")?;
        Ok(ExitStatus::success_if(report.different == 0))
    }

    /// Returns the settings beside those of the record, if there are any.
    fn other(&self, invocation: Invocation) -> Result<Option<OtherSettings>> {
        let config = match (&self.config, self.grace) {
            (Some(file), _) => config_file::prober(file, invocation)?,
            (None, Some(_)) => self.recorded_config()?,
            (None, None) => return Ok(None),
        };
        let grace = self.grace.map(|GoDuration(grace)| grace);
        if grace == Some(Duration::ZERO) {
            return Err(usage_error("--grace must be greater than 0"));
        }
        Ok(Some(OtherSettings { config, grace }))
    }

    fn recorded_config(&self) -> Result<ProberConfig> {
        let config = RecordReader::open(&self.record)?.config()?;
        let config = config.context("the record has no configuration")?;
        config_file::built_in(prober::parse(
            config.to_string().as_bytes(),
            Strictness::Lenient,
        ))
    }
}

fn describe(report: &ReplayReport) -> String {
    let mut table = KeyValueTable::default();
    let replicas = printable(&report.replicas.join(", "));
    let files = pluralize(report.files, "file", "files");
    table.row("record", format!("{files} of {replicas}"));
    if let (Some(from), Some(to)) = (report.from, report.to) {
        table.row("time", format!("{} to {}", instant(from), instant(to)));
    }
    let clusters = pluralize(report.clusters.len() as u64, "cluster", "clusters");
    let decisions = pluralize(report.decisions, "decision", "decisions");
    let same = match report.different {
        0 => "all as recorded, byte for byte".to_owned(),
        different => format!("{different} not as recorded; {}", why_different(report)),
    };
    table.row("decisions", format!("{decisions} in {clusters}, {same}"));
    let gaps = gaps(report);
    if !gaps.is_empty() {
        table.rows("not replayed", gaps);
    }
    let other = report
        .clusters
        .values()
        .any(|cluster| cluster.other.is_some());
    if other {
        let changes = report.changed_settings.iter().map(change);
        let changes: Vec<String> = changes.collect();
        let none = vec!["nothing: both configurations are the same".to_owned()];
        table.rows("changed", if changes.is_empty() { none } else { changes });
    }
    let mut text = table.text;
    fences(report, other, &mut text);
    text
}

/// Returns the likely cause of decisions that are not as recorded.
fn why_different(report: &ReplayReport) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if report.kelpie == version {
        return "the record was changed, or this is a bug in kelpie".to_owned();
    }
    let recorded = printable(&report.kelpie);
    format!("the record is by kelpie {recorded}, this is {version}")
}

/// Returns what the record lacks.
fn gaps(report: &ReplayReport) -> Vec<String> {
    let lines = |count| pluralize(count, "line", "lines");
    let mut gaps = Vec::new();
    if report.lost_lines > 0 {
        let lost = lines(report.lost_lines);
        gaps.push(format!("{lost} that the prober could not write"));
    }
    if report.skipped_lines > 0 {
        let skipped = lines(report.skipped_lines);
        gaps.push(format!("{skipped} whose earlier files are gone"));
    }
    if report.cut_off_files > 0 {
        let files = pluralize(report.cut_off_files, "file", "files");
        gaps.push(format!("the last, incomplete line of {files}"));
    }
    gaps
}

fn change(setting: &ChangedSetting) -> String {
    let value = |value: &serde_json::Value| {
        let text = match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Null => "not set".to_owned(),
            value => value.to_string(),
        };
        let text = printable(&text);
        if text.chars().count() > 40 {
            "...".to_owned()
        } else {
            text
        }
    };
    let (name, recorded) = (printable(&setting.name), value(&setting.recorded));
    format!("{name}: {recorded} -> {}", value(&setting.other))
}

/// Writes the fences of every cluster that has any.
fn fences(report: &ReplayReport, has_other: bool, text: &mut String) {
    const WIDTH: usize = 34;
    let bold = Style::new().bold();
    let mut is_first = true;
    for (name, cluster) in &report.clusters {
        let pairs = cluster.pairs();
        if pairs.is_empty() && cluster.different == 0 {
            continue;
        }
        if std::mem::take(&mut is_first) {
            let (recorded, other) = ("recorded", if has_other { "with the changes" } else { "" });
            let heading = format!("           {recorded:<WIDTH$}  {other}");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n{bold}{}{bold:#}", heading.trim_end());
        }
        let _ = writeln!(text, "{bold}{}{bold:#}", printable(name));
        for (recorded, other) in pairs {
            let is_same = !has_other || is_same(recorded, other);
            let color = if is_same {
                None
            } else {
                Some(AnsiColor::Yellow.into())
            };
            let style = Style::new().fg_color(color);
            let mark = if is_same { "" } else { "differs" };
            let other = if has_other {
                fence(other)
            } else {
                String::new()
            };
            let line = format!("  {mark:<7}  {:<WIDTH$}  {other}", fence(recorded));
            let _ = writeln!(text, "{style}{}{style:#}", line.trim_end());
        }
        first_different(cluster, text);
    }
    if is_first {
        let _ = writeln!(text, "\nno fence was wanted");
    }
}

fn first_different(cluster: &ClusterReport, text: &mut String) {
    if let Some(at) = cluster.first_different {
        let count = pluralize(cluster.different, "decision", "decisions");
        let _ = writeln!(text, "  {count} not as recorded, first {}", instant(at));
    }
}

/// Returns whether both were wanted at the same instant with the same margin, and end together.
fn is_same(recorded: Option<&WantedFence>, other: Option<&WantedFence>) -> bool {
    let key = |fence: &WantedFence| (fence.wanted_at, fence.released_at);
    recorded.map(key) == other.map(key)
}

fn fence(fence: Option<&WantedFence>) -> String {
    let Some(fence) = fence else {
        return "no fence".to_owned();
    };
    let margin = match fence.margin_seconds {
        Some(margin) if margin < 0.0 => format!(", {:.1} s late", -margin),
        Some(margin) => format!(", {margin:.1} s left"),
        None => String::new(),
    };
    format!("fence {}{margin}", instant(fence.wanted_at))
}

fn instant(at: Time) -> String {
    readable_instant(at)
}
