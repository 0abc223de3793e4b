//! Reading a scenario's file.

use std::time::Duration;

use super::{CONTROLLERS, Clusters, Fault, Incident, Nodes, Scenario, Site};
use crate::key::{Table, key};
use crate::reader::Section;
use crate::value::{MOST, Span, Value};

const ROOT: Table = Table {
    place: "at the top level",
    expected: "a map with at least length and incidents",
    keys: &[key("name"), key("summary"), key("length"), key("incidents")],
    retired: &[],
};

const INCIDENT: Table = Table {
    place: "in an entry of `incidents`",
    expected: "a map with at least at and fault",
    keys: &[
        key("at"),
        key("lasts"),
        key("clusters"),
        key("only"),
        key("fault"),
        key("nodes"),
        key("zone"),
        key("site"),
        key("by"),
        key("ahead"),
        key("behind"),
        key("status"),
        key("share"),
        key("controller"),
        key("replicas"),
    ],
    retired: &[],
};

pub(crate) const TABLES: &[&Table] = &[&ROOT, &INCIDENT];

/// Nobody watches for longer.
const LONGEST: Duration = Duration::from_hours(7 * 24);

/// Nobody simulates more of anything.
const MOST_CLUSTERS: u32 = 100_000;

/// The kinds of faults, and the keys that each takes beside those of all.
const KINDS: [(&str, &[&str]); 15] = [
    ("partition", &["nodes", "zone"]),
    ("outage", &["site"]),
    ("latency", &["site", "by"]),
    ("stall", &["site"]),
    ("refusal", &["site", "status", "share"]),
    ("watch-drop", &[]),
    ("stale-reads", &["site"]),
    ("node-clock", &["nodes", "zone", "ahead", "behind"]),
    ("watchdog-clock", &["ahead", "behind"]),
    ("rotation", &[]),
    ("slow-pods", &["by"]),
    ("scale", &["controller", "replicas"]),
    ("etcd-outage", &[]),
    ("crash", &[]),
    ("pause", &[]),
];

pub(super) fn scenario(root: &Section<'_>) -> Scenario {
    const EXPECTED: &str = "a list of at least one incident";
    let text = |name| {
        let text = root.get(name).and_then(|value| value.text("text"));
        text.unwrap_or_default().to_owned()
    };
    let length = root.require("length", "how long the scenario goes on, such as 25m");
    let length = length.and_then(|value| {
        let length = value.duration(Span::AboveZero)?;
        if length > LONGEST {
            value.refuse("at most a week, 168h");
            return None;
        }
        Some(length)
    });
    let incidents = root.require("incidents", EXPECTED);
    let incidents = incidents.and_then(|value| value.some_items(EXPECTED));
    let read = |value| incident(value, length);
    Scenario {
        name: text("name"),
        summary: text("summary"),
        length: length.unwrap_or_default(),
        incidents: incidents.into_iter().flatten().filter_map(read).collect(),
    }
}

/// An incident of a scenario of this length.
fn incident(value: Value<'_>, length: Option<Duration>) -> Option<Incident> {
    let section = value.section(&INCIDENT)?;
    let at = section.require("at", "when it begins, such as 1m30s")?;
    let begins = at.duration(Span::ZeroOrMore)?;
    if length.is_some_and(|length| begins >= length) {
        at.refuse("a time before the end of the scenario");
        return None;
    }
    let lasts = section.get("lasts");
    let lasts = lasts.and_then(|value| value.duration(Span::AboveZero));
    let fault = fault(&section)?;
    Some(Incident::new(begins, lasts, fault).of(clusters(&section)?))
}

fn clusters(section: &Section<'_>) -> Option<Clusters> {
    let Some(only) = section.get("only") else {
        return Some(match section.get("clusters") {
            None => Clusters::All,
            Some(value) => Clusters::Share(share(&value)?),
        });
    };
    if let Some(value) = section.get("clusters") {
        value.refuse("either a share of the clusters, or `only` some");
        return None;
    }
    let items = only.some_items("a list of numbers of clusters, from 0")?;
    let number = |value: &Value<'_>| value.whole(0..=MOST_CLUSTERS);
    let numbers = items.iter().filter_map(number).map(|n| n as usize);
    Some(Clusters::Numbers(numbers.collect()))
}

/// A share above 0, at most 1.
fn share(value: &Value<'_>) -> Option<f64> {
    value.number("a share above 0 and at most 1, such as 0.5", |share| {
        (share > 0.0 && share <= 1.0).then_some(share)
    })
}

fn fault(section: &Section<'_>) -> Option<Fault> {
    let words = KINDS.map(|(word, keys)| (word, (word, keys)));
    let value = section.require("fault", "what goes wrong, such as partition")?;
    let (kind, keys) = value.choice(&words)?;
    for key in KINDS.into_iter().flat_map(|(_, keys)| keys) {
        if let Some(value) = section.get(key)
            && !keys.contains(key)
        {
            value.refuse(format!("nothing: the fault {kind} has no `{key}`"));
            return None;
        }
    }
    Some(match kind {
        "partition" => Fault::Partition(nodes(section)?),
        "outage" => Fault::Outage(site(section)?),
        "latency" => Fault::Latency(site(section)?, by(section)?),
        "stall" => Fault::Stall(site(section)?),
        "refusal" => Fault::Refusal {
            site: site(section)?,
            status: status(section)?,
            share: match section.get("share") {
                None => 1.0,
                Some(value) => share(&value)?,
            },
        },
        "watch-drop" => Fault::WatchDrop,
        "stale-reads" => Fault::StaleReads(site(section)?),
        "node-clock" => Fault::NodeClock(nodes(section)?, offset(section)?),
        "watchdog-clock" => Fault::WatchdogClock(offset(section)?),
        "rotation" => Fault::Rotation,
        "slow-pods" => Fault::SlowPods(by(section)?),
        "scale" => Fault::Scale {
            controller: section
                .require("controller", "the name of a Deployment")?
                .choice(&CONTROLLERS.map(|name| (name, name)))?
                .to_owned(),
            replicas: section.require("replicas", "a count")?.whole(0..=MOST)?,
        },
        "etcd-outage" => Fault::EtcdOutage,
        "crash" => Fault::Crash,
        _ => Fault::Pause,
    })
}

fn nodes(section: &Section<'_>) -> Option<Nodes> {
    match (section.get("nodes"), section.get("zone")) {
        (None, None) => Some(Nodes::All),
        (Some(value), None) => Some(Nodes::Share(share(&value)?)),
        (None, Some(zone)) => Some(Nodes::Zone(zone.whole(0..=MOST_CLUSTERS)? as usize)),
        (Some(value), Some(_)) => {
            value.refuse("either a share of the nodes, or a zone");
            None
        }
    }
}

fn site(section: &Section<'_>) -> Option<Site> {
    match section.get("site") {
        None => Some(Site::Shoot),
        Some(value) => value.choice(&[("shoot", Site::Shoot), ("seed", Site::Seed)]),
    }
}

fn by(section: &Section<'_>) -> Option<Duration> {
    section
        .require("by", "a duration such as 500ms")?
        .duration(Span::AboveZero)
}

fn status(section: &Section<'_>) -> Option<u16> {
    let value = section.require("status", "an HTTP status such as 429")?;
    let words = ["401", "403", "429", "500", "503", "504"];
    let choices = words.map(|word| (word, word.parse().ok()));
    value.choice(&choices)?
}

/// Milliseconds by which a clock is ahead.
fn offset(section: &Section<'_>) -> Option<i64> {
    let (ahead, value) = match (section.get("ahead"), section.get("behind")) {
        (_, None) => (1, section.require("ahead", "how far, or `behind`")?),
        (None, Some(value)) => (-1, value),
        (Some(value), Some(_)) => {
            value.refuse("either `ahead` or `behind`");
            return None;
        }
    };
    let millis = value.duration(Span::AboveZero)?.as_millis();
    Some(ahead * i64::try_from(millis).unwrap_or(i64::MAX / 1_000))
}
