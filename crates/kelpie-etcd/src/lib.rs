//! livez and readyz checks for a real etcd member, after KEP-4331.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use kelpie_etcd::{EtcdOptions, Member, MemberConfig, MemberUrl, RemoteMember, TlsCredentials};
//! # use prometheus_client::registry::Registry;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = MemberConfig {
//!     endpoint: MemberUrl::parse("http://127.0.0.1:2379", false)?,
//!     metrics_url: None,
//!     connection: Default::default(),
//!     tls: TlsCredentials::new(Default::default()),
//!     user: None,
//!     login_timeout: std::time::Duration::from_millis(500),
//!     pid: None,
//! };
//! let member: Arc<dyn Member> = Arc::new(RemoteMember::new(config));
//! let options = EtcdOptions::default();
//! let health = kelpie_etcd::member_health(&member, &options, &mut Registry::default())?;
//! assert!(health.checks.probe(kelpie_health::CheckGroup::Readyz).await.is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! A good reading order:
//!
//! 1. [`member_health`] registers the checks of `checks`. Each judges the results of
//!    `shared_calls`.
//! 2. [`Member`] has the calls that a member answers. [`RemoteMember`] makes them over the network,
//!    with the parts in `client`.
//! 3. [`EtcdError`] is the reason why a call failed. Its variants differ in what they prove about
//!    etcd.
//! 4. Judgements that need several observations have modules of their own. `boot` distinguishes a
//!    booting member from a hung one, `defrag` detects defragmentations, `raft_progress`
//!    distinguishes a stuck raft loop from a lost quorum, `read_index` a member that is catching up
//!    from one that is stuck, and `performance` decides that a member is too slow.
//! 5. [`HealthEndpoint`] serves etcd's older `/health`, and [`GrpcHealth`] the gRPC health service.
//! 6. [`EtcdMetrics`] has the few series that are read from etcd's metrics page.

mod boot;
mod checks;
mod client;
mod defrag;
mod error;
mod etcd_metrics;
mod grpc_health;
mod health;
mod health_endpoint;
mod member;
mod options;
mod performance;
mod probe_problems;
mod process;
mod raft_progress;
mod read_index;
mod shared_calls;

pub use boot::{BootTracker, ProcessState};
pub use client::{
    ConnectionSettings, EtcdUser, KeepAlive, MemberConfig, MemberUrl, MemberUrlError, RemoteMember,
    TlsCredentials,
};
pub use error::EtcdError;
pub use etcd_metrics::{DurationTotal, EtcdMetrics, EtcdVersion};
pub use grpc_health::GrpcHealth;
pub use health::{MemberHealth, member_health};
pub use health_endpoint::HealthEndpoint;
pub use member::{Member, MemberCall, MemberStatus, ServingStatus, WatchProgress};
pub use options::{EnabledChecks, EtcdOptions, METRIC_PREFIX, UnknownCheck};
pub use performance::PerformanceLimits;
