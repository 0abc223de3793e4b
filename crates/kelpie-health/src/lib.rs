//! `/livez` and `/readyz` for a process: named checks in two groups, served over HTTP.
//!
//! A process registers its checks, one line each, and mounts [`routes()`] next to its other
//! endpoints:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use kelpie_health::{FailureReason, Health, HealthSettings, LoopHeartbeat, Readiness};
//! use prometheus_client::registry::Registry;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut registry = Registry::default();
//! let mut checks = Health::builder(HealthSettings::default(), &mut registry);
//!
//! // A loop that must keep turning, and a component that must become ready.
//! let heartbeat = LoopHeartbeat::new(Duration::from_secs(30));
//! let readiness = Readiness::new();
//! let prober = readiness.handle("prober");
//! checks.livez("probe_loop", heartbeat.clone());
//! checks.readyz("components", readiness);
//!
//! // A call that several checks need is made once for all of them.
//! let disk = checks.shared_call("disk", async || 7_u64);
//! let max_age = Duration::from_millis(900);
//! checks.readyz("disk_space", disk.check(max_age, |free| match free {
//!     0 => Err(FailureReason::from("the disk is full")),
//!     _ => Ok(()),
//! }));
//!
//! // Anything else: a closure, or a type that implements `HealthCheck`.
//! checks.both("arithmetic", async || if 1 + 1 == 2 { Ok(()) } else { Err("odd".into()) });
//!
//! let health = checks.build()?;
//! let router = kelpie_health::routes(health.clone())
//!     .merge(kelpie_health::metrics(Arc::new(registry)));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let shutdown = async { /* until SIGTERM */ };
//! let server = tokio::spawn(kelpie_health::serve(listener, router, shutdown));
//!
//! heartbeat.beat();
//! prober.ready();
//! assert!(health.probe(kelpie_health::CheckGroup::Readyz).await.is_ok());
//! # server.await??;
//! # Ok(())
//! # }
//! ```
//!
//! A probe takes this path, which is also a good reading order:
//!
//! 1. [`routes()`] parses the request into a [`CheckGroup`] and the checks to run.
//! 2. [`Health`] runs them concurrently and waits until the group's deadline.
//! 3. Every [`HealthCheck`] runs as a [`SharedCall`]. A probe joins a run that is recent enough or
//!    starts a new one, and a run continues after its waiters have left. `single_flight` has the
//!    rules.
//! 4. `stale` decides the result of a check that is still running at the deadline.
//! 5. `response` renders the HTTP body, and `check_log` decides what is logged.
//!
//! [`Readiness`] and [`LoopHeartbeat`] are ready-made checks. [`serve`] is an HTTP server whose
//! clients cannot block it.

mod builder;
mod check;
mod check_log;
mod check_name;
mod connection;
mod exposition;
mod group;
mod health;
mod heartbeat;
mod loopback;
mod metrics;
mod query;
mod readiness;
mod reason;
mod report;
mod response;
mod routes;
mod server;
mod settings;
mod shared_call;
mod single_flight;
mod stale;

pub use builder::{BuildError, HealthBuilder};
pub use check::{CheckResult, HealthCheck, SharedCallCheck};
pub use check_name::CheckName;
pub use exposition::metrics;
pub use group::CheckGroup;
pub use health::Health;
pub use heartbeat::LoopHeartbeat;
pub use loopback::{ClientAddress, loopback_only};
pub use query::ProbeQuery;
pub use readiness::{Readiness, ReadyHandle};
pub use reason::FailureReason;
pub use report::{CheckReport, HealthReport};
pub use routes::{healthz, method_not_allowed, not_found, routes};
pub use server::{serve, serve_with_grace};
pub use settings::HealthSettings;
pub use shared_call::{CallPanicked, SharedCall};
