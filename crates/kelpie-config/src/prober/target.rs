//! `dependentResourceInfos`: the controllers to scale.

use std::time::Duration;

use kelpie_core::prober::{ActuatorKind, FlowRule, ResourceRef, Setting, Target};

use super::SourceConfig;
use crate::name_format;
use crate::parse::Section;
use crate::schema::{MapSchema, Shape, key};
use crate::value::{ConfigValue, DurationRange, MAX_COUNT};

pub(crate) const TARGET: MapSchema = MapSchema {
    location: "in an entry of `dependentResourceInfos`",
    expected: "a map with ref, scaleUp, scaleDown",
    keys: &[
        key("ref").shaped(Shape::Map(&REFERENCE)),
        key("optional"),
        key("actuator").shaped(Shape::Choice(&["scale", "pause"])),
        key("deadlineTarget"),
        key("scaleUp").shaped(Shape::Map(&SCALE)),
        key("scaleDown").shaped(Shape::Map(&SCALE)),
    ],
    removed: &[(
        "shouldExist",
        "it was replaced by `optional`, which has the opposite meaning",
    )],
};

/// The actuators by their names in a file.
pub(super) const ACTUATORS: [(&str, ActuatorKind); 2] = [
    ("scale", ActuatorKind::Scale),
    ("pause", ActuatorKind::Pause),
];

/// The kind that can be paused, in its versions. The newest one that is served is used.
const PAUSABLE_KIND: &str = "MachineHealthCheck";
const PAUSABLE_VERSIONS: [&str; 2] = ["cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"];
/// A pause is lifted this long after the nodes are back, unless the file says otherwise: they have
/// to be Ready again before their health is checked.
const PAUSE_AFTER_RETURN: Duration = Duration::from_secs(30);

/// The controller that turns nodes Unknown, which the deadline is about unless a file says
/// otherwise.
const NODE_CONTROLLER: &str = "kube-controller-manager";

pub(crate) const REFERENCE: MapSchema = MapSchema {
    location: "under `ref`",
    expected: "a map with apiVersion, kind, name",
    keys: &[key("apiVersion"), key("kind"), key("name")],
    removed: &[],
};

pub(crate) const SCALE: MapSchema = MapSchema {
    location: "under `scaleUp` and `scaleDown`",
    expected: "a map with any of level, initialDelay, timeout, replicas; {} takes the defaults",
    keys: &[
        key("level"),
        key("initialDelay"),
        key("timeout"),
        key("replicas"),
    ],
    removed: &[],
};

/// A target with its `scaleDown` section, to which warnings about the fence refer; `None` for a
/// target that is not scaled.
pub(super) struct ParsedTarget<'r> {
    pub target: Target,
    pub down: Option<Section<'r>>,
}

/// Reads all valid targets and reports the others. A prober that `guards` needs none. Cluster API
/// has a default.
pub(super) fn parse<'r>(
    root: &Section<'r>,
    source: &SourceConfig,
    guards: bool,
) -> Vec<ParsedTarget<'r>> {
    const KEY: &str = "dependentResourceInfos";
    const EXPECTED: &str = "a list of at least one controller to scale";
    let mut seen = Vec::new();
    if root.get(KEY).is_none() && *source == SourceConfig::ClusterApi {
        let [api_version, _] = PAUSABLE_VERSIONS;
        let target = health_checks(api_version.to_owned());
        return vec![ParsedTarget { target, down: None }];
    }
    let items = if guards {
        let items = root.get(KEY).and_then(|value| value.items(EXPECTED));
        items.unwrap_or_default()
    } else {
        root.require_items(KEY, EXPECTED)
    };
    items
        .into_iter()
        .filter_map(|item| target(item, source, &mut seen))
        .collect()
}

fn target<'r>(
    item: ConfigValue<'r>,
    source: &SourceConfig,
    seen: &mut Vec<(ResourceRef, String)>,
) -> Option<ParsedTarget<'r>> {
    let path = item.path.clone();
    let section = item.section(&TARGET)?;
    let reference = section.require_section("ref", &REFERENCE);
    let default = ActuatorKind::default();
    let actuator = section.get_or("actuator", default, |v| v.choice(&ACTUATORS));
    let resource = match actuator {
        ActuatorKind::Scale => reference.as_ref().and_then(resource),
        ActuatorKind::Pause => {
            if *source != SourceConfig::ClusterApi
                && let Some(value) = section.get("actuator")
            {
                value.reject("scale: only the source clusterAPI has something to pause");
            }
            reference.as_ref().and_then(pausable)
        }
    };
    if let Some(resource) = &resource {
        if let Some((_, first)) = seen
            .iter()
            .find(|(known, _)| is_same_object(known, resource))
        {
            let problem = crate::ConfigProblem::error(
                section.position_of("ref"),
                &section.path_of("ref"),
                format!("{resource} is already the target of {first}"),
            );
            section.context.report(
                problem
                    .value(resource.to_string())
                    .expected("each object once"),
            );
        } else {
            seen.push((resource.clone(), path));
        }
    }
    if actuator == ActuatorKind::Pause {
        let target = pause(&section, resource?);
        return Some(ParsedTarget { target, down: None });
    }
    let optional = section.get_or("optional", false, ConfigValue::boolean);
    let deadline_target = section.get("deadlineTarget").and_then(|v| v.boolean());
    let up = section.require_section("scaleUp", &SCALE);
    let down = section.require_section("scaleDown", &SCALE);
    let rule = |section: &Option<Section<'_>>| match section {
        Some(section) => scale_rule(section, FlowRule::default()),
        None => FlowRule::default(),
    };
    let (up_rule, down_rule) = (rule(&up), rule(&down));
    if let (Some(up), Some(up_replicas)) = (&up, up_rule.setting)
        && let down_replicas = down_rule.setting.unwrap_or(Setting::FENCED)
        && up_replicas <= down_replicas
        && let Some(value) = up.get("replicas")
    {
        value.reject(format!(
            "more than the replicas of scaleDown, {down_replicas}"
        ));
    }
    let resource = resource?;
    let target = Target {
        is_deadline_target: deadline_target.unwrap_or(resource.name == NODE_CONTROLLER),
        resource,
        actuator,
        optional,
        up: up_rule,
        down: down_rule,
    };
    let down = Some(down?);
    Some(ParsedTarget { target, down })
}

/// Creates the target that pauses the MachineHealthChecks of a cluster, with its defaults.
fn health_checks(api_version: String) -> Target {
    let resource = ResourceRef {
        api_version,
        kind: PAUSABLE_KIND.to_owned(),
        name: String::new(),
    };
    let mut target = Target::new(resource);
    target.actuator = ActuatorKind::Pause;
    // A cluster may have none.
    target.optional = true;
    target.up.initial_delay = PAUSE_AFTER_RETURN;
    target
}

/// Reads a target that is paused. All of its settings have defaults.
fn pause(section: &Section<'_>, resource: ResourceRef) -> Target {
    let mut target = health_checks(resource.api_version);
    for (name, rule) in [("scaleUp", &mut target.up), ("scaleDown", &mut target.down)] {
        let Some(flow) = section.get(name).and_then(|value| value.section(&SCALE)) else {
            continue;
        };
        if let Some(value) = flow.get("replicas") {
            value.reject("nothing: a target that is paused has no replicas");
        }
        *rule = FlowRule {
            setting: None,
            ..scale_rule(&flow, *rule)
        };
    }
    target.optional = section.get_or("optional", target.optional, ConfigValue::boolean);
    if let Some(value) = section.get("deadlineTarget")
        && value.boolean() == Some(true)
    {
        value.reject("false: a pause keeps no node from turning Unknown");
    }
    target
}

/// Reads a reference to all objects of a kind that can be paused.
fn pausable(section: &Section<'_>) -> Option<ResourceRef> {
    let kind = section.require_name("kind", &name_format::KIND)?;
    let api_version = section.require_name("apiVersion", &name_format::API_VERSION)?;
    if kind != PAUSABLE_KIND
        && let Some(value) = section.get("kind")
    {
        value.reject(format!("{PAUSABLE_KIND}, the only kind that can be paused"));
        return None;
    }
    if !PAUSABLE_VERSIONS.contains(&api_version)
        && let Some(value) = section.get("apiVersion")
    {
        value.reject(PAUSABLE_VERSIONS.join(" or "));
        return None;
    }
    if let Some(value) = section.get("name") {
        value.reject("no name: all MachineHealthChecks of a cluster are paused");
        return None;
    }
    Some(ResourceRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: String::new(),
    })
}

fn resource(section: &Section<'_>) -> Option<ResourceRef> {
    let string = |name, format| section.require_name(name, format).map(str::to_owned);
    let (api_version, kind, name) = (
        string("apiVersion", &name_format::API_VERSION),
        string("kind", &name_format::KIND),
        string("name", &name_format::DNS_SUBDOMAIN),
    );
    Some(ResourceRef {
        api_version: api_version?,
        kind: kind?,
        name: name?,
    })
}

/// Returns true if both references name the same object, in any API version.
fn is_same_object(a: &ResourceRef, b: &ResourceRef) -> bool {
    let group = |reference: &ResourceRef| {
        reference
            .api_version
            .split_once('/')
            .map(|(group, _)| group.to_owned())
    };
    a.kind == b.kind && a.name == b.name && group(a) == group(b)
}

fn scale_rule(section: &Section<'_>, default: FlowRule) -> FlowRule {
    FlowRule {
        level: section.get_or("level", default.level, |v| v.integer(0..=MAX_COUNT)),
        initial_delay: section.get_or("initialDelay", default.initial_delay, |v| {
            v.duration(DurationRange::NonNegative)
        }),
        timeout: section.get_or("timeout", default.timeout, |v| {
            v.duration(DurationRange::Positive)
        }),
        setting: section
            .get("replicas")
            .and_then(|v| v.integer(0..=MAX_COUNT))
            .map(Setting),
    }
}
