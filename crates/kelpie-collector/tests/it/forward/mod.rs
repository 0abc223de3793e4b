//! Forwarding from a source to a hub, in virtual time.

mod delivery;
mod fake_hub;
mod fixture;
mod hub_responses;
mod refused_samples;
mod source_failures;
mod tick_schedule;
mod tls_handshake;
