//! The history of a cluster: a bounded ring of what happened to it.

use serde::{Deserialize, Serialize};

use crate::{Time, truncated};

/// The most transitions that are kept.
const MAX_ENTRIES: usize = 200;
/// The most bytes that they take.
const MAX_BYTES: usize = 6 * 1024;
/// Transitions that a tenant can cause at will take at most this many bytes.
const MAX_TENANT_BYTES: usize = MAX_BYTES / 2;
/// The ring grows by this many bytes, so that a cluster to which little happened takes little.
const GROWTH: usize = 512;
/// The longest text of one transition, in characters.
const MAX_TEXT: usize = 120;
/// Bytes before the text: the instant, the last instant, the count, the kind, the text's length.
const HEADER: usize = 8 + 8 + 2 + 1 + 2;

/// An event in the life of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// The instant at which it happened first.
    pub at: Time,
    /// The kind of the transition.
    pub kind: TransitionKind,
    /// The transition in one sentence without a full stop.
    pub text: String,
    /// The number of times that it happened in a row.
    pub count: u16,
    /// The instant at which it happened last.
    pub last_at: Time,
}

/// The kind of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TransitionKind {
    /// The verdict became Fence.
    Trip,
    /// The verdict became Hold, or a rule took over that changes nothing.
    Hold,
    /// A call was sent to the seed.
    Call,
    /// A target was fenced.
    Fence,
    /// A call failed, or a fence came too late.
    Failure,
    /// Another client has undone a fence.
    Undo,
    /// The verdict became Release while a fence stood.
    Release,
    /// A target was restored.
    Restore,
    /// A subsystem of the probe has a problem.
    Trouble,
    /// A subsystem works again.
    Recovery,
    /// This replica began or ceased to act.
    Role,
}

impl TransitionKind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Trip,
        Self::Hold,
        Self::Call,
        Self::Fence,
        Self::Failure,
        Self::Undo,
        Self::Release,
        Self::Restore,
        Self::Trouble,
        Self::Recovery,
        Self::Role,
    ];

    /// Returns whether a tenant can cause such transitions at will.
    const fn is_tenants(self) -> bool {
        matches!(self, Self::Trouble | Self::Recovery | Self::Hold)
    }

    /// Returns the kind as it appears in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trip => "trip",
            Self::Hold => "hold",
            Self::Call => "call",
            Self::Fence => "fence",
            Self::Failure => "failure",
            Self::Undo => "undo",
            Self::Release => "release",
            Self::Restore => "restore",
            Self::Trouble => "trouble",
            Self::Recovery => "recovery",
            Self::Role => "role",
        }
    }
}

/// A ring of transitions in one allocation, which is made when the first one happens.
///
/// The oldest transitions go first. Those that a tenant can cause at will displace each other
/// before they displace a fence.
#[derive(Clone, Debug, Default)]
pub struct History {
    bytes: Vec<u8>,
    entries: usize,
    tenant_bytes: usize,
}

/// An entry of the ring: where it is, and its fields.
struct Entry {
    start: usize,
    end: usize,
    kind: TransitionKind,
}

impl History {
    /// Adds a transition. One that repeats the last is counted.
    pub fn push(&mut self, at: Time, kind: TransitionKind, text: &str) {
        let text = truncated(text, MAX_TEXT);
        if let Some(last) = self.last()
            && last.kind == kind
            && self.bytes[last.start + HEADER..last.end] == *text.as_bytes()
        {
            let header = &mut self.bytes[last.start..last.end];
            let count = u16::from_le_bytes([header[16], header[17]]).saturating_add(1);
            header[8..16].copy_from_slice(&at.as_micros().to_le_bytes());
            header[16..18].copy_from_slice(&count.to_le_bytes());
            return;
        }
        let length = HEADER + text.len();
        self.make_room(kind, length);
        if self.bytes.capacity() < self.bytes.len() + length {
            let wanted = (self.bytes.len() + length).next_multiple_of(GROWTH);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        let micros = at.as_micros().to_le_bytes();
        self.bytes.extend_from_slice(&micros);
        self.bytes.extend_from_slice(&micros);
        self.bytes.extend_from_slice(&1_u16.to_le_bytes());
        self.bytes.push(kind as u8);
        // A text of 120 characters has at most 480 bytes.
        let text_length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&text_length.to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.entries += 1;
        if kind.is_tenants() {
            self.tenant_bytes += length;
        }
    }

    fn make_room(&mut self, kind: TransitionKind, length: usize) {
        while kind.is_tenants() && self.tenant_bytes + length > MAX_TENANT_BYTES {
            self.remove_first(TransitionKind::is_tenants);
        }
        while self.entries >= MAX_ENTRIES || self.bytes.len() + length > MAX_BYTES {
            self.remove_first(|_| true);
        }
    }

    fn remove_first(&mut self, matches: impl Fn(TransitionKind) -> bool) {
        let first = self.iter_entries().find(|entry| matches(entry.kind));
        let Some(Entry { start, end, kind }) = first else {
            // It cannot happen: the sizes say that there is one.
            *self = Self::default();
            return;
        };
        self.bytes.drain(start..end);
        self.entries -= 1;
        if kind.is_tenants() {
            self.tenant_bytes -= end - start;
        }
    }

    fn iter_entries(&self) -> impl Iterator<Item = Entry> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let header = self.bytes.get(start..start + HEADER)?;
            let kind = *TransitionKind::ALL.get(usize::from(header[18]))?;
            let length = usize::from(u16::from_le_bytes([header[19], header[20]]));
            let entry = Entry {
                start,
                end: start + HEADER + length,
                kind,
            };
            start = entry.end;
            Some(entry)
        })
    }

    fn last(&self) -> Option<Entry> {
        self.iter_entries().last()
    }

    /// Returns the transitions, the oldest first.
    pub fn transitions(&self) -> Vec<Transition> {
        let decode = |entry: Entry| {
            let bytes = self.bytes.get(entry.start..entry.end)?;
            let instant = |from: usize| {
                let micros = bytes.get(from..from + 8)?.try_into().ok()?;
                Some(Time::from_micros(i64::from_le_bytes(micros)))
            };
            Some(Transition {
                at: instant(0)?,
                last_at: instant(8)?,
                count: u16::from_le_bytes([bytes[16], bytes[17]]),
                kind: entry.kind,
                text: String::from_utf8_lossy(&bytes[HEADER..]).into_owned(),
            })
        };
        self.iter_entries().filter_map(decode).collect()
    }

    /// Returns whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Time {
        Time::from_micros(second * 1_000_000)
    }

    #[test]
    fn empty_history_allocates_nothing() {
        let history = History::default();
        assert_eq!((history.heap_bytes(), history.is_empty()), (0, true));
    }

    #[test]
    fn repeated_transitions_are_counted() {
        let mut history = History::default();
        for second in [1, 2, 5] {
            history.push(at(second), TransitionKind::Trouble, "no route");
        }
        history.push(at(6), TransitionKind::Recovery, "no route");
        let found = history.transitions();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].at, found[0].last_at, found[0].count),
            (at(1), at(5), 3)
        );
    }

    #[test]
    fn flapping_tenant_does_not_displace_a_fence() {
        let mut history = History::default();
        history.push(at(0), TransitionKind::Fence, "scaled down to 0");
        for second in 1..10_000 {
            history.push(
                at(second),
                TransitionKind::Trouble,
                &format!("error {second}"),
            );
        }
        let found = history.transitions();
        assert_eq!(found[0].text, "scaled down to 0");
        assert_eq!(found.last().unwrap().text, "error 9999");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn history_is_bounded_and_keeps_the_newest(
            pushed in prop::collection::vec((0_usize..11, ".{0,150}"), 1..200),
        ) {
            let mut history = History::default();
            for (second, (kind, text)) in (0_i64..).zip(&pushed) {
                history.push(at(second), TransitionKind::ALL[*kind], text);
                prop_assert!(history.heap_bytes() <= MAX_BYTES);
                prop_assert!(history.entries <= MAX_ENTRIES);
            }
            let found = history.transitions();
            prop_assert_eq!(found.len(), history.entries);
            let (kind, text) = pushed.last().unwrap();
            let last = found.last().unwrap();
            prop_assert_eq!(last.kind, TransitionKind::ALL[*kind]);
            prop_assert_eq!(&last.text, &truncated(text, MAX_TEXT));
            let tenants = found.iter().filter(|it| it.kind.is_tenants());
            let bytes: usize = tenants.map(|it| HEADER + it.text.len()).sum();
            prop_assert_eq!(bytes, history.tenant_bytes);
        }
    }
}
