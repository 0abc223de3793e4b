//! Parses the few series that matter from etcd's metrics page while it is received.

use std::time::Duration;

/// The series read from a member's metrics page.
///
/// A missing series is `None`. Older versions lack some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdMetrics {
    /// `etcd_disk_defrag_inflight`: true while a defragmentation is running.
    pub defrag_inflight: Option<bool>,
    /// `etcd_disk_backend_defrag_duration_seconds_count`: the defragmentations that have ended.
    pub defrags: Option<u64>,
    /// `etcd_server_has_leader`: true if the member knows a leader.
    pub has_leader: Option<bool>,
    /// The number of snapshots that are being received or applied.
    pub snapshots: u64,
    /// `etcd_disk_wal_fsync_duration_seconds`.
    pub wal_fsync: Option<DurationTotal>,
    /// `etcd_disk_backend_commit_duration_seconds`.
    pub backend_commit: Option<DurationTotal>,
    /// `etcd_server_proposals_committed_total`: the last log entry that is committed.
    pub committed: Option<u64>,
    /// `etcd_server_proposals_applied_total`: the last log entry that is applied.
    pub applied: Option<u64>,
    /// `etcd_server_version`, without the patch version.
    pub version: Option<EtcdVersion>,
}

impl EtcdMetrics {
    /// Returns the number of log entries that are committed and not applied.
    pub(crate) fn apply_backlog(&self) -> Option<u64> {
        Some(self.committed?.saturating_sub(self.applied?))
    }
}

/// The sum and the count of a histogram of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names explain the fields")]
pub struct DurationTotal {
    pub count: u64,
    pub sum: Duration,
}

/// The major and minor version of an etcd server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EtcdVersion(pub u32, pub u32);

impl EtcdVersion {
    /// Parses a version such as `3.5.35` or `3.8.0-alpha.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut number = || parts.next()?.parse().ok();
        Some(Self(number()?, number()?))
    }

    /// Returns true from 3.5 on, where a linearizable member list only waits for a read index.
    pub(crate) fn has_linearizable_member_list(self) -> bool {
        self >= Self(3, 5)
    }
}

/// Maximum length of a line. No series that is read here has a longer one.
const MAX_LINE: usize = 512;

/// Parses a page chunk by chunk. It buffers at most one line.
#[derive(Debug, Default)]
pub(crate) struct MetricsParser {
    metrics: EtcdMetrics,
    /// The beginning of a line whose end has not been received yet.
    line: Vec<u8>,
    /// The current line is too long and is skipped.
    skipping: bool,
    /// The page has a series of etcd, so it comes from etcd.
    is_etcd: bool,
}

impl MetricsParser {
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = bytes.split_at(end);
            if self.line.is_empty() && !self.skipping {
                self.parse_line(head);
            } else {
                self.buffer(head);
                self.end_line();
            }
            bytes = &tail[1..];
        }
        self.buffer(bytes);
    }

    /// Ends the page. Returns `None` if the page does not come from etcd.
    pub(crate) fn finish(mut self) -> Option<EtcdMetrics> {
        self.end_line();
        self.is_etcd.then_some(self.metrics)
    }

    fn buffer(&mut self, part: &[u8]) {
        self.skipping |= self.line.len() + part.len() > MAX_LINE;
        if self.skipping {
            self.line.clear();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !std::mem::take(&mut self.skipping) {
            self.parse_line(&line);
        }
        self.line = line;
        self.line.clear();
    }

    fn parse_line(&mut self, line: &[u8]) {
        // Most lines have other names, so the cheap comparison comes first.
        if !line.starts_with(b"etcd_") || line.len() > MAX_LINE {
            return;
        }
        self.is_etcd = true;
        if let Some((name, labels, value)) = split_series(line) {
            self.set(name, labels, value);
        }
    }

    fn set(&mut self, name: &str, labels: &str, value: f64) {
        let metrics = &mut self.metrics;
        match name {
            "etcd_disk_defrag_inflight" => metrics.defrag_inflight = Some(value > 0.0),
            "etcd_disk_backend_defrag_duration_seconds_count" => {
                metrics.defrags = Some(count(value));
            }
            "etcd_server_has_leader" => metrics.has_leader = Some(value > 0.0),
            "etcd_network_snapshot_receive_inflights_total"
            | "etcd_server_snapshot_apply_in_progress_total" => {
                metrics.snapshots = metrics.snapshots.saturating_add(count(value));
            }
            "etcd_disk_wal_fsync_duration_seconds_sum" => {
                metrics.wal_fsync.get_or_insert_default().sum = seconds(value);
            }
            "etcd_disk_wal_fsync_duration_seconds_count" => {
                metrics.wal_fsync.get_or_insert_default().count = count(value);
            }
            "etcd_disk_backend_commit_duration_seconds_sum" => {
                metrics.backend_commit.get_or_insert_default().sum = seconds(value);
            }
            "etcd_disk_backend_commit_duration_seconds_count" => {
                metrics.backend_commit.get_or_insert_default().count = count(value);
            }
            "etcd_server_proposals_committed_total" => metrics.committed = Some(count(value)),
            "etcd_server_proposals_applied_total" => metrics.applied = Some(count(value)),
            "etcd_server_version" => {
                let quoted = labels.split_once("server_version=\"");
                let text = quoted.and_then(|(_, rest)| rest.split('"').next());
                metrics.version = text.and_then(EtcdVersion::parse).or(metrics.version);
            }
            _ => {}
        }
    }
}

/// Splits a line into the name of its series, its labels and its value.
fn split_series(line: &[u8]) -> Option<(&str, &str, f64)> {
    let line = std::str::from_utf8(line).ok()?;
    let (series, value) = line.trim_end().rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some((name, labels, value.parse().ok()?))
}

/// Converts a value in seconds. Anything that is not a duration becomes 0.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

/// Converts a value to a count. Counts are small, and anything else becomes 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn count(value: f64) -> u64 {
    // The cast saturates, and turns NaN into 0.
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = "\
# HELP etcd_disk_defrag_inflight Whether or not defrag is active on the member.\n\
# TYPE etcd_disk_defrag_inflight gauge\n\
etcd_disk_defrag_inflight 1\n\
etcd_disk_backend_commit_duration_seconds_sum 0.5\n\
etcd_disk_backend_commit_duration_seconds_count 4\n\
etcd_disk_backend_defrag_duration_seconds_bucket{le=\"0.1\"} 0\n\
etcd_disk_backend_defrag_duration_seconds_count 3\n\
etcd_disk_wal_fsync_duration_seconds_sum 1.25\n\
etcd_disk_wal_fsync_duration_seconds_count 50\n\
etcd_network_snapshot_receive_inflights_total{From=\"a\"} 1\n\
etcd_network_snapshot_receive_inflights_total{From=\"b\"} 0\n\
etcd_server_has_leader 0\n\
etcd_server_proposals_applied_total 5\n\
etcd_server_proposals_committed_total 7\n\
etcd_server_snapshot_apply_in_progress_total 1\n\
etcd_server_version{server_version=\"3.4.23\"} 1\n\
go_goroutines 87\n";

    fn parse(chunks: &[&[u8]]) -> Option<EtcdMetrics> {
        let mut parser = MetricsParser::default();
        for chunk in chunks {
            parser.push(chunk);
        }
        parser.finish()
    }

    fn expected() -> EtcdMetrics {
        EtcdMetrics {
            defrag_inflight: Some(true),
            defrags: Some(3),
            has_leader: Some(false),
            snapshots: 2,
            wal_fsync: Some(DurationTotal {
                count: 50,
                sum: Duration::from_millis(1_250),
            }),
            backend_commit: Some(DurationTotal {
                count: 4,
                sum: Duration::from_millis(500),
            }),
            committed: Some(7),
            applied: Some(5),
            version: Some(EtcdVersion(3, 4)),
        }
    }

    #[test]
    fn whole_page_is_parsed() {
        assert_eq!(parse(&[PAGE.as_bytes()]), Some(expected()));
    }

    #[test]
    fn last_line_needs_no_newline() {
        let page = b"etcd_server_has_leader 1";
        assert_eq!(parse(&[page]).unwrap().has_leader, Some(true));
    }

    #[test]
    fn other_pages_are_none() {
        assert_eq!(parse(&[b"<html>not found</html>\n"]), None);
        assert_eq!(parse(&[]), None);
    }

    #[test]
    fn endless_line_is_not_buffered() {
        let mut parser = MetricsParser::default();
        for _ in 0..10_000 {
            parser.push(&[b'e'; 1_000]);
            assert!(parser.line.len() <= MAX_LINE);
        }
        parser.push(b"\netcd_server_has_leader 1\n");
        assert_eq!(parser.finish().unwrap().has_leader, Some(true));
    }

    #[test]
    fn versions_are_compared_by_number() {
        for (text, expected) in [
            ("3.4.23", Some(EtcdVersion(3, 4))),
            ("3.10.0", Some(EtcdVersion(3, 10))),
            ("3.8.0-alpha.0", Some(EtcdVersion(3, 8))),
            ("4", None),
            ("", None),
            ("v3.5.0", None),
        ] {
            assert_eq!(EtcdVersion::parse(text), expected, "{text}");
        }
        let has = |text| {
            EtcdVersion::parse(text)
                .unwrap()
                .has_linearizable_member_list()
        };
        assert!(!has("3.4.43") && has("3.5.0") && has("3.10.1") && has("4.0.0"));
    }

    proptest! {
        #[test]
        fn chunks_may_end_anywhere(cuts in prop::collection::vec(0..PAGE.len(), 0..20)) {
            let mut cuts = cuts;
            cuts.extend([0, PAGE.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|cut| &PAGE.as_bytes()[cut[0]..cut[1]]);
            prop_assert_eq!(parse(&chunks.collect::<Vec<_>>()), Some(expected()));
        }

        #[test]
        fn any_bytes_parse(chunks in prop::collection::vec(
            prop::collection::vec(any::<u8>(), 0..200), 0..20,
        )) {
            let chunks = chunks.iter().map(Vec::as_slice).collect::<Vec<_>>();
            parse(&chunks);
        }
    }
}
