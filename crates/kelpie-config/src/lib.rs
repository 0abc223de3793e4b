//! Configuration files of Kelpie: bytes in, validated values out, every problem at once.
//!
//! ```
//! use kelpie_config::{Strictness, prober};
//!
//! let report = prober::parse(b"probeInterval: 10", Strictness::Strict).unwrap_err();
//! assert_eq!(report.to_string(), "\
//! 1:1: kubeConfigSecretName: missing; expected the name of the Secret with the kubeconfig
//! 1:1: dependentResourceInfos: missing; expected a list of at least one controller to scale
//! 1:16: probeInterval: 10 has no unit; expected a duration above zero such as 30s, 1m30s or 500ms; \
//! did you mean 10s?");
//! ```
//!
//! Reading order: [`prober`], [`weeder`] and [`scenario`] say what the files hold; `reader` and `value` ask the
//! tree that `yaml` makes for it, by the tables of `key`, and collect what is wrong as [`Problem`]s.

mod budget;
mod duration;
mod foreign;
mod key;
mod name;
pub mod prober;
mod problem;
mod reader;
#[cfg(test)]
mod reference;
mod scalar;
pub mod scenario;
mod selector;
mod value;
pub mod weeder;
mod yaml;

pub use budget::Budget;
pub use duration::{DurationError, GoDuration};
pub use kelpie_core::weeder::Readiness;
pub use prober::ProberConfig;
pub use problem::{Problem, Report, Severity};
pub use selector::{LabelSelector, Operator, Requirement};
pub use weeder::WeederConfig;
pub use yaml::MAX_BYTES;

/// How unknown keys are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// An unknown key is an error: most are typing errors, and a setting that is silently ignored
    /// is found out in the outage it was meant for.
    Strict,
    /// As dependency-watchdog does it: unknown keys only warn, and the case of keys is ignored.
    Lenient,
}

/// A file that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed<T> {
    /// What it says.
    pub value: T,
    /// What in it will not work as written, in the order of the file.
    pub warnings: Vec<Problem>,
}
