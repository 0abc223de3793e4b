//! The prober: observes clusters through their API servers, and fences their controllers when the
//! nodes lose contact.
//!
//! `kelpie-core` decides, this crate does the IO. `docs/ARCHITECTURE.md` shows the path of a
//! cluster through the modules.

mod credential_refresher;
mod deadline_queue;
mod fence_executor;
mod guard_executor;
mod inputs;
mod look;
mod manager;
mod metrics;
mod node_lists;
mod observer;
mod open_files;
mod own_egress;
mod permissions;
mod probe;
mod prober;
mod recording;
mod registry;
mod reporter;
mod sharding;
pub mod source;
mod state_page;
mod subsystem;
mod warm_up;

pub use metrics::register_metrics;
pub use open_files::open_files_needed;
pub use permissions::{guard_rules, seed_rules, shoot_rules};
pub use prober::{LEADER_LEASE, Prober, ProberOptions, leader_lease};
pub use recording::{
    ChangedSetting, ClusterReport, OtherSettings, PlacedLine, RecordEnd, RecordError, RecordReader,
    RecordSettings, ReplayReport, WantedFence, replay,
};
pub use sharding::{ShardEntry, ShardState, read_shard, unreadable_selector};
pub use state_page::{ClusterState, ClusterView, LastFlow, ProberState, TargetState, Unprobed};
