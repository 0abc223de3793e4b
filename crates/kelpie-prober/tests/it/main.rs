//! The prober against a simulated landscape, in virtual time.

mod crew;
mod fence;
