//! The queue between the probes and the thread that writes the record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::{Call, Reply, Step};
use kelpie_core::prober::replay::{EvaluatorState, RecordedRound};
use kelpie_core::prober::{Decision, ListSpan, Machines, NodeSet, Target};
use kelpie_kube::lists::LeaseList;

use super::line::CallLine;

/// The memory that an entry takes beside what it points to.
const ENTRY_BYTES: usize = 1 << 10;
/// The memory that a lease or a node of a state or a list takes, roughly.
const NODE_BYTES: usize = 256;

/// An entry about a cluster that is to be written.
#[derive(Debug)]
pub(super) enum Entry {
    State {
        state: Box<EvaluatorState>,
        /// No input was lost since the last entry of the cluster.
        follows: bool,
    },
    Grace(Option<Duration>),
    Machines(Option<Arc<Machines>>, bool),
    Leases(ListSpan, Option<u64>, LeaseList),
    Nodes(NodeSet, Time),
    Round(Box<(RecordedRound, Decision)>),
    Call(CallLine),
    Ended,
    /// The prober shuts down: nothing follows.
    Stop,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) cluster: Arc<str>,
    /// The file in which the state is from which this entry goes on.
    pub(super) generation: u64,
    pub(super) entry: Entry,
    bytes: usize,
}

/// The state that the probes and the writer share.
#[derive(Debug, Default)]
struct Shared {
    queued: AtomicUsize,
    lost: AtomicU64,
    /// Counts the files. In each, the state of a cluster precedes its next input.
    generation: AtomicU64,
    /// The first file after the last failure to write. What was queued for earlier files does not
    /// go on from anything in this one.
    intact_from: AtomicU64,
}

/// The writing end of the queue. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct RecordQueue {
    sender: Sender<Message>,
    shared: Arc<Shared>,
    limit: usize,
}

/// The reading end of the queue.
#[derive(Debug)]
pub(super) struct QueueReceiver {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
}

/// Creates a queue of this size in bytes.
pub(super) fn bounded(limit: usize) -> (RecordQueue, QueueReceiver) {
    let (sender, receiver) = channel();
    let shared = Arc::new(Shared::default());
    let queue = RecordQueue {
        sender,
        shared: Arc::clone(&shared),
        limit,
    };
    (queue, QueueReceiver { receiver, shared })
}

impl RecordQueue {
    /// Returns the recorder of one cluster.
    pub(crate) fn cluster(&self, cluster: &Arc<str>) -> ClusterRecorder {
        ClusterRecorder {
            queue: self.clone(),
            cluster: Arc::clone(cluster),
            generation: None,
        }
    }

    /// Returns the recorder of one cluster's calls.
    pub(crate) fn calls(&self, cluster: &Arc<str>) -> CallRecorder {
        CallRecorder {
            queue: self.clone(),
            cluster: Arc::clone(cluster),
        }
    }

    /// Ends the record after what was queued.
    pub(crate) fn stop(&self) {
        let message = Message {
            cluster: "".into(),
            generation: u64::MAX,
            entry: Entry::Stop,
            bytes: 0,
        };
        // An error means that the writer has ended.
        let _ = self.sender.send(message);
    }

    /// Queues an entry. Returns false if the queue is full, or the writer has ended. Never waits.
    fn send(&self, cluster: &Arc<str>, generation: u64, entry: Entry) -> bool {
        let bytes = entry.bytes();
        let before = self.shared.queued.fetch_add(bytes, Ordering::Relaxed);
        let message = Message {
            cluster: Arc::clone(cluster),
            generation,
            entry,
            bytes,
        };
        if before.saturating_add(bytes) <= self.limit && self.sender.send(message).is_ok() {
            return true;
        }
        self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
        self.shared.lost.fetch_add(1, Ordering::Relaxed);
        false
    }
}

impl QueueReceiver {
    /// Waits for the next message; `None` if there will be none.
    pub(super) fn wait(&self) -> Option<Message> {
        self.receiver.recv().ok().map(|message| self.taken(message))
    }

    /// Returns a message that is already queued.
    pub(super) fn next_queued(&self) -> Option<Message> {
        let message = self.receiver.try_recv().ok()?;
        Some(self.taken(message))
    }

    fn taken(&self, message: Message) -> Message {
        let bytes = message.bytes;
        self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
        message
    }

    /// Makes the probes put the states of their clusters into the file that was just begun.
    pub(super) fn file_began(&self, is_intact: bool) {
        let generation = self.shared.generation.fetch_add(1, Ordering::AcqRel) + 1;
        if !is_intact {
            self.shared.intact_from.store(generation, Ordering::Release);
        }
    }

    /// Returns whether what a message goes on from is in the record.
    pub(super) fn is_intact(&self, message: &Message) -> bool {
        message.generation >= self.shared.intact_from.load(Ordering::Acquire)
    }

    /// Counts lines that could not be written.
    pub(super) fn lose(&self, lines: u64) {
        self.shared.lost.fetch_add(lines, Ordering::Relaxed);
    }

    /// Returns the number of lines that were lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

/// Records the inputs of one cluster's evaluator.
#[derive(Debug)]
pub(crate) struct ClusterRecorder {
    queue: RecordQueue,
    cluster: Arc<str>,
    /// The file with the state from which the next input goes on; `None` if there is none, because
    /// an input was lost.
    generation: Option<u64>,
}

impl ClusterRecorder {
    /// Records the state before the next input, if the record needs it.
    pub(super) fn before_input(&mut self, state: impl FnOnce() -> EvaluatorState) {
        let shared = &self.queue.shared;
        let generation = shared.generation.load(Ordering::Acquire);
        if self.generation == Some(generation) {
            return;
        }
        let intact_from = shared.intact_from.load(Ordering::Acquire);
        let follows = self.generation.is_some_and(|own| own >= intact_from);
        let state = Box::new(state());
        let entry = Entry::State { state, follows };
        let is_queued = self.queue.send(&self.cluster, generation, entry);
        self.generation = is_queued.then_some(generation);
    }

    pub(super) fn input(&mut self, entry: Entry) {
        let Some(generation) = self.generation else {
            self.queue.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if !self.queue.send(&self.cluster, generation, entry) {
            self.generation = None;
        }
    }
}

impl Drop for ClusterRecorder {
    fn drop(&mut self) {
        self.input(Entry::Ended);
    }
}

/// Records the calls of one cluster's fences.
#[derive(Debug)]
pub(crate) struct CallRecorder {
    queue: RecordQueue,
    cluster: Arc<str>,
}

impl CallRecorder {
    /// Records a call and its result. What the API server said is left out: it may say anything.
    pub(crate) fn answered(&self, step: &Step, target: &Target, reply: &Reply, at: Time) {
        let call = match step.call {
            Call::Read => "read",
            Call::WriteRecord(_) => "writeRecord",
            Call::Fence(_) => "fence",
            Call::Restore(_) => "restore",
            Call::DropMarker(_) => "dropMarker",
            Call::KeepRecord(_) => "keepRecord",
            Call::MoveRecord(_) => "moveRecord",
            Call::DropRecord(_) => "dropRecord",
        };
        let result = match reply {
            Reply::Read(_) => "read",
            Reply::Written(_) | Reply::LeaseWritten => "written",
            Reply::Conflict => "conflict",
            Reply::Rejected => "rejected",
            Reply::WebhookFailed => "webhookFailed",
            Reply::Unanswered => "unanswered",
            Reply::Failed => "failed",
        };
        let line = CallLine {
            at,
            target: target.resource.to_string(),
            call: call.to_owned(),
            result: result.to_owned(),
        };
        let generation = self.queue.shared.generation.load(Ordering::Acquire);
        self.queue
            .send(&self.cluster, generation, Entry::Call(line));
    }
}

impl Entry {
    /// Returns the memory that the entry takes, roughly.
    fn bytes(&self) -> usize {
        let nodes = match self {
            Self::State { state, .. } => {
                let tracker = state.evaluator.leases();
                tracker.len() + tracker.nodes().map_or(0, NodeSet::len)
            }
            Self::Leases(_, _, leases) => leases.len(),
            Self::Nodes(nodes, _) => nodes.len(),
            _ => 0,
        };
        ENTRY_BYTES + nodes * NODE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use kelpie_core::prober::{Evaluator, ProbeSettings};

    use super::*;

    fn state() -> EvaluatorState {
        EvaluatorState {
            evaluator: Evaluator::new(ProbeSettings::default(), Time::from_micros(0)),
            listed: None,
        }
    }

    fn input(recorder: &mut ClusterRecorder) {
        recorder.before_input(state);
        recorder.input(Entry::Grace(None));
    }

    /// Takes everything out of the queue. Returns one character for each entry.
    fn drained(receiver: &QueueReceiver) -> String {
        let next = || receiver.next_queued();
        let entries = std::iter::from_fn(next).map(|message| match message.entry {
            Entry::State { follows: true, .. } => 'S',
            Entry::State { follows: false, .. } => 's',
            Entry::Grace(_) => '.',
            _ => '?',
        });
        entries.collect()
    }

    #[test]
    fn full_queue_loses_inputs_and_goes_on_with_a_state() {
        let (queue, receiver) = bounded(3 * ENTRY_BYTES);
        let mut recorder = queue.cluster(&"a".into());
        for _ in 0..5 {
            input(&mut recorder);
        }
        assert_eq!(drained(&receiver), "s..");
        // The third input found no room, and those after it neither for their state.
        assert_eq!(receiver.lost(), 5);
        input(&mut recorder);
        input(&mut recorder);
        assert_eq!(drained(&receiver), "s..");
        assert_eq!(receiver.lost(), 5);
    }

    #[test]
    fn new_file_begins_with_a_state() {
        let (queue, receiver) = bounded(usize::MAX);
        let mut recorder = queue.cluster(&"a".into());
        input(&mut recorder);
        receiver.file_began(true);
        input(&mut recorder);
        receiver.file_began(false);
        input(&mut recorder);
        assert_eq!(drained(&receiver), "s.S.s.");
    }

    #[test]
    fn entries_of_a_broken_file_are_not_intact() {
        let (queue, receiver) = bounded(usize::MAX);
        let mut recorder = queue.cluster(&"a".into());
        input(&mut recorder);
        receiver.file_began(false);
        input(&mut recorder);
        let intact = std::iter::from_fn(|| receiver.next_queued())
            .map(|message| receiver.is_intact(&message));
        assert_eq!(intact.collect::<Vec<_>>(), [false, false, true, true]);
    }
}
