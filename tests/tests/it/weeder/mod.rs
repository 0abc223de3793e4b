//! `kelpie weeder` on a real API server: services that go and come, pods that crash without them.
//!
//! `-- weeder --nocapture` also prints what was measured.

mod blindness;
mod crash;
mod deletions;
mod election;
mod memory;
mod pace;
mod recovery;
mod rights;
mod selectors;
mod stage;
