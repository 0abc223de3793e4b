//! The weeder's file.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::weeder::Readiness;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::key::{Table, key};
use crate::name;
use crate::problem::{self, Problem, Report};
use crate::reader::{self, Section};
use crate::selector::{self, LabelSelector};
use crate::value::{MOST, Span, Value};
use crate::{GoDuration, Parsed, Strictness};

/// What the weeder is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WeederConfig {
    /// How long the dependants of a service are watched after it has come back.
    #[serde(serialize_with = "go_duration")]
    pub watch_duration: Duration,
    /// By service: which pods depend on it. A pod is meant when any of the selectors matches.
    #[serde(
        rename = "servicesAndDependantSelectors",
        serialize_with = "as_written"
    )]
    pub services: BTreeMap<String, Vec<LabelSelector>>,
    /// How often, per pod of an owner, pods may be deleted in one window.
    pub max_deletions_per_pod: u32,
    /// When a service counts as ready.
    pub readiness: Readiness,
    /// Decide and report, but delete nothing.
    pub dry_run: bool,
}

pub(crate) const ROOT: Table = Table {
    place: "at the top level",
    expected: "a map with at least servicesAndDependantSelectors",
    keys: &[
        key("watchDuration"),
        key("servicesAndDependantSelectors"),
        key("maxDeletionsPerPod"),
        key("readiness"),
        key("dryRun"),
    ],
    retired: &[],
};

pub(crate) const SERVICE: Table = Table {
    place: "under a service in `servicesAndDependantSelectors`",
    expected: "a map with podSelectors",
    keys: &[key("podSelectors")],
    retired: &[],
};

pub(crate) const TABLES: &[&Table] = &[&ROOT, &SERVICE, &selector::SELECTOR, &selector::EXPRESSION];

const DEFAULT_WATCH: Duration = Duration::from_mins(5);
const DEFAULT_DELETIONS: u32 = 3;

/// Reads the weeder's file.
pub fn parse(bytes: &[u8], strictness: Strictness) -> Result<Parsed<WeederConfig>, Report> {
    reader::read(bytes, strictness, TABLES, |root| WeederConfig {
        watch_duration: root
            .get("watchDuration")
            .and_then(|v| v.duration(Span::AboveZero))
            .unwrap_or(DEFAULT_WATCH),
        services: services(root),
        max_deletions_per_pod: root
            .get("maxDeletionsPerPod")
            .and_then(|v| v.whole(1..=MOST))
            .unwrap_or(DEFAULT_DELETIONS),
        readiness: root
            .get("readiness")
            .and_then(|v| v.choice(&[("any", Readiness::Any), ("all", Readiness::All)]))
            .unwrap_or_default(),
        dry_run: root.get("dryRun").and_then(|v| v.truth()).unwrap_or(false),
    })
}

fn services(root: &Section<'_>) -> BTreeMap<String, Vec<LabelSelector>> {
    const EXPECTED: &str = "a map from services to the pods that depend on them";
    let Some(value) = root.require("servicesAndDependantSelectors", EXPECTED) else {
        return BTreeMap::new();
    };
    let Some(entries) = value.entries(EXPECTED) else {
        return BTreeMap::new();
    };
    if entries.is_empty() {
        value.report(
            value
                .problem("the map is empty")
                .expected("at least one service"),
        );
    }
    entries
        .into_iter()
        .filter_map(|(service, value)| {
            check_name(service, &value);
            Some((service.to_owned(), pod_selectors(value)?))
        })
        .collect()
}

fn check_name(service: &str, value: &Value<'_>) {
    if !(name::LABEL.holds)(service) {
        let shown = problem::quoted(service);
        let message = format!("the service name {shown} is not allowed");
        let problem = Problem::error(value.key_place, &value.path, message);
        value.report(problem.value(shown).expected(name::LABEL.expected));
    }
}

fn pod_selectors(service: Value<'_>) -> Option<Vec<LabelSelector>> {
    const EXPECTED: &str = "a list of at least one label selector";
    let value = service
        .section(&SERVICE)?
        .require("podSelectors", EXPECTED)?;
    let items = value.some_items(EXPECTED)?;
    Some(items.into_iter().filter_map(selector::read).collect())
}

fn go_duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    GoDuration(*duration).serialize(serializer)
}

fn as_written<S: Serializer>(
    services: &BTreeMap<String, Vec<LabelSelector>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(services.len()))?;
    for (service, selectors) in services {
        map.serialize_entry(service, &BTreeMap::from([("podSelectors", selectors)]))?;
    }
    map.end()
}
