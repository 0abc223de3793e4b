//! Kelpie's configuration files: bytes in, validated values out, all problems in one report.
//!
//! ```
//! use kelpie_config::{Strictness, prober};
//!
//! let error = prober::parse(b"probeInterval: 10", Strictness::Strict).unwrap_err();
//! assert_eq!(error.to_string(), "\
//! 1:1: kubeConfigSecretName: missing; expected the name of the Secret with the kubeconfig
//! 1:1: dependentResourceInfos: missing; expected a list of at least one controller to scale
//! 1:16: probeInterval: 10 has no unit; expected a duration above zero such as 30s, 1m30s or \
//! 500ms; did you mean 10s?");
//! ```
//!
//! Reading order: [`prober`], [`weeder`] and [`scenario`] define the contents of the files. `yaml`
//! turns a file into a tree; `parse` and `value` read settings from that tree according to the
//! tables of `schema`, and collect every [`ConfigProblem`] on the way. `config_map` finds a file in
//! the `ConfigMap` that holds it.

mod config_map;
mod duration;
mod fence_budget;
mod file_kind;
mod json_schema;
mod name_format;
mod parse;
pub mod prober;
mod problem;
#[cfg(test)]
mod reference;
mod scalar;
pub mod scenario;
mod schema;
mod selector;
mod value;
pub mod weeder;
mod yaml;

pub use duration::{DurationError, GoDuration};
pub use fence_budget::FenceBudget;
pub use json_schema::JsonSchema;
pub use kelpie_core::weeder::ReadinessRule;
pub use prober::{ProberConfig, SecretsConfig, ShardConfig, SourceConfig};
pub use problem::{ConfigError, ConfigProblem, Severity};
pub use selector::{LabelOperator, LabelRequirement, LabelSelector};
pub use weeder::WeederConfig;
pub use yaml::MAX_BYTES;

/// The treatment of unknown keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// An unknown key is an error. Most unknown keys are typos, and a setting that is silently
    /// ignored is noticed only in the outage it was meant for.
    Strict,
    /// An unknown key is a warning, and the case of keys is ignored, as in dependency-watchdog.
    Lenient,
}

/// The result of parsing a valid file.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed<T> {
    /// The validated configuration, with defaults filled in.
    pub value: T,
    /// Settings that will not work as written, in file order.
    pub warnings: Vec<ConfigProblem>,
}
