//! The controllers to scale: `dependentResourceInfos`.

use kelpie_core::{ResourceRef, ScaleRule, Target};

use crate::key::{Table, key};
use crate::name::{self, Rule};
use crate::reader::Section;
use crate::value::{MOST, Span, Value};

pub(crate) const TARGET: Table = Table {
    place: "in an entry of `dependentResourceInfos`",
    expected: "a map with ref, scaleUp, scaleDown",
    keys: &[
        key("ref"),
        key("optional"),
        key("scaleUp"),
        key("scaleDown"),
    ],
    retired: &[(
        "shouldExist",
        "`optional` replaced it, with the opposite meaning",
    )],
};

pub(crate) const REFERENCE: Table = Table {
    place: "under `ref`",
    expected: "a map with apiVersion, kind, name",
    keys: &[key("apiVersion"), key("kind"), key("name")],
    retired: &[],
};

pub(crate) const SCALE: Table = Table {
    place: "under `scaleUp` and `scaleDown`",
    expected: "a map with any of level, initialDelay, timeout, replicas; {} takes the defaults",
    keys: &[
        key("level"),
        key("initialDelay"),
        key("timeout"),
        key("replicas"),
    ],
    retired: &[],
};

/// A target and the section that says how it is fenced, for warnings about it.
pub(super) struct Found<'r> {
    pub target: Target,
    pub down: Section<'r>,
}

/// All targets that are whole; what is broken is reported.
pub(super) fn read<'r>(root: &Section<'r>) -> Vec<Found<'r>> {
    const EXPECTED: &str = "a list of at least one controller to scale";
    let Some(value) = root.require("dependentResourceInfos", EXPECTED) else {
        return Vec::new();
    };
    let Some(items) = value.some_items(EXPECTED) else {
        return Vec::new();
    };
    let mut seen = Vec::new();
    items
        .into_iter()
        .filter_map(|item| target(item, &mut seen))
        .collect()
}

fn target<'r>(item: Value<'r>, seen: &mut Vec<(ResourceRef, String)>) -> Option<Found<'r>> {
    let path = item.path.clone();
    let section = item.section(&TARGET)?;
    let resource = section
        .require("ref", REFERENCE.expected)
        .and_then(|v| v.section(&REFERENCE))
        .and_then(|reference| resource(&reference));
    if let Some(resource) = &resource {
        if let Some((_, first)) = seen.iter().find(|(known, _)| is_same(known, resource)) {
            let problem = crate::Problem::error(
                section.place_of("ref"),
                &section.path_of("ref"),
                format!("{resource} is already the target of {first}"),
            );
            section.reader.report(
                problem
                    .value(resource.to_string())
                    .expected("each object once"),
            );
        } else {
            seen.push((resource.clone(), path));
        }
    }
    let optional = section
        .get("optional")
        .and_then(|v| v.truth())
        .unwrap_or(false);
    let up = section
        .require("scaleUp", SCALE.expected)
        .and_then(|v| v.section(&SCALE));
    let down = section
        .require("scaleDown", SCALE.expected)
        .and_then(|v| v.section(&SCALE));
    let up_rule = up.as_ref().map(rule).unwrap_or_default();
    let down_rule = down.as_ref().map(rule).unwrap_or_default();
    if let (Some(up), Some(most)) = (&up, up_rule.replicas)
        && let least = down_rule.replicas.unwrap_or(0)
        && most <= least
        && let Some(value) = up.get("replicas")
    {
        value.refuse(format!("more than scaleDown scales to, {least}"));
    }
    let target = Target {
        resource: resource?,
        optional,
        up: up_rule,
        down: down_rule,
    };
    Some(Found {
        target,
        down: down?,
    })
}

fn resource(section: &Section<'_>) -> Option<ResourceRef> {
    let text = |name, rule: &Rule| {
        section
            .require(name, rule.expected)
            .and_then(|v| v.named(rule))
            .map(str::to_owned)
    };
    let (api_version, kind, name) = (
        text("apiVersion", &name::API_VERSION),
        text("kind", &name::KIND),
        text("name", &name::OBJECT),
    );
    Some(ResourceRef {
        api_version: api_version?,
        kind: kind?,
        name: name?,
    })
}

/// Whether two references mean one object: its versions are views of the same thing.
fn is_same(a: &ResourceRef, b: &ResourceRef) -> bool {
    let group = |reference: &ResourceRef| {
        reference
            .api_version
            .split_once('/')
            .map(|(group, _)| group.to_owned())
    };
    a.kind == b.kind && a.name == b.name && group(a) == group(b)
}

fn rule(section: &Section<'_>) -> ScaleRule {
    let default = ScaleRule::default();
    ScaleRule {
        level: section
            .get("level")
            .and_then(|v| v.whole(0..=MOST))
            .unwrap_or(default.level),
        initial_delay: section
            .get("initialDelay")
            .and_then(|v| v.duration(Span::ZeroOrMore))
            .unwrap_or(default.initial_delay),
        timeout: section
            .get("timeout")
            .and_then(|v| v.duration(Span::AboveZero))
            .unwrap_or(default.timeout),
        replicas: section.get("replicas").and_then(|v| v.whole(0..=MOST)),
    }
}
