//! Detects defragmentations.
//!
//! Only etcd's metrics show one, and the gRPC health service where the server flag for it is set.

use crate::{EtcdError, EtcdMetrics, ServingStatus};

/// The defragmentation state at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefragState {
    Running,
    Idle,
    /// The metrics are not available, or the server is too old to have the series.
    Unknown,
}

impl DefragState {
    /// Derives the state from the metrics, or else from the gRPC health service.
    pub(crate) fn from_signals(
        metrics: Option<&EtcdMetrics>,
        ping: Option<&Result<ServingStatus, EtcdError>>,
    ) -> Self {
        let inflight = metrics.and_then(|metrics| metrics.defrag_inflight);
        match (inflight, ping) {
            (Some(true), _) | (_, Some(Ok(ServingStatus::NotServing))) => Self::Running,
            (Some(false), _) => Self::Idle,
            (None, _) => Self::Unknown,
        }
    }
}

/// Remembers whether a defragmentation ran at any moment of a call.
#[derive(Clone, Debug)]
pub(crate) struct DefragWatch {
    /// The number of defragmentations that had ended when the call began. `None` if unknown.
    ended_before: Option<u64>,
    ran: bool,
    last: DefragState,
}

impl DefragWatch {
    /// Starts to watch at the beginning of a call. `before` has the last known metrics.
    pub(crate) fn new(before: Option<&EtcdMetrics>) -> Self {
        Self {
            ended_before: before.and_then(|metrics| metrics.defrags),
            ran: false,
            last: DefragState::Unknown,
        }
    }

    /// Records an observation made during the call.
    pub(crate) fn observe(
        &mut self,
        metrics: Option<&EtcdMetrics>,
        ping: Option<&Result<ServingStatus, EtcdError>>,
    ) {
        self.last = DefragState::from_signals(metrics, ping);
        let ended = metrics.and_then(|metrics| metrics.defrags);
        // The counter shows a defragmentation that began and ended between two observations. A
        // smaller count means that the process has restarted.
        let between = matches!((self.ended_before, ended), (Some(was), Some(is)) if is > was);
        self.ran |= between || self.last == DefragState::Running;
        self.ended_before = self.ended_before.or(ended);
    }

    /// Returns the state for the whole call: `Running` if one ran at any moment of it.
    pub(crate) fn state(&self) -> DefragState {
        if self.ran {
            DefragState::Running
        } else {
            self.last
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(inflight: Option<bool>, defrags: u64) -> EtcdMetrics {
        EtcdMetrics {
            defrag_inflight: inflight,
            defrags: Some(defrags),
            ..EtcdMetrics::default()
        }
    }

    #[test]
    fn metrics_decide_and_ping_adds() {
        let idle = metrics(Some(false), 0);
        let running = metrics(Some(true), 0);
        let old = metrics(None, 0);
        let serving = Ok(ServingStatus::Serving);
        let not_serving = Ok(ServingStatus::NotServing);
        let silent = Err(EtcdError::NoResponse);
        for (metrics, ping, expected) in [
            (Some(&running), None, DefragState::Running),
            (Some(&running), Some(&serving), DefragState::Running),
            (Some(&idle), Some(&serving), DefragState::Idle),
            (Some(&idle), Some(&not_serving), DefragState::Running),
            (Some(&old), Some(&serving), DefragState::Unknown),
            (Some(&old), Some(&not_serving), DefragState::Running),
            (None, Some(&not_serving), DefragState::Running),
            (None, Some(&silent), DefragState::Unknown),
            (None, None, DefragState::Unknown),
        ] {
            assert_eq!(
                DefragState::from_signals(metrics, ping),
                expected,
                "{metrics:?} {ping:?}"
            );
        }
    }

    #[test]
    fn any_moment_of_the_call_counts() {
        let idle = metrics(Some(false), 4);
        let mut watch = DefragWatch::new(Some(&idle));
        watch.observe(Some(&idle), None);
        assert_eq!(watch.state(), DefragState::Idle);
        watch.observe(Some(&metrics(Some(true), 4)), None);
        watch.observe(Some(&metrics(Some(false), 5)), None);
        watch.observe(None, None);
        assert_eq!(watch.state(), DefragState::Running);
    }

    #[test]
    fn counter_reveals_a_short_defrag() {
        let mut watch = DefragWatch::new(Some(&metrics(Some(false), 4)));
        watch.observe(Some(&metrics(Some(false), 5)), None);
        assert_eq!(watch.state(), DefragState::Running);

        let mut watch = DefragWatch::new(None);
        watch.observe(Some(&metrics(Some(false), 5)), None);
        assert_eq!(
            watch.state(),
            DefragState::Idle,
            "it may have ended long ago"
        );
        watch.observe(Some(&metrics(Some(false), 6)), None);
        assert_eq!(watch.state(), DefragState::Running);
    }

    #[test]
    fn restarted_process_counts_from_zero() {
        let mut watch = DefragWatch::new(Some(&metrics(Some(false), 4)));
        watch.observe(Some(&metrics(Some(false), 0)), None);
        assert_eq!(watch.state(), DefragState::Idle);
    }
}
