//! The prober's configuration file.

use std::fmt::{self, Write};

use super::pace::Pace;

/// What a configuration file says.
#[derive(Debug, Clone)]
pub struct ProberConfig {
    pace: Pace,
    targets: Vec<Target>,
    lines: Vec<String>,
}

/// An entry of `dependentResourceInfos`.
#[derive(Debug, Clone)]
pub struct Target {
    api_version: String,
    kind: String,
    name: String,
    optional: bool,
    down: ScaleRule,
    up: ScaleRule,
}

/// `scaleDown` or `scaleUp` of a target.
#[derive(Debug, Clone, Default)]
pub struct ScaleRule {
    /// The level.
    pub level: u32,
    /// `initialDelay`, as it is written.
    pub delay: Option<&'static str>,
    /// `replicas`.
    pub replicas: Option<u32>,
}

impl Target {
    /// A Deployment at these levels on the way down and up.
    pub fn deployment(name: &str, down: u32, up: u32) -> Self {
        Self::new("apps/v1", "Deployment", name, down, up)
    }

    /// Anything with replicas.
    pub fn new(api_version: &str, kind: &str, name: &str, down: u32, up: u32) -> Self {
        let at = |level| ScaleRule {
            level,
            ..ScaleRule::default()
        };
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            optional: false,
            down: at(down),
            up: at(up),
        }
    }

    /// It need not be there.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// With more to say about the way down.
    #[must_use]
    pub fn down(mut self, change: impl FnOnce(&mut ScaleRule)) -> Self {
        change(&mut self.down);
        self
    }

    /// With more to say about the way up.
    #[must_use]
    pub fn up(mut self, change: impl FnOnce(&mut ScaleRule)) -> Self {
        change(&mut self.up);
        self
    }
}

impl ProberConfig {
    /// The targets and levels that Gardener ships.
    pub fn shipped(pace: Pace) -> Self {
        Self::of(
            pace,
            vec![
                Target::deployment("kube-controller-manager", 1, 0),
                Target::deployment("machine-controller-manager", 0, 1),
                Target::deployment("cluster-autoscaler", 0, 2).optional(),
            ],
        )
    }

    /// All that Gardener ships, in the pace of the real world: the interval and the delays, too.
    pub fn gardeners() -> Self {
        let mcm = Target::deployment("machine-controller-manager", 0, 1);
        let targets = vec![
            Target::deployment("kube-controller-manager", 1, 0),
            mcm.up(|rule| rule.delay = Some("30s")),
            Target::deployment("cluster-autoscaler", 0, 2).optional(),
        ];
        Self::of(Pace::REAL, targets)
            .line("probeInterval: 30s")
            .line("initialDelay: 30s")
            .line("probeTimeout: 30s")
            .line("internalProbeFailureBackoffDuration: 30s")
    }

    /// Other targets.
    pub fn of(pace: Pace, targets: Vec<Target>) -> Self {
        Self {
            pace,
            targets,
            lines: Vec::new(),
        }
    }

    /// One more line at the top level, as in `namespace: shoot--a`.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Only the Cluster of this name.
    #[must_use]
    pub fn only(self, cluster: &str) -> Self {
        self.line(&format!("namespace: {cluster}"))
    }

    /// The file.
    pub fn yaml(&self) -> String {
        let Pace {
            grace,
            reserve,
            interval,
            ..
        } = self.pace;
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
            // What a test says stands in the place of what is said above.
            let kept: Vec<&str> = text
                .lines()
                .filter(|earlier| !earlier.starts_with(&format!("{key}:")))
                .collect();
            text = format!("{}\n{line}\n", kept.join("\n"));
        }
        text += "dependentResourceInfos:\n";
        for target in &self.targets {
            // Writing to a String cannot fail.
            let _ = write!(text, "{target}");
        }
        text
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            api_version,
            kind,
            name,
            optional,
            down,
            up,
        } = self;
        writeln!(
            f,
            "- ref: {{apiVersion: {api_version}, kind: {kind}, name: {name}}}
  optional: {optional}
  scaleUp: {{{up}}}
  scaleDown: {{{down}}}"
        )
    }
}

impl fmt::Display for ScaleRule {
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
