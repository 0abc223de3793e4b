//! The prober against a simulated landscape, in virtual time.

mod auditor;
mod chaos;
mod crew;
mod fence;
mod run;
mod scale;
mod seeds;
