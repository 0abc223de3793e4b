//! From a source to a hub, in virtual time: one sentence of the contract after the other.

mod delivery;
mod hub;
mod pace;
mod reading;
mod refusals;
mod stage;
