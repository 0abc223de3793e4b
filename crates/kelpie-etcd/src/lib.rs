//! KEP-4331 health for a real etcd member.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use kelpie_etcd::{Access, Address, Member, Options, Remote, Target};
//! # use prometheus_client::registry::Registry;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target {
//!     endpoint: Address::parse("http://127.0.0.1:2379", false)?,
//!     metrics: None,
//!     access: Access::new(Default::default()),
//!     user: None,
//!     log_in_wait: std::time::Duration::from_millis(500),
//!     pid: None,
//! };
//! let member: Arc<dyn Member> = Arc::new(Remote::new(target));
//! let health = kelpie_etcd::checks(&member, &Options::default(), &mut Registry::default())?;
//! assert!(health.probe(kelpie_health::Group::Readyz).await.is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: [`checks`] registers the checks of `check`, each of which judges what the shared
//! calls of `calls` bring. [`Member`] is what can be asked, [`Remote`] who is asked, over `wire`.
//! [`Fault`] is why a call failed and what that proves. The judgements that take several looks are
//! values of their own: [`Boot`] tells booting from hung, `defrag` whether a defragmentation ran,
//! `freeze` a stuck raft loop from a lost quorum, `read_index` a member that catches up from one
//! that is stuck. [`Sample`] is what is read of the metrics page.

mod boot;
mod calls;
mod check;
mod checks;
mod defrag;
mod fault;
mod freeze;
mod member;
mod options;
mod process;
mod read_index;
mod sample;
mod trouble;
mod wire;

pub use boot::{Boot, ProcessState};
pub use checks::checks;
pub use fault::Fault;
pub use member::{Call, Member, Serving, Status};
pub use options::{Options, PREFIX, Selection, UnknownCheck};
pub use sample::{Sample, Version};
pub use wire::{Access, Address, AddressError, Remote, Target, User};
