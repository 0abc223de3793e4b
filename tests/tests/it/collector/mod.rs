//! `kelpie addon collector` between real servers, and its parser compared with theirs.

mod certificate_rotation;
mod exposition_corpus;
pub(crate) mod fixture;
mod hub_rejects_samples;
mod one_shot_run;
mod parser_matches_prometheus;
mod samples_arrive_once;
mod source_and_hub_failures;
mod unresponsive_hub;
