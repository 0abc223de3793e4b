//! Parses scenario files.

use std::time::Duration;

use super::{
    CONTROLLERS, ClusterSelection, Fault, FaultSite, Incident, MAX_REPLICAS, NodeSelection,
    RequestSelection, Scenario,
};
use crate::parse::Section;
use crate::schema::{MapSchema, key};
use crate::value::{ConfigValue, DurationRange, MAX_COUNT};

const ROOT: MapSchema = MapSchema {
    location: "at the top level",
    expected: "a map with at least length and incidents",
    keys: &[
        key("name"),
        key("summary"),
        key("replicas"),
        key("length"),
        key("incidents"),
    ],
    removed: &[],
};

const INCIDENT: MapSchema = MapSchema {
    location: "in an entry of `incidents`",
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
        key("requests"),
        key("connection"),
        key("controller"),
        key("replicas"),
    ],
    removed: &[],
};

pub(crate) const SCHEMAS: &[&MapSchema] = &[&ROOT, &INCIDENT];

/// The maximum length of a scenario.
const MAX_LENGTH: Duration = Duration::from_hours(7 * 24);

/// The maximum number of a cluster or zone.
const MAX_NUMBER: u32 = 100_000;

/// The kinds of faults with the keys that only some of them accept.
const FAULTS: [(&str, &[&str]); 21] = [
    ("partition", &["nodes", "zone"]),
    ("outage", &["site"]),
    ("latency", &["site", "by", "requests"]),
    ("stall", &["site", "requests"]),
    ("refusal", &["site", "status", "share", "requests"]),
    ("body-cut", &["site", "connection"]),
    ("watch-drop", &[]),
    ("stale-reads", &["site", "share"]),
    ("node-clock", &["nodes", "zone", "ahead", "behind"]),
    ("watchdog-clock", &["ahead", "behind"]),
    ("rotation", &[]),
    ("slow-pods", &["by"]),
    ("scale", &["controller", "replicas"]),
    ("webhook-outage", &[]),
    ("webhook-timeout", &[]),
    ("controller-manager-outage", &[]),
    ("dns", &[]),
    ("cpu-starvation", &[]),
    ("etcd-outage", &[]),
    ("crash", &[]),
    ("pause", &[]),
];

pub(super) fn scenario(root: &Section<'_>) -> Scenario {
    const EXPECTED: &str = "a list of at least one incident";
    let string = |name| root.get_or(name, "", |v| v.string("a string")).to_owned();
    let length = root.require("length", "the length of the scenario, such as 25m");
    let length = length.and_then(|value| {
        let length = value.duration(DurationRange::Positive)?;
        if length > MAX_LENGTH {
            value.reject("at most a week, 168h");
            return None;
        }
        Some(length)
    });
    let incidents = root.require_items("incidents", EXPECTED);
    let read = |value| incident(value, length);
    Scenario {
        name: string("name"),
        summary: string("summary"),
        replicas: root.get("replicas").and_then(|value| replicas(&value)),
        length: length.unwrap_or_default(),
        incidents: incidents.into_iter().filter_map(read).collect(),
    }
}

fn replicas(value: &ConfigValue<'_>) -> Option<u16> {
    let count = value.integer(1..=u32::from(MAX_REPLICAS))?;
    u16::try_from(count).ok()
}

/// Parses an incident. `length` is that of the scenario, within which the incident must start.
fn incident(value: ConfigValue<'_>, length: Option<Duration>) -> Option<Incident> {
    let section = value.section(&INCIDENT)?;
    let at = section.require("at", "the start of the incident, such as 1m30s")?;
    let start = at.duration(DurationRange::NonNegative)?;
    if length.is_some_and(|length| start >= length) {
        at.reject("a time before the end of the scenario");
        return None;
    }
    let lasts = section.get("lasts");
    let lasts = lasts.and_then(|value| value.duration(DurationRange::NonNegative));
    let fault = fault(&section)?;
    let incident = Incident::new(start, lasts, fault).in_clusters(clusters(&section)?);
    Some(incident.for_requests(requests(&section)?))
}

fn clusters(section: &Section<'_>) -> Option<ClusterSelection> {
    let Some(only) = section.get("only") else {
        return Some(match section.get("clusters") {
            None => ClusterSelection::All,
            Some(value) => ClusterSelection::Share(share(&value)?),
        });
    };
    if let Some(value) = section.get("clusters") {
        value.reject("either `clusters` or `only`");
        return None;
    }
    let items = only.non_empty_items("a list of cluster numbers, counted from 0")?;
    let number = |value: &ConfigValue<'_>| value.integer(0..=MAX_NUMBER);
    let numbers = items.iter().filter_map(number).map(|n| n as usize);
    Some(ClusterSelection::Numbers(numbers.collect()))
}

/// Reads a share above 0 and at most 1.
fn share(value: &ConfigValue<'_>) -> Option<f64> {
    value.number("a share above 0 and at most 1, such as 0.5", |share| {
        (share > 0.0 && share <= 1.0).then_some(share)
    })
}

fn share_or_all(section: &Section<'_>) -> Option<f64> {
    section
        .get("share")
        .map_or(Some(1.0), |value| share(&value))
}

fn requests(section: &Section<'_>) -> Option<RequestSelection> {
    match section.get("requests") {
        None => Some(RequestSelection::All),
        Some(value) => value.choice(&[
            ("all", RequestSelection::All),
            ("leases", RequestSelection::Leases),
            ("nodes", RequestSelection::Nodes),
            ("version", RequestSelection::Version),
        ]),
    }
}

fn fault(section: &Section<'_>) -> Option<Fault> {
    let kinds = FAULTS.map(|(name, keys)| (name, (name, keys)));
    let value = section.require("fault", "the kind of fault, such as partition")?;
    let (kind, keys) = value.choice(&kinds)?;
    for key in FAULTS.into_iter().flat_map(|(_, keys)| keys) {
        if let Some(value) = section.get(key)
            && !keys.contains(key)
        {
            value.reject(format!(
                "no value, because the fault {kind} does not accept `{key}`"
            ));
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
            share: share_or_all(section)?,
        },
        "body-cut" => Fault::BodyCut {
            site: site(section)?,
            resets: match section.get("connection") {
                None => false,
                Some(value) => value.choice(&[("open", false), ("reset", true)])?,
            },
        },
        "watch-drop" => Fault::WatchDrop,
        "stale-reads" => Fault::StaleReads {
            site: site(section)?,
            share: share_or_all(section)?,
        },
        "node-clock" => Fault::NodeClock(nodes(section)?, offset(section)?),
        "watchdog-clock" => Fault::WatchdogClock(offset(section)?),
        "rotation" => Fault::Rotation,
        "slow-pods" => Fault::SlowPods(by(section)?),
        "scale" => Fault::Scale {
            controller: section
                .require("controller", "the name of a Deployment")?
                .choice(&CONTROLLERS.map(|name| (name, name)))?
                .to_owned(),
            replicas: section
                .require("replicas", "a count")?
                .integer(0..=MAX_COUNT)?,
        },
        "webhook-outage" => Fault::WebhookOutage,
        "webhook-timeout" => Fault::WebhookTimeout,
        "controller-manager-outage" => Fault::ControllerManagerOutage,
        "dns" => Fault::Dns,
        "cpu-starvation" => Fault::CpuStarvation,
        "etcd-outage" => Fault::EtcdOutage,
        "crash" => Fault::Crash,
        _ => Fault::Pause,
    })
}

fn nodes(section: &Section<'_>) -> Option<NodeSelection> {
    match (section.get("nodes"), section.get("zone")) {
        (None, None) => Some(NodeSelection::All),
        (Some(value), None) => Some(NodeSelection::Share(share(&value)?)),
        (None, Some(zone)) => Some(NodeSelection::Zone(zone.integer(0..=MAX_NUMBER)? as usize)),
        (Some(value), Some(_)) => {
            value.reject("either `nodes` or `zone`");
            None
        }
    }
}

fn site(section: &Section<'_>) -> Option<FaultSite> {
    match section.get("site") {
        None => Some(FaultSite::Shoot),
        Some(value) => value.choice(&[("shoot", FaultSite::Shoot), ("seed", FaultSite::Seed)]),
    }
}

fn by(section: &Section<'_>) -> Option<Duration> {
    section
        .require("by", "a duration such as 500ms")?
        .duration(DurationRange::Positive)
}

fn status(section: &Section<'_>) -> Option<u16> {
    let value = section.require("status", "an HTTP status such as 429")?;
    let statuses = ["401", "403", "429", "500", "503", "504"];
    let choices = statuses.map(|status| (status, status.parse().ok()));
    value.choice(&choices)?
}

/// Reads the milliseconds by which a clock is ahead; negative if it is behind.
fn offset(section: &Section<'_>) -> Option<i64> {
    let (sign, value) = match (section.get("ahead"), section.get("behind")) {
        (_, None) => (
            1,
            section.require("ahead", "a duration such as 5s, or `behind`")?,
        ),
        (None, Some(value)) => (-1, value),
        (Some(value), Some(_)) => {
            value.reject("either `ahead` or `behind`");
            return None;
        }
    };
    let millis = value.duration(DurationRange::Positive)?.as_millis();
    Some(sign * i64::try_from(millis).unwrap_or(i64::MAX / 1_000))
}
