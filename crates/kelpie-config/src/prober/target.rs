//! `dependentResourceInfos`: the controllers to scale.

use kelpie_core::prober::{ActuatorKind, FlowRule, ResourceRef, Setting, Target};

use crate::name_format;
use crate::parse::Section;
use crate::schema::{MapSchema, key};
use crate::value::{ConfigValue, DurationRange, MAX_COUNT};

pub(crate) const TARGET: MapSchema = MapSchema {
    location: "in an entry of `dependentResourceInfos`",
    expected: "a map with ref, scaleUp, scaleDown",
    keys: &[
        key("ref"),
        key("optional"),
        key("actuator"),
        key("deadlineTarget"),
        key("scaleUp"),
        key("scaleDown"),
    ],
    removed: &[(
        "shouldExist",
        "it was replaced by `optional`, which has the opposite meaning",
    )],
};

/// The actuators by their names in a file.
pub(super) const ACTUATORS: [(&str, ActuatorKind); 1] = [("scale", ActuatorKind::Scale)];

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

/// A target with its `scaleDown` section, to which warnings about the fence refer.
pub(super) struct ParsedTarget<'r> {
    pub target: Target,
    pub down: Section<'r>,
}

/// Reads all valid targets and reports the others. A prober that `guards` needs none.
pub(super) fn parse<'r>(root: &Section<'r>, guards: bool) -> Vec<ParsedTarget<'r>> {
    const KEY: &str = "dependentResourceInfos";
    const EXPECTED: &str = "a list of at least one controller to scale";
    let mut seen = Vec::new();
    let items = if guards {
        let items = root.get(KEY).and_then(|value| value.items(EXPECTED));
        items.unwrap_or_default()
    } else {
        root.require_items(KEY, EXPECTED)
    };
    items
        .into_iter()
        .filter_map(|item| target(item, &mut seen))
        .collect()
}

fn target<'r>(
    item: ConfigValue<'r>,
    seen: &mut Vec<(ResourceRef, String)>,
) -> Option<ParsedTarget<'r>> {
    let path = item.path.clone();
    let section = item.section(&TARGET)?;
    let reference = section.require_section("ref", &REFERENCE);
    let resource = reference.as_ref().and_then(resource);
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
    let optional = section.get_or("optional", false, ConfigValue::boolean);
    let default = ActuatorKind::default();
    let actuator = section.get_or("actuator", default, |v| v.choice(&ACTUATORS));
    let deadline_target = section.get("deadlineTarget").and_then(|v| v.boolean());
    let up = section.require_section("scaleUp", &SCALE);
    let down = section.require_section("scaleDown", &SCALE);
    let up_rule = up.as_ref().map(scale_rule).unwrap_or_default();
    let down_rule = down.as_ref().map(scale_rule).unwrap_or_default();
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
    Some(ParsedTarget {
        target,
        down: down?,
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

fn scale_rule(section: &Section<'_>) -> FlowRule {
    let default = FlowRule::default();
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
