//! Problems of the probe itself: logged once, and shown by a gauge while they last.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::{info, warn};

use crate::EtcdError;

/// The current problems of the probe itself, by the call that found them. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ProbeProblems {
    by_call: Arc<Mutex<BTreeMap<&'static str, String>>>,
    misconfigured: Gauge,
}

/// The change that the result of a call makes.
#[derive(Debug, PartialEq, Eq)]
enum ProblemChange {
    /// A new problem, with its reason.
    Started(String),
    /// The last problem is solved.
    Solved,
    None,
}

impl ProbeProblems {
    pub(crate) fn new(prefix: &str, registry: &mut Registry) -> Self {
        let misconfigured = Gauge::default();
        registry.register(
            format!("{prefix}probe_misconfigured"),
            "1 while the probe's own flags, credentials or certificates keep it from probing etcd",
            misconfigured.clone(),
        );
        Self {
            by_call: Arc::default(),
            misconfigured,
        }
    }

    /// Records the result of a call.
    pub(crate) fn record<T>(&self, call: &'static str, result: &Result<T, EtcdError>) {
        match self.change(call, result.as_ref().err()) {
            ProblemChange::Started(reason) => warn!(
                call,
                %reason,
                "probe misconfigured; fix its flags, credentials or certificates"
            ),
            ProblemChange::Solved => info!("probe no longer misconfigured"),
            ProblemChange::None => {}
        }
    }

    /// Records the result of reading the metrics from the listener named by `--metrics-url`.
    ///
    /// `etcd_answers` is true if etcd itself answered at about the same time.
    pub(crate) fn record_listener<T>(&self, metrics: &Result<T, EtcdError>, etcd_answers: bool) {
        if let Some(problem) = listener_problem(metrics, etcd_answers) {
            self.record(LISTENER, &Err::<(), _>(problem));
        }
    }

    /// Records that the metrics were read, which solves any problem of their listener.
    pub(crate) fn listener_answered(&self) {
        self.record(LISTENER, &Ok(()));
    }

    fn change(&self, call: &'static str, error: Option<&EtcdError>) -> ProblemChange {
        let mut by_call = self.by_call.lock();
        let change = match error {
            Some(error) if error.is_probe_problem() => {
                let reason = error.to_string();
                // One bad certificate fails every call but is logged once.
                let known = by_call.values().any(|other| *other == reason);
                by_call.insert(call, reason.clone());
                if known {
                    ProblemChange::None
                } else {
                    ProblemChange::Started(reason)
                }
            }
            // These neither reveal nor rule out a problem of the probe.
            Some(EtcdError::NoResponse | EtcdError::NoToken | EtcdError::ConnectionLost(_)) => {
                ProblemChange::None
            }
            Some(_) | None => match by_call.remove(call) {
                Some(_) if by_call.is_empty() => ProblemChange::Solved,
                _ => ProblemChange::None,
            },
        };
        self.misconfigured.set(i64::from(!by_call.is_empty()));
        change
    }
}

/// The key of the listener's problem. It differs from that of the metrics call, whose result must
/// not solve it.
const LISTENER: &str = "metrics-url";

/// Returns the problem of a metrics listener that does not answer while etcd does.
///
/// A listener that fell silent or went away together with etcd proves nothing about the flag.
fn listener_problem<T>(metrics: &Result<T, EtcdError>, etcd_answers: bool) -> Option<EtcdError> {
    match metrics {
        Err(error @ (EtcdError::ConnectionRefused | EtcdError::NoResponse)) if etcd_answers => {
            Some(EtcdError::Misconfigured(format!(
                "--metrics-url: {error}, although etcd itself answers: defragmentations cannot be \
                 detected; use one of the member's --listen-metrics-urls"
            )))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_silent_beside_etcd_is_a_problem() {
        for error in [EtcdError::ConnectionRefused, EtcdError::NoResponse] {
            let metrics = Err::<(), _>(error);
            assert_eq!(
                listener_problem(&metrics, false),
                None,
                "etcd is gone as well"
            );
            let problem = listener_problem(&metrics, true).unwrap();
            assert!(problem.is_probe_problem());
            assert!(problem.to_string().starts_with("--metrics-url: "));
        }
        assert_eq!(listener_problem(&Ok(()), true), None);

        let problems = ProbeProblems::new("kelpie_etcd_", &mut Registry::default());
        let refused = Err::<(), _>(EtcdError::ConnectionRefused);
        for (etcd_answers, gauge) in [(false, 0), (true, 1), (false, 1)] {
            problems.record("metrics", &refused);
            problems.record_listener(&refused, etcd_answers);
            assert_eq!(problems.misconfigured.get(), gauge);
        }
        let problem = listener_problem(&refused, true);
        let again = problems.change(LISTENER, problem.as_ref());
        assert_eq!(again, ProblemChange::None, "it is logged once");
        problems.listener_answered();
        assert_eq!(problems.misconfigured.get(), 0);
    }

    #[test]
    fn gauge_is_set_while_any_problem_lasts() {
        let problems = ProbeProblems::new("kelpie_etcd_", &mut Registry::default());
        let expired = EtcdError::Misconfigured("the certificate has expired".to_owned());
        let denied = EtcdError::AccessDenied("etcdserver: permission denied".to_owned());
        let started = |error: &EtcdError| ProblemChange::Started(error.to_string());
        for (call, error, change, gauge) in [
            ("read", None, ProblemChange::None, 0),
            ("read", Some(&expired), started(&expired), 1),
            ("read", Some(&expired), ProblemChange::None, 1),
            ("metrics", Some(&expired), ProblemChange::None, 1),
            ("status", Some(&denied), started(&denied), 1),
            ("read", Some(&EtcdError::NoResponse), ProblemChange::None, 1),
            ("read", None, ProblemChange::None, 1),
            ("metrics", None, ProblemChange::None, 1),
            (
                "status",
                Some(&EtcdError::NoLeader),
                ProblemChange::Solved,
                0,
            ),
            (
                "status",
                Some(&EtcdError::ConnectionRefused),
                ProblemChange::None,
                0,
            ),
        ] {
            assert_eq!(problems.change(call, error), change, "{call} {error:?}");
            assert_eq!(problems.misconfigured.get(), gauge, "{call} {error:?}");
        }
    }
}
