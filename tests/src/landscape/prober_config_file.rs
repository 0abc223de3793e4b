//! The prober's configuration file.

use std::fmt::{self, Write};

use super::timings::Timings;

/// The content of a configuration file.
#[derive(Debug, Clone)]
pub struct ProberConfigFile {
    timings: Timings,
    targets: Vec<TargetConfig>,
    lines: Vec<String>,
}

/// An entry of `dependentResourceInfos`.
#[derive(Debug, Clone)]
pub struct TargetConfig {
    api_version: String,
    kind: String,
    name: String,
    optional: bool,
    is_paused: bool,
    down: ScaleConfig,
    up: ScaleConfig,
}

/// `scaleDown` or `scaleUp` of a target.
#[derive(Debug, Clone, Default)]
pub struct ScaleConfig {
    /// The level: targets of a lower level are scaled first.
    pub level: u32,
    /// `initialDelay`, as a duration such as `30s`; omitted if `None`.
    pub delay: Option<&'static str>,
    /// `replicas`; omitted if `None`.
    pub replicas: Option<u32>,
}

impl TargetConfig {
    /// A Deployment with these levels for scaling down and up.
    pub fn deployment(name: &str, down: u32, up: u32) -> Self {
        Self::new("apps/v1", "Deployment", name, down, up)
    }

    /// An object of any kind with a scale subresource.
    pub fn new(api_version: &str, kind: &str, name: &str, down: u32, up: u32) -> Self {
        let at = |level| ScaleConfig {
            level,
            ..ScaleConfig::default()
        };
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            optional: false,
            is_paused: false,
            down: at(down),
            up: at(up),
        }
    }

    /// All MachineHealthChecks of a cluster, which are paused instead of scaled.
    pub fn health_checks() -> Self {
        let mut target = Self::new("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", "", 0, 0);
        target.is_paused = true;
        target.optional()
    }

    /// Marks the target as optional: it may be missing.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Changes the rule for scaling down.
    #[must_use]
    pub fn down(mut self, change: impl FnOnce(&mut ScaleConfig)) -> Self {
        change(&mut self.down);
        self
    }

    /// Changes the rule for scaling up.
    #[must_use]
    pub fn up(mut self, change: impl FnOnce(&mut ScaleConfig)) -> Self {
        change(&mut self.up);
        self
    }
}

impl ProberConfigFile {
    /// The targets and levels of the configuration that Gardener ships.
    pub fn gardener_targets(timings: Timings) -> Self {
        Self::new(
            timings,
            vec![
                TargetConfig::deployment("kube-controller-manager", 1, 0),
                TargetConfig::deployment("machine-controller-manager", 0, 1),
                TargetConfig::deployment("cluster-autoscaler", 0, 2).optional(),
            ],
        )
    }

    /// The whole configuration that Gardener ships, with its interval and delays, at
    /// [`Timings::REAL`].
    pub fn gardener_defaults() -> Self {
        let mcm = TargetConfig::deployment("machine-controller-manager", 0, 1);
        let targets = vec![
            TargetConfig::deployment("kube-controller-manager", 1, 0),
            mcm.up(|rule| rule.delay = Some("30s")),
            TargetConfig::deployment("cluster-autoscaler", 0, 2).optional(),
        ];
        Self::new(Timings::REAL, targets)
            .line("probeInterval: 30s")
            .line("initialDelay: 30s")
            .line("probeTimeout: 30s")
            .line("internalProbeFailureBackoffDuration: 30s")
    }

    /// Gardener's intervals, with guards and without targets, at [`Timings::REAL`].
    pub fn guard_only() -> Self {
        Self {
            targets: Vec::new(),
            ..Self::gardener_defaults()
        }
        .line("guard: {}")
    }

    /// A configuration with other targets.
    pub fn new(timings: Timings, targets: Vec<TargetConfig>) -> Self {
        Self {
            timings,
            targets,
            lines: Vec::new(),
        }
    }

    /// Adds a line at the top level, as in `namespace: shoot--a`. It replaces a line with the same
    /// key.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Restricts the prober to the Cluster of this name.
    #[must_use]
    pub fn only(self, cluster: &str) -> Self {
        self.line(&format!("namespace: {cluster}"))
    }

    /// Renders the file as YAML.
    pub fn yaml(&self) -> String {
        let Timings {
            grace,
            reserve,
            interval,
            ..
        } = self.timings;
        let mut text = format!(
            "kubeConfigSecretName: dwd-internal
probeInterval: {}ms
initialDelay: 0s
probeTimeout: 5s
internalProbeFailureBackoffDuration: 1s
kcmNodeMonitorGraceDuration: {}ms
fenceReserve: {}ms
",
            interval.as_millis(),
            grace.as_millis(),
            reserve.as_millis(),
        );
        for line in &self.lines {
            let key = line.split_once(':').map_or(line.as_str(), |(key, _)| key);
            // A line of the test replaces the one above.
            let others: Vec<&str> = text
                .lines()
                .filter(|other| !other.starts_with(&format!("{key}:")))
                .collect();
            text = format!("{}\n{line}\n", others.join("\n"));
            // Only Gardener's Secrets are configured by name.
            if key == "source" {
                text = text.replace("kubeConfigSecretName: dwd-internal\n", "");
            }
        }
        text += "dependentResourceInfos:\n";
        for target in &self.targets {
            // Writing to a String cannot fail.
            let _ = write!(text, "{target}");
        }
        text
    }
}

impl fmt::Display for TargetConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            api_version,
            kind,
            name,
            optional,
            is_paused,
            down,
            up,
        } = self;
        let name = if *is_paused {
            "}\n  actuator: pause".to_owned()
        } else {
            format!(", name: {name}}}")
        };
        writeln!(
            f,
            "- ref: {{apiVersion: {api_version}, kind: {kind}{name}
  optional: {optional}
  scaleUp: {{{up}}}
  scaleDown: {{{down}}}"
        )
    }
}

impl fmt::Display for ScaleConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level: {}", self.level)?;
        if let Some(delay) = self.delay {
            write!(f, ", initialDelay: {delay}")?;
        }
        match self.replicas {
            Some(replicas) => write!(f, ", replicas: {replicas}"),
            None => Ok(()),
        }
    }
}
