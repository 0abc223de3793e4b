//! Looks up the member's process by its PID.

use std::io::ErrorKind;

use crate::boot::ProcessState;

/// Returns the state of the process, as read from `/proc`.
pub(crate) fn state(pid: u32) -> ProcessState {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse(&stat),
        Err(error) if error.kind() == ErrorKind::NotFound => ProcessState::Gone,
        Err(_) => ProcessState::Unknown,
    }
}

fn parse(stat: &str) -> ProcessState {
    // The name is in parentheses and may itself contain parentheses.
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    match after_name.and_then(|rest| rest.chars().next()) {
        None => ProcessState::Unknown,
        Some('T' | 't') => ProcessState::Stopped,
        Some('Z' | 'X' | 'x') => ProcessState::Gone,
        Some(_) => ProcessState::Alive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_follows_the_name() {
        for (stat, expected) in [
            ("42 (etcd) S 1 42", ProcessState::Alive),
            ("42 (etcd) R 1 42", ProcessState::Alive),
            ("42 (etcd) D 1 42", ProcessState::Alive),
            ("42 (etcd) T 1 42", ProcessState::Stopped),
            ("42 (et) T (cd) S 1", ProcessState::Alive),
            ("42 (etcd) Z 1 42", ProcessState::Gone),
            ("", ProcessState::Unknown),
        ] {
            assert_eq!(parse(stat), expected, "{stat}");
        }
    }

    #[test]
    fn own_process_is_alive() {
        assert_eq!(state(std::process::id()), ProcessState::Alive);
        assert_eq!(state(u32::MAX), ProcessState::Gone);
    }
}
