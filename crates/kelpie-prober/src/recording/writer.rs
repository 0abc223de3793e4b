//! The thread that writes a record.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::Arc;

use kelpie_core::prober::{Decision, Rule, Verdict};
use prometheus_client::metrics::counter::Counter;
use tracing::{info, warn};

use super::lease_lines::LeaseEncoder;
use super::line::{Body, Line, RoundLine, decision_digest};
use super::queue::{Entry, Message, QueueReceiver};
use super::record_files::RecordFiles;

/// Lines are written together up to this size.
const BATCH_BYTES: usize = 256 << 10;

pub(super) struct Writer {
    files: RecordFiles,
    receiver: QueueReceiver,
    clusters: BTreeMap<Arc<str>, ClusterLines>,
    /// Lines that are not written yet.
    batch: Vec<u8>,
    batch_lines: u64,
    /// The number of lost lines that the record has said so far.
    lost: u64,
    lost_counter: Counter,
    /// The last attempt to write has failed.
    is_failing: bool,
}

/// The lines of one cluster since its last state.
#[derive(Default)]
struct ClusterLines {
    leases: LeaseEncoder,
    last: Option<(Verdict, mem::Discriminant<Rule>)>,
}

impl Writer {
    pub(super) fn new(files: RecordFiles, receiver: QueueReceiver, lost_counter: Counter) -> Self {
        Self {
            files,
            receiver,
            clusters: BTreeMap::new(),
            batch: Vec::new(),
            batch_lines: 0,
            lost: 0,
            lost_counter,
            is_failing: false,
        }
    }

    /// Writes until the prober stops.
    pub(super) fn run(mut self) {
        while let Some(first) = self.receiver.wait() {
            let mut next = Some(first);
            while let Some(message) = next {
                if matches!(message.entry, Entry::Stop) {
                    self.flush();
                    return;
                }
                self.add(message);
                if self.batch.len() >= BATCH_BYTES {
                    self.flush();
                }
                next = self.receiver.next_queued();
            }
            self.flush();
        }
    }

    fn add(&mut self, message: Message) {
        if !self.receiver.is_intact(&message) {
            self.receiver.lose(1);
            return;
        }
        self.add_lost();
        let cluster = message.cluster;
        let body = self.body(&cluster, message.entry);
        let line = body.map(|body| Line {
            cluster: Some(cluster.to_string()),
            body,
        });
        self.add_line(line);
    }

    /// Says how many lines were lost since this was said last.
    fn add_lost(&mut self) {
        let lost = self.receiver.lost();
        let lines = lost.saturating_sub(self.lost);
        if lines > 0 {
            self.lost = lost;
            self.lost_counter.inc_by(lines);
            let body = Body::Lost { lines };
            let cluster = None;
            self.add_line(Ok(Line { cluster, body }));
        }
    }

    fn add_line(&mut self, line: serde_json::Result<Line>) {
        let before = self.batch.len();
        let written = line.and_then(|line| serde_json::to_writer(&mut self.batch, &line));
        match written {
            Ok(()) => {
                self.batch.push(b'\n');
                self.batch_lines += 1;
            }
            // No type of a line can fail.
            Err(_) => self.batch.truncate(before),
        }
    }

    fn body(&mut self, cluster: &Arc<str>, entry: Entry) -> serde_json::Result<Body> {
        Ok(match entry {
            Entry::State { state, follows } => {
                self.clusters
                    .insert(Arc::clone(cluster), ClusterLines::default());
                Body::State { follows, state }
            }
            Entry::Grace(own) => Body::Grace { own },
            Entry::Machines(machines, current) => {
                let machines = machines.as_deref().cloned();
                Body::Machines { machines, current }
            }
            Entry::Leases(span, version, leases) => {
                let lines = self.clusters.entry(Arc::clone(cluster)).or_default();
                Body::Leases(lines.leases.encode(span, version, leases))
            }
            Entry::Nodes(nodes, read_at) => Body::Nodes { read_at, nodes },
            Entry::Round(round) => {
                let (round, decision) = *round;
                let lines = self.clusters.entry(Arc::clone(cluster)).or_default();
                let kind = kind(&decision);
                let is_same = lines.last.replace(kind) == Some(kind);
                Body::Round(Box::new(RoundLine {
                    round,
                    verdict: decision.verdict,
                    digest: decision_digest(&decision)?,
                    decision: (!is_same).then_some(decision),
                }))
            }
            Entry::Call(call) => Body::Call(call),
            Entry::Ended | Entry::Stop => {
                self.clusters.remove(cluster);
                Body::Ended {}
            }
        })
    }

    /// Writes the batch. If that fails, it goes on in a new file.
    fn flush(&mut self) {
        if self.is_failing {
            match self.files.next() {
                Ok(()) => {
                    self.is_failing = false;
                    info!("the record is written again");
                }
                Err(error) => return self.fail(&error),
            }
        }
        let batch = mem::take(&mut self.batch);
        if let Err(error) = self.files.write(&batch) {
            self.batch = batch;
            return self.fail(&error);
        }
        self.batch = batch;
        self.batch.clear();
        self.batch_lines = 0;
        if self.files.is_full() {
            match self.files.next() {
                Ok(()) => self.receiver.file_began(true),
                Err(error) => self.fail(&error),
            }
        }
    }

    /// Drops the batch, and what was queued for the broken file. Nothing else is affected.
    fn fail(&mut self, error: &io::Error) {
        if !mem::replace(&mut self.is_failing, true) {
            warn!("the record cannot be written; lines are lost until it can: {error}");
        }
        self.receiver.lose(self.batch_lines);
        self.batch.clear();
        self.batch_lines = 0;
        self.clusters.clear();
        self.receiver.file_began(false);
    }
}

fn kind(decision: &Decision) -> (Verdict, mem::Discriminant<Rule>) {
    (decision.verdict, mem::discriminant(&decision.reasons.rule))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use kelpie_core::Time;
    use kelpie_core::prober::{Evaluator, ProbeSettings};
    use tempfile::TempDir;

    use super::super::queue::{self, RecordQueue};
    use super::super::{RecordSettings, RecordedEvaluator};
    use super::*;

    fn writer(directory: &std::path::Path) -> (Writer, RecordQueue) {
        let settings = RecordSettings {
            directory: directory.to_owned(),
            // Every file is full at once.
            file_bytes: 1,
            files: 2,
            queue_bytes: usize::MAX,
        };
        let files = RecordFiles::create(&settings, b"header\n".to_vec()).unwrap();
        let (queue, receiver) = queue::bounded(settings.queue_bytes);
        (Writer::new(files, receiver, Counter::default()), queue)
    }

    fn write_queued(writer: &mut Writer) {
        while let Some(message) = writer.receiver.next_queued() {
            writer.add(message);
        }
        writer.flush();
    }

    fn evaluator(queue: &RecordQueue) -> RecordedEvaluator {
        let evaluator = Evaluator::new(ProbeSettings::default(), Time::from_micros(0));
        RecordedEvaluator::new(evaluator, Some(queue.cluster(&"a".into())))
    }

    /// Returns the text of all files of a folder.
    fn text(directory: &std::path::Path) -> String {
        let files = super::super::record_files::list(directory).unwrap();
        files
            .iter()
            .map(|file| fs::read_to_string(file).unwrap())
            .collect()
    }

    #[test]
    fn lines_are_lost_until_the_disk_works_again() {
        let folder = TempDir::new().unwrap();
        let directory = folder.path().join("recording");
        let (mut writer, queue) = writer(&directory);
        let mut evaluator = evaluator(&queue);
        let mut grace = (1..).map(Duration::from_secs);
        let mut input = || evaluator.set_grace(grace.next());
        input();
        write_queued(&mut writer);
        let first = text(&directory);
        assert!(first.contains("\"state\":{\"follows\":false"), "{first}");
        fs::remove_dir_all(&directory).unwrap();
        for _ in 0..3 {
            input();
            write_queued(&mut writer);
        }
        let lost = writer.receiver.lost();
        assert!(lost > 0);
        fs::create_dir_all(&directory).unwrap();
        input();
        write_queued(&mut writer);
        let second = text(&directory);
        assert!(second.contains("\"state\":{\"follows\":false"), "{second}");
        assert!(second.contains("{\"lost\":{\"lines\":"), "{second}");
        assert_eq!(writer.lost_counter.get(), lost);
    }

    #[test]
    fn oldest_files_are_deleted() {
        let folder = TempDir::new().unwrap();
        let (mut writer, queue) = writer(folder.path());
        let mut evaluator = evaluator(&queue);
        for seconds in 1..20 {
            evaluator.set_grace(Some(Duration::from_secs(seconds)));
            write_queued(&mut writer);
        }
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 2);
        let kept = text(folder.path());
        assert!(
            kept.contains("\"secs\":19") && !kept.contains("\"secs\":5,"),
            "{kept}"
        );
    }
}
