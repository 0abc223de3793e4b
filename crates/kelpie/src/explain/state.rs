//! A prober's answer, as far as it is told. It came over the network: nothing in it is trusted.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::printable::printable;

/// All of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    pub(super) at: When,
    pub(super) leads: bool,
    pub(super) dry_run: bool,
    pub(super) clusters: BTreeMap<String, Shown>,
}

/// One cluster.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    pub(super) words: Option<Words>,
    pub(super) decision: Option<Decision>,
    pub(super) fence: Option<Fence>,
    pub(super) fenced_since: Option<When>,
    pub(super) targets: Vec<Target>,
    pub(super) last_flow: Option<LastFlow>,
    pub(super) troubles: Vec<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Words {
    pub(super) rule: Text,
    pub(super) excluded: Vec<Text>,
    pub(super) next_look: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Decision {
    pub(super) verdict: Verdict,
    pub(super) reasons: Reasons,
    pub(super) next_wake: Wake,
    pub(super) deadline: Option<When>,
    pub(super) rush_at: Option<When>,
    pub(super) at: When,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verdict {
    Fence,
    Hold,
    Release,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reasons {
    pub(super) leases: Option<Census>,
    pub(super) api_server: Row,
    pub(super) external: Option<Row>,
    pub(super) lease_probe: Row,
    pub(super) failure_fraction: f64,
    pub(super) recovery_fraction: f64,
}

/// Equal results in a row.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) success_count: u32,
    pub(super) error_count: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Census {
    pub(super) candidates: u32,
    pub(super) expired: u32,
    pub(super) silent: u32,
    pub(super) unproven: u32,
    pub(super) not_renewed: Option<u32>,
}

#[derive(Deserialize)]
pub(super) struct Wake {
    pub(super) at: When,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Fence {
    Unknown,
    None,
    Partial,
    Full,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    pub(super) resource: Resource,
    pub(super) sight: Option<Sight>,
}

#[derive(Deserialize)]
pub(super) struct Resource {
    kind: Text,
    name: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Sight {
    Missing,
    #[serde(rename_all = "camelCase")]
    Present {
        replicas: u32,
        ready: u32,
        marked: bool,
        recorded: Recorded,
        ignored: bool,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Recorded {
    Absent,
    Count(u32),
    Corrupt,
}

#[derive(Deserialize)]
pub(super) struct LastFlow {
    pub(super) at: When,
    pub(super) report: Report,
}

#[derive(Deserialize)]
pub(super) struct Report {
    pub(super) direction: Direction,
    pub(super) outcomes: Vec<Option<Outcome>>,
    pub(super) attempts: u32,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Direction {
    Down,
    Up,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    #[serde(rename_all = "camelCase")]
    Scaled {
        replicas: u32,
        at: When,
        unready: bool,
        corrupt_record: bool,
    },
    AlreadyThere,
    Missing,
    Ignored,
    NotOurs,
    Failed,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// An instant, or none on the calendar.
#[derive(Clone, Copy)]
pub(super) struct When(pub(super) Option<Timestamp>);

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(text.parse().ok()))
    }
}

/// Text that is safe to show on a terminal.
pub(super) struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(printable(&text)))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
