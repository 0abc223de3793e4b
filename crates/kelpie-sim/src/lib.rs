//! A simulated landscape: API servers that real clients believe, in one process.
//!
//! Reading order: a [`Store`] is one API server's objects with the rules they live by; actors call it
//! directly. [`resource`] names what is kept there, [`Selection`] says which of it is meant, [`Refusal`]
//! is what a client is told that cannot have what it asks for. A [`server`] puts HTTP on top of it,
//! over TLS or over any stream. A [`Landscape`] is a seed with its clusters and all who act in them, and a
//! [`scenario`] what goes wrong there; [`chaos`] leaves both to dice, for tests. Time comes from a [`Clock`] and chance from
//! a seed: the same calls give the same bytes.

mod actor;
pub mod chaos;
mod clock;
mod dice;
mod fault;
mod field;
mod kind;
mod landscape;
mod patch;
mod refusal;
pub mod resource;
mod selection;
pub mod server;
mod shape;
mod store;
mod wire;

pub use actor::Turn;
pub use clock::Clock;
pub use kelpie_config::scenario;
pub use landscape::{
    Controller, Damage, Doors, Happening, Landscape, LandscapeError, Link, Order, Plan, Process,
    Row, Truth, What,
};
pub use refusal::{Reason, Refusal};
pub use resource::Resource;
pub use selection::Selection;
pub use store::{Deletion, Event, Part, Store, Watch};
