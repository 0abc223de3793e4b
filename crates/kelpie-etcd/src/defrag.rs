//! Is the member defragmenting? Nothing in the API tells but its metrics and, where the server's
//! flag is set, the gRPC health service.

use crate::{Fault, Sample, Serving};

/// What is known of defragmentation at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defrag {
    Running,
    Idle,
    /// The metrics cannot be had, or the server is too old to have the series.
    Unknown,
}

impl Defrag {
    /// By the metrics, or else by the health service.
    pub(crate) fn seen(metrics: Option<&Sample>, ping: Option<&Result<Serving, Fault>>) -> Self {
        let inflight = metrics.and_then(|sample| sample.defrag_inflight);
        match (inflight, ping) {
            (Some(true), _) | (_, Some(Ok(Serving::NotServing))) => Self::Running,
            (Some(false), _) => Self::Idle,
            (None, _) => Self::Unknown,
        }
    }
}

/// Remembers whether a defragmentation ran at any moment of a call.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Defragmentations that had ended when the call began, as far as was known.
    ended_before: Option<u64>,
    ran: bool,
    last: Defrag,
}

impl Watch {
    /// The call begins; `before` is the last page that was seen.
    pub(crate) fn new(before: Option<&Sample>) -> Self {
        Self {
            ended_before: before.and_then(|sample| sample.defrags),
            ran: false,
            last: Defrag::Unknown,
        }
    }

    /// Looked during the call.
    pub(crate) fn look(&mut self, metrics: Option<&Sample>, ping: Option<&Result<Serving, Fault>>) {
        self.last = Defrag::seen(metrics, ping);
        let ended = metrics.and_then(|sample| sample.defrags);
        // One that began and ended between two looks is known by the count. A smaller count is
        // that of a restarted process.
        let between = matches!((self.ended_before, ended), (Some(was), Some(is)) if is > was);
        self.ran |= between || self.last == Defrag::Running;
        self.ended_before = self.ended_before.or(ended);
    }

    /// What to make of the whole call.
    pub(crate) fn verdict(&self) -> Defrag {
        if self.ran { Defrag::Running } else { self.last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(inflight: Option<bool>, defrags: u64) -> Sample {
        Sample {
            defrag_inflight: inflight,
            defrags: Some(defrags),
            ..Sample::default()
        }
    }

    #[test]
    fn the_metrics_tell_and_the_health_service_where_it_can() {
        let idle = page(Some(false), 0);
        let running = page(Some(true), 0);
        let old = page(None, 0);
        let serving = Ok(Serving::Serving);
        let not_serving = Ok(Serving::NotServing);
        let silent = Err(Fault::Silent);
        for (metrics, ping, expected) in [
            (Some(&running), None, Defrag::Running),
            (Some(&running), Some(&serving), Defrag::Running),
            (Some(&idle), Some(&serving), Defrag::Idle),
            (Some(&idle), Some(&not_serving), Defrag::Running),
            (Some(&old), Some(&serving), Defrag::Unknown),
            (Some(&old), Some(&not_serving), Defrag::Running),
            (None, Some(&not_serving), Defrag::Running),
            (None, Some(&silent), Defrag::Unknown),
            (None, None, Defrag::Unknown),
        ] {
            assert_eq!(
                Defrag::seen(metrics, ping),
                expected,
                "{metrics:?} {ping:?}"
            );
        }
    }

    #[test]
    fn any_moment_counts() {
        let idle = page(Some(false), 4);
        let mut watch = Watch::new(Some(&idle));
        watch.look(Some(&idle), None);
        assert_eq!(watch.verdict(), Defrag::Idle);
        watch.look(Some(&page(Some(true), 4)), None);
        watch.look(Some(&page(Some(false), 5)), None);
        watch.look(None, None);
        assert_eq!(watch.verdict(), Defrag::Running);
    }

    #[test]
    fn one_between_two_looks_is_known_by_the_count() {
        let mut watch = Watch::new(Some(&page(Some(false), 4)));
        watch.look(Some(&page(Some(false), 5)), None);
        assert_eq!(watch.verdict(), Defrag::Running);

        let mut watch = Watch::new(None);
        watch.look(Some(&page(Some(false), 5)), None);
        assert_eq!(watch.verdict(), Defrag::Idle, "it may have ended long ago");
        watch.look(Some(&page(Some(false), 6)), None);
        assert_eq!(watch.verdict(), Defrag::Running);
    }

    #[test]
    fn a_restarted_process_counts_from_zero() {
        let mut watch = Watch::new(Some(&page(Some(false), 4)));
        watch.look(Some(&page(Some(false), 0)), None);
        assert_eq!(watch.verdict(), Defrag::Idle);
    }
}
