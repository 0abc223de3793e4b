//! livez and readyz of a process: named checks in groups, over HTTP.
//!
//! A process registers its checks, one line each, and mounts [`routes`] beside whatever else it
//! serves:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use kelpie_health::{Health, Pulse, Readiness, Reason, Settings};
//! use prometheus_client::registry::Registry;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut registry = Registry::default();
//! let mut checks = Health::builder(Settings::default(), &mut registry);
//!
//! // A loop that must turn, and a component that must be ready.
//! let pulse = Pulse::new(Duration::from_secs(30));
//! let readiness = Readiness::new();
//! let prober = readiness.handle("prober");
//! checks.livez("probe_loop", pulse.clone());
//! checks.readyz("components", readiness);
//!
//! // A call that several checks need is made once for all of them.
//! let disk = checks.shared("disk", async || 7_u64);
//! let fresh = Duration::from_millis(900);
//! checks.readyz("disk_space", disk.check(fresh, |free| match free {
//!     0 => Err(Reason::from("the disk is full")),
//!     _ => Ok(()),
//! }));
//!
//! // Anything else: a closure, or a type that is a `Check`.
//! checks.both("arithmetic", async || if 1 + 1 == 2 { Ok(()) } else { Err("odd".into()) });
//!
//! let health = checks.build()?;
//! let router = kelpie_health::routes(health.clone())
//!     .merge(kelpie_health::metrics(Arc::new(registry)));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let shutdown = async { /* until SIGTERM */ };
//! let server = tokio::spawn(kelpie_health::serve(listener, router, shutdown));
//!
//! pulse.beat();
//! prober.ready();
//! assert!(health.probe(kelpie_health::Group::Readyz).await.is_ok());
//! # server.await??;
//! # Ok(())
//! # }
//! ```
//!
//! Reading order, the way of a probe: [`routes`] finds the [`Group`] and the checks that are asked;
//! [`Health`] asks them all at once and waits until the group's deadline. A [`Check`] is a
//! [`Shared`] call: whoever asks joins a run that is young enough or starts one, and a run goes on
//! when those who wait for it leave. The rules are in `book`; what stands for a check whose run is
//! still out is in `late`; the words of the answer are in `answer`, those of the log in `journal`.
//! [`Readiness`] and [`Pulse`] are checks for the usual questions. [`serve`] is a server that no
//! client can hold up.

mod answer;
mod book;
mod builder;
mod check;
mod connection;
mod exposition;
mod group;
mod health;
mod journal;
mod late;
mod metrics;
mod name;
mod pulse;
mod query;
mod readiness;
mod reason;
mod report;
mod routes;
mod server;
mod settings;
mod shared;

pub use builder::{BuildError, Builder};
pub use check::{Check, Held, Judged, Verdict};
pub use exposition::metrics;
pub use group::Group;
pub use health::Health;
pub use name::CheckName;
pub use pulse::Pulse;
pub use readiness::{Readiness, ReadyHandle};
pub use reason::Reason;
pub use report::{Finding, Report};
pub use routes::{healthz, not_found, routes};
pub use server::{serve, serve_within};
pub use settings::Settings;
pub use shared::{Panicked, Shared};
