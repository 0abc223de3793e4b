//! The limit on open files of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the highest value that is allowed, and returns it. A process is given a low
/// limit for the sake of old programs, and each cluster needs several connections.
pub(crate) fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If this fails, the old limit stays and is reported.
    let _ = setrlimit(Resource::Nofile, raised);
    let limit = getrlimit(Resource::Nofile).current;
    // No limit at all.
    limit.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_raised_to_the_maximum() {
        let limit = raise_limit();
        let maximum = getrlimit(Resource::Nofile).maximum;
        assert_eq!(limit, maximum.unwrap_or(u64::MAX));
    }
}
