//! The weeder's decisions.

mod properties;
mod services;
mod windows;

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::weeder::{Crash, Owner, Pod, WindowRules};

pub(super) const RULES: WindowRules = WindowRules {
    watch_duration: Duration::from_mins(5),
    max_deletions_per_pod: 3,
    dry_run: false,
};

pub(super) fn at(seconds: i64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

/// Returns a pod in CrashLoopBackOff. Its uid is made of its name and number.
pub(super) fn crashing(name: &str, number: u32) -> Pod {
    Pod {
        name: name.into(),
        uid: format!("{name}-{number}"),
        version: "1".into(),
        owner: Some(owner(name)),
        is_terminating: false,
        crash: Some(Box::new(Crash {
            container: "main".into(),
            restarts: 5,
            exit_code: Some(1),
            ..Crash::default()
        })),
    }
}

pub(super) fn owner(name: &str) -> Owner {
    Owner {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        name: name.into(),
        uid: format!("uid-of-{name}"),
    }
}
