//! The checks against a member that follows a script, under paused time.

mod boot;
mod calm;
mod defrag;
mod progress;
mod script;
mod trouble;
