//! `clusterSelector`: the clusters of one of several probers.

use super::ShardConfig;
use crate::Strictness;
use crate::name_format;
use crate::parse::{self, Section};
use crate::schema::MapSchema;
use crate::selector::{self, LabelOperator, LabelSelector};

/// The longest name of a shard. It is a part of the names of its Leases.
const LONGEST_NAME: usize = 40;
/// The largest selector, by its text in API syntax. Each shard publishes its own in an annotation.
const LONGEST_SELECTOR: usize = 2_000;
const MOST_REQUIREMENTS: usize = 30;
/// The longest selector of another shard, as JSON. The largest one that is allowed is shorter.
const LONGEST_JSON: usize = 8_192;
/// The prefix of the label by which kubernetes-controller-sharding assigns an object to a shard.
const RING_PREFIX: &str = "shard.alpha.sharding.timebertt.dev/";

pub(crate) const CLUSTER_SELECTOR: MapSchema = MapSchema {
    location: "under `clusterSelector`",
    expected: "a map with matchLabels or matchExpressions",
    keys: &selector::SELECTOR_KEYS,
    removed: &[],
};

const EMPTY: &str = "the selector is empty: leave it out to watch all clusters";

impl ShardConfig {
    /// Returns the name of the shard's Lease.
    pub fn lease_name(&self) -> String {
        format!("kelpie-shard-{}", self.name)
    }

    /// Returns the ring of kubernetes-controller-sharding that assigns the clusters; `None` if the
    /// selector is about other labels.
    pub fn ring(&self) -> Option<&str> {
        let mut requirements = self.selector.requirements.iter();
        requirements.find_map(|it| it.key.strip_prefix(RING_PREFIX))
    }
}

pub(super) fn parse(root: &Section<'_>) -> Option<ShardConfig> {
    let value = root.get("clusterSelector")?;
    let too_long = value.problem("is too long");
    let other_shard = value.problem("selects the ring's clusters of another shard");
    let report = |problem| root.context.report(problem);
    let selector = selector::parse(value, &CLUSTER_SELECTOR, EMPTY)?;
    let name = root.require_name("name", &name_format::DNS_LABEL)?;
    if name.len() > LONGEST_NAME {
        let name = root.get("name")?;
        name.reject(format!(
            "at most {LONGEST_NAME} characters, with a clusterSelector"
        ));
    }
    let text = selector.to_string();
    if text.len() > LONGEST_SELECTOR || selector.requirements.len() > MOST_REQUIREMENTS {
        report(too_long.expected(format!(
            "at most {MOST_REQUIREMENTS} requirements and {LONGEST_SELECTOR} characters"
        )));
    }
    let shard = ShardConfig {
        name: name.to_owned(),
        selector,
    };
    let lease = shard.lease_name();
    let mut of_ring = shard.selector.requirements.iter();
    let is_other = of_ring.any(|it| {
        let is_own = matches!(&it.operator, LabelOperator::In(values)
            if values.len() == 1 && values.contains(&lease));
        it.key.starts_with(RING_PREFIX) && !is_own
    });
    if is_other {
        report(other_shard.expected(format!("the value {lease}, the name of this shard's Lease")));
    }
    Some(shard)
}

/// Parses a selector that another process has published. It is not trusted: the length is limited,
/// and nothing but a valid selector is accepted.
pub fn parse_selector(text: &str) -> Result<LabelSelector, String> {
    const SCHEMAS: &[&MapSchema] = &[&CLUSTER_SELECTOR, &selector::EXPRESSION];
    if text.len() > LONGEST_JSON {
        return Err(format!("takes more than {LONGEST_JSON} bytes"));
    }
    let parsed = parse::parse(text.as_bytes(), Strictness::Strict, SCHEMAS, |section| {
        selector::requirements(section)
    });
    let parsed = parsed.map_err(|error| error.to_string())?.value;
    match parsed {
        Some(requirements) if !requirements.is_empty() => Ok(LabelSelector { requirements }),
        _ => Err("selects everything".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prober;

    fn parse(lines: &str) -> Result<ShardConfig, String> {
        let file = format!("{{kubeConfigSecretName: a, guard: {{}}, {lines}}}");
        let parsed = prober::parse(file.as_bytes(), Strictness::Strict);
        let parsed = parsed.map_err(|error| error.to_string())?;
        parsed.value.shard.ok_or_else(|| "no shard".to_owned())
    }

    #[test]
    fn published_selector_is_read_back() {
        let text = "name: a, clusterSelector: {matchLabels: {x: one}, matchExpressions: \
                    [{key: z, operator: DoesNotExist}, {key: w, operator: NotIn, values: [v]}]}";
        let shard = parse(text).unwrap();
        assert_eq!(shard.selector.to_string(), "x in (one),!z,w notin (v)");
        let published = serde_json::to_string(&shard.selector).unwrap();
        assert_eq!(parse_selector(&published), Ok(shard.selector));
    }

    #[test]
    fn published_selectors_are_limited() {
        let long = format!(
            r#"{{"matchLabels":{{"a":"{}"}}}}"#,
            " ".repeat(LONGEST_JSON)
        );
        let many = format!(r#"{{"matchExpressions":[{}]}}"#, "1,".repeat(1_000));
        for text in [
            "",
            "{}",
            "[]",
            "a",
            r#"{"matchLabels":{}}"#,
            r#"{"matchLabels":{"a b":"c"}}"#,
            r#"{"matchExpressions":[{"key":"a","operator":"Near"}]}"#,
            "{\"x\":1}",
            &long,
            &many,
        ] {
            parse_selector(text).unwrap_err();
        }
    }

    #[test]
    fn shard_needs_a_name() {
        let selector = "clusterSelector: {matchLabels: {x: one}}";
        let missing = parse(selector).unwrap_err();
        assert!(missing.contains("name: missing"), "{missing}");
        for name in ["A", "a.b", &"a".repeat(41)] {
            let problem = parse(&format!("name: {name}, {selector}")).unwrap_err();
            assert!(problem.contains("name: "), "{problem}");
        }
        let empty = parse("name: a, clusterSelector: {}").unwrap_err();
        assert!(empty.contains("clusterSelector"), "{empty}");
    }

    #[test]
    fn ring_label_has_the_name_of_the_lease() {
        let ring = |value: &str| {
            let label = "shard.alpha.sharding.timebertt.dev/kelpie";
            parse(&format!(
                "name: a, clusterSelector: {{matchLabels: {{{label}: {value}}}}}"
            ))
        };
        assert_eq!(ring("kelpie-shard-a").unwrap().ring(), Some("kelpie"));
        let problem = ring("b").unwrap_err();
        assert!(problem.contains("the value kelpie-shard-a"), "{problem}");
        let other = parse("name: a, clusterSelector: {matchLabels: {x: one}}").unwrap();
        assert_eq!(other.ring(), None);
    }
}
