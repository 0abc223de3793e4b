//! The weeder's configuration file.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::weeder::ReadinessRule;
use serde::{Serialize, Serializer};

use crate::name_format;
use crate::parse::{self, Section};
use crate::problem::ConfigError;
use crate::schema::{MapSchema, Shape, key};
use crate::selector::{self, LabelSelector};
use crate::value::{ConfigValue, DurationRange, MAX_COUNT};
use crate::{GoDuration, JsonSchema, Parsed, Strictness};

/// The weeder's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WeederConfig {
    /// The length of the window in which the dependants of a recovered service are watched.
    #[serde(serialize_with = "go_duration")]
    pub watch_duration: Duration,
    /// The pods that depend on each service. A pod depends on it if any of the selectors matches.
    #[serde(
        rename = "servicesAndDependantSelectors",
        serialize_with = "in_file_format"
    )]
    pub services: BTreeMap<String, Vec<LabelSelector>>,
    /// The number of deletions allowed per window for each pod of an owner.
    pub max_deletions_per_pod: u32,
    /// The endpoints that must be ready for the service to count as ready.
    pub readiness: ReadinessRule,
    /// If true, decisions are made and reported, but no pod is deleted.
    pub dry_run: bool,
}

pub(crate) const ROOT: MapSchema = MapSchema {
    location: "at the top level",
    expected: "a map with at least servicesAndDependantSelectors",
    keys: &[
        key("watchDuration"),
        key("servicesAndDependantSelectors").shaped(Shape::MapOf(&SERVICE)),
        key("maxDeletionsPerPod"),
        key("readiness").shaped(Shape::Choice(&["any", "all"])),
        key("dryRun"),
    ],
    removed: &[],
};

pub(crate) const SERVICE: MapSchema = MapSchema {
    location: "under a service in `servicesAndDependantSelectors`",
    expected: "a map with podSelectors",
    keys: &[key("podSelectors").shaped(Shape::ListOf(&selector::SELECTOR))],
    removed: &[],
};

/// The JSON schema of the file.
pub const JSON_SCHEMA: JsonSchema = JsonSchema(&ROOT);

pub(crate) const SCHEMAS: &[&MapSchema] =
    &[&ROOT, &SERVICE, &selector::SELECTOR, &selector::EXPRESSION];

const DEFAULT_WATCH_DURATION: Duration = Duration::from_mins(5);
const DEFAULT_MAX_DELETIONS: u32 = 3;

/// Parses the weeder's file, or the `ConfigMap` that holds it.
pub fn parse(bytes: &[u8], strictness: Strictness) -> Result<Parsed<WeederConfig>, ConfigError> {
    parse::parse_file(bytes, strictness, SCHEMAS, |root| WeederConfig {
        watch_duration: root.get_or("watchDuration", DEFAULT_WATCH_DURATION, |v| {
            v.duration(DurationRange::Positive)
        }),
        services: services(root),
        max_deletions_per_pod: root.get_or("maxDeletionsPerPod", DEFAULT_MAX_DELETIONS, |v| {
            v.integer(1..=MAX_COUNT)
        }),
        readiness: root.get_or("readiness", ReadinessRule::default(), |v| {
            v.choice(&[("any", ReadinessRule::Any), ("all", ReadinessRule::All)])
        }),
        dry_run: root.get_or("dryRun", false, ConfigValue::boolean),
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
            value.check_key("service name", service, &name_format::DNS_LABEL);
            Some((service.to_owned(), pod_selectors(value)?))
        })
        .collect()
}

fn pod_selectors(service: ConfigValue<'_>) -> Option<Vec<LabelSelector>> {
    const EXPECTED: &str = "a list of at least one label selector";
    let items = service
        .section(&SERVICE)?
        .require_items("podSelectors", EXPECTED);
    let parse = |item| {
        let empty = "the selector is empty: it would match every pod of the namespace";
        selector::parse(item, &selector::SELECTOR, empty)
    };
    Some(items.into_iter().filter_map(parse).collect())
}

fn go_duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    GoDuration(*duration).serialize(serializer)
}

fn in_file_format<S: Serializer>(
    services: &BTreeMap<String, Vec<LabelSelector>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let entry = |(service, selectors)| (service, BTreeMap::from([("podSelectors", selectors)]));
    serializer.collect_map(services.iter().map(entry))
}
