//! The handful of series that matter, picked from a metrics page while it streams by.

/// What the member's metrics page said. A series that is not there is `None`: older versions lack
/// some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// A defragmentation is running: `etcd_disk_defrag_inflight`.
    pub defrag_inflight: Option<bool>,
    /// Defragmentations that ended: `etcd_disk_backend_defrag_duration_seconds_count`.
    pub defrags: Option<u64>,
    /// `etcd_server_has_leader`.
    pub has_leader: Option<bool>,
    /// Snapshots being received or applied.
    pub snapshots: u64,
    /// `etcd_server_version`, without the patch: `(3, 5)`.
    pub version: Option<Version>,
}

/// Major and minor version of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl Version {
    /// From `3.5.35` or `3.8.0-alpha.0`; none if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut number = || parts.next()?.parse().ok();
        Some(Self(number()?, number()?))
    }

    /// From 3.5 on, a linearizable member list is a read index and nothing else.
    pub(crate) fn has_linearizable_member_list(self) -> bool {
        self >= Self(3, 5)
    }
}

/// Longest line that is looked at; what is longer is a series of somebody else.
const LONGEST_LINE: usize = 512;

/// Reads a page chunk by chunk. It keeps at most one line.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    sample: Sample,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// The line is too long; its rest is skipped.
    skipping: bool,
    /// The page has a series of etcd, so it is etcd's.
    etcd: bool,
}

impl Reader {
    pub(crate) fn chunk(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = bytes.split_at(end);
            if self.line.is_empty() && !self.skipping {
                self.take(head);
            } else {
                self.keep(head);
                self.end_line();
            }
            bytes = &tail[1..];
        }
        self.keep(bytes);
    }

    /// The page has ended. None if it is not a page of etcd.
    pub(crate) fn finish(mut self) -> Option<Sample> {
        self.end_line();
        self.etcd.then_some(self.sample)
    }

    fn keep(&mut self, part: &[u8]) {
        self.skipping |= self.line.len() + part.len() > LONGEST_LINE;
        if self.skipping {
            self.line.clear();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !std::mem::take(&mut self.skipping) {
            self.take(&line);
        }
        self.line = line;
        self.line.clear();
    }

    fn take(&mut self, line: &[u8]) {
        // Most of a page is histograms of other names: look at the letters first.
        if !line.starts_with(b"etcd_") || line.len() > LONGEST_LINE {
            return;
        }
        self.etcd = true;
        let Ok(line) = std::str::from_utf8(line) else {
            return;
        };
        let Some((series, value)) = line.trim_end().rsplit_once(' ') else {
            return;
        };
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels),
            None => (series, ""),
        };
        let Ok(value) = value.parse::<f64>() else {
            return;
        };
        self.set(name, labels, value);
    }

    fn set(&mut self, name: &str, labels: &str, value: f64) {
        let sample = &mut self.sample;
        match name {
            "etcd_disk_defrag_inflight" => sample.defrag_inflight = Some(value > 0.0),
            "etcd_disk_backend_defrag_duration_seconds_count" => {
                sample.defrags = Some(count(value));
            }
            "etcd_server_has_leader" => sample.has_leader = Some(value > 0.0),
            "etcd_network_snapshot_receive_inflights_total"
            | "etcd_server_snapshot_apply_in_progress_total" => {
                sample.snapshots = sample.snapshots.saturating_add(count(value));
            }
            "etcd_server_version" => {
                let quoted = labels.split_once("server_version=\"");
                let text = quoted.and_then(|(_, rest)| rest.split('"').next());
                sample.version = text.and_then(Version::parse).or(sample.version);
            }
            _ => {}
        }
    }
}

/// Counts are small; what is not a count is none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn count(value: f64) -> u64 {
    // The cast saturates, and makes 0 of NaN.
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
etcd_disk_backend_defrag_duration_seconds_bucket{le=\"0.1\"} 0\n\
etcd_disk_backend_defrag_duration_seconds_count 3\n\
etcd_network_snapshot_receive_inflights_total{From=\"a\"} 1\n\
etcd_network_snapshot_receive_inflights_total{From=\"b\"} 0\n\
etcd_server_has_leader 0\n\
etcd_server_snapshot_apply_in_progress_total 1\n\
etcd_server_version{server_version=\"3.4.23\"} 1\n\
go_goroutines 87\n";

    fn read(chunks: &[&[u8]]) -> Option<Sample> {
        let mut reader = Reader::default();
        for chunk in chunks {
            reader.chunk(chunk);
        }
        reader.finish()
    }

    fn expected() -> Sample {
        Sample {
            defrag_inflight: Some(true),
            defrags: Some(3),
            has_leader: Some(false),
            snapshots: 2,
            version: Some(Version(3, 4)),
        }
    }

    #[test]
    fn a_page_is_read_whole() {
        assert_eq!(read(&[PAGE.as_bytes()]), Some(expected()));
    }

    #[test]
    fn the_last_line_needs_no_end() {
        let page = b"etcd_server_has_leader 1";
        assert_eq!(read(&[page]).unwrap().has_leader, Some(true));
    }

    #[test]
    fn a_page_of_somebody_else_is_none() {
        assert_eq!(read(&[b"<html>not found</html>\n"]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut reader = Reader::default();
        for _ in 0..10_000 {
            reader.chunk(&[b'e'; 1_000]);
            assert!(reader.line.len() <= LONGEST_LINE);
        }
        reader.chunk(b"\netcd_server_has_leader 1\n");
        assert_eq!(reader.finish().unwrap().has_leader, Some(true));
    }

    #[test]
    fn versions_are_compared_by_number() {
        for (text, expected) in [
            ("3.4.23", Some(Version(3, 4))),
            ("3.10.0", Some(Version(3, 10))),
            ("3.8.0-alpha.0", Some(Version(3, 8))),
            ("4", None),
            ("", None),
            ("v3.5.0", None),
        ] {
            assert_eq!(Version::parse(text), expected, "{text}");
        }
        let has = |text| Version::parse(text).unwrap().has_linearizable_member_list();
        assert!(!has("3.4.43") && has("3.5.0") && has("3.10.1") && has("4.0.0"));
    }

    proptest! {
        #[test]
        fn chunks_may_end_anywhere(cuts in prop::collection::vec(0..PAGE.len(), 0..20)) {
            let mut cuts = cuts;
            cuts.extend([0, PAGE.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|cut| &PAGE.as_bytes()[cut[0]..cut[1]]);
            prop_assert_eq!(read(&chunks.collect::<Vec<_>>()), Some(expected()));
        }

        #[test]
        fn no_bytes_hurt(chunks in prop::collection::vec(
            prop::collection::vec(any::<u8>(), 0..200), 0..20,
        )) {
            let chunks = chunks.iter().map(Vec::as_slice).collect::<Vec<_>>();
            read(&chunks);
        }
    }
}
