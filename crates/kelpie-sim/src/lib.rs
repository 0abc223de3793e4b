//! A simulated landscape in one process: a Gardener seed, its clusters and their controllers,
//! behind API servers that real clients talk to.
//!
//! Reading order: an [`ObjectStore`] holds one API server's objects and enforces the API's rules;
//! the simulated controllers call it directly. [`resource`] names the kinds of objects, an
//! [`ObjectSelector`] picks some of them, and a [`StatusError`] is the error response of a failed
//! request. A [`server`] adds HTTP, over TLS or any stream. A [`Landscape`] is a seed with its
//! clusters and controllers, and a [`scenario`] schedules faults in it. Time comes from a
//! [`SimClock`] and randomness from an RNG seed: the same calls produce the same bytes.

mod actor;
mod admission;
mod clock;
mod fault;
mod field;
mod field_types;
mod ids;
mod kind;
mod landscape;
mod patch;
pub mod resource;
mod selector;
pub mod server;
mod status_error;
mod store;
mod wire;

pub use actor::{PodTransition, ServerLease};
pub use clock::SimClock;
pub use kelpie_config::scenario;
pub use landscape::{
    ClusterSnapshot, ControllerReplicas, Damage, GroundTruth, Landscape, LandscapeError,
    LandscapePlan, Listeners, Platform, ProcessLink, ReplicaCommand, ReplicaSet, SimEvent,
    SimEventKind, SimProcess,
};
pub use resource::GroupResource;
pub use selector::ObjectSelector;
pub use status_error::{StatusError, StatusReason};
pub use store::{DeleteOptions, ObjectStore, ObjectWatch, StoreEvent, WriteScope};
