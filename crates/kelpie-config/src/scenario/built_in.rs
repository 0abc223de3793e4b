//! The scenarios that ship with Kelpie.

use super::Scenario;

/// The name and file of each scenario.
const FILES: [(&str, &str); 10] = [
    ("partition", include_str!("../../scenarios/partition.yaml")),
    ("zone", include_str!("../../scenarios/zone.yaml")),
    ("flapping", include_str!("../../scenarios/flapping.yaml")),
    (
        "api-outage",
        include_str!("../../scenarios/api-outage.yaml"),
    ),
    (
        "clock-step",
        include_str!("../../scenarios/clock-step.yaml"),
    ),
    ("rotation", include_str!("../../scenarios/rotation.yaml")),
    (
        "etcd-outage",
        include_str!("../../scenarios/etcd-outage.yaml"),
    ),
    ("seed-wide", include_str!("../../scenarios/seed-wide.yaml")),
    ("slow-seed", include_str!("../../scenarios/slow-seed.yaml")),
    ("failover", include_str!("../../scenarios/failover.yaml")),
];

impl Scenario {
    /// Returns the names of the built-in scenarios.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        FILES.into_iter().map(|(name, _)| name)
    }

    /// Returns the file of a built-in scenario.
    pub fn built_in_file(name: &str) -> Option<&'static str> {
        let (_, file) = FILES.into_iter().find(|(own, _)| *own == name)?;
        Some(file)
    }

    /// Returns a built-in scenario.
    pub fn built_in(name: &str) -> Option<Self> {
        let parsed = Self::parse(Self::built_in_file(name)?.as_bytes()).ok()?;
        Some(Self {
            name: name.to_owned(),
            ..parsed.value
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_end_after_their_faults() {
        for name in Scenario::built_in_names() {
            let scenario = Scenario::built_in(name).unwrap();
            // The summary fits on a terminal line.
            assert!((1..=80).contains(&scenario.summary.len()), "{name}");
            for incident in &scenario.incidents {
                let end = incident.at + incident.lasts.unwrap_or_default();
                assert!(end < scenario.length, "{name}: {incident}");
            }
        }
        assert_eq!(Scenario::built_in("earthquake"), None);
    }
}
