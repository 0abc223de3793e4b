//! Trouble of our own: said once in the log, and shown by a gauge while it lasts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::{info, warn};

use crate::Fault;

/// What is wrong with the probe itself, by the call that found it. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    by_call: Arc<Mutex<BTreeMap<&'static str, String>>>,
    misconfigured: Gauge,
}

/// What a call's end changes.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// For this reason, which is new.
    Begins(String),
    /// The last one.
    Ends,
    None,
}

impl Trouble {
    pub(crate) fn new(prefix: &str, registry: &mut Registry) -> Self {
        let misconfigured = Gauge::default();
        registry.register(
            format!("{prefix}probe_misconfigured"),
            "1 while the probe's own settings, credentials or certificates keep it from its work",
            misconfigured.clone(),
        );
        Self {
            by_call: Arc::default(),
            misconfigured,
        }
    }

    /// A call ended.
    pub(crate) fn note<T>(&self, call: &'static str, result: &Result<T, Fault>) {
        match self.change(call, result.as_ref().err()) {
            Change::Begins(reason) => warn!(
                call,
                %reason,
                "the probe cannot do its work: mend its flags, credentials or certificates"
            ),
            Change::Ends => info!("the probe can do its work again"),
            Change::None => {}
        }
    }

    /// The page of a metrics listener that was named by flag was wanted; `etcd_answers` is about the
    /// same moment.
    pub(crate) fn note_listener<T>(&self, page: &Result<T, Fault>, etcd_answers: bool) {
        if let Some(own) = of_listener(page, etcd_answers) {
            self.note(LISTENER, &Err::<(), _>(own));
        }
    }

    /// It was read.
    pub(crate) fn listener_answered(&self) {
        self.note(LISTENER, &Ok(()));
    }

    fn change(&self, call: &'static str, fault: Option<&Fault>) -> Change {
        let mut by_call = self.by_call.lock().unwrap_or_else(PoisonError::into_inner);
        let change = match fault {
            Some(fault) if fault.is_own() => {
                let reason = fault.to_string();
                // One certificate fails every call; once is enough.
                let known = by_call.values().any(|other| *other == reason);
                by_call.insert(call, reason.clone());
                if known {
                    Change::None
                } else {
                    Change::Begins(reason)
                }
            }
            // Silence says nothing about what we could do better.
            Some(Fault::Silent | Fault::NoToken | Fault::Broken(_)) => Change::None,
            Some(_) | None => match by_call.remove(call) {
                Some(_) if by_call.is_empty() => Change::Ends,
                _ => Change::None,
            },
        };
        self.misconfigured.set(i64::from(!by_call.is_empty()));
        change
    }
}

/// Not the call for the page itself: what ends that one's trouble does not end this.
const LISTENER: &str = "metrics-url";

/// A listener that does not answer while etcd does is not etcd's. One that went silent or away with
/// etcd says nothing about the flag.
fn of_listener<T>(page: &Result<T, Fault>, etcd_answers: bool) -> Option<Fault> {
    match page {
        Err(fault @ (Fault::Refused | Fault::Silent)) if etcd_answers => Some(Fault::Own(format!(
            "--metrics-url: {fault}, although etcd itself answers: whether a defragmentation runs \
             is not known; give one of the member's --listen-metrics-urls"
        ))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_is_silent_beside_etcd_is_a_wrong_flag() {
        for fault in [Fault::Refused, Fault::Silent] {
            let page = Err::<(), _>(fault);
            assert_eq!(of_listener(&page, false), None, "etcd is gone as well");
            let own = of_listener(&page, true).unwrap();
            assert!(own.is_own() && own.to_string().starts_with("--metrics-url: "));
        }
        assert_eq!(of_listener(&Ok(()), true), None);

        let trouble = Trouble::new("kelpie_etcd_", &mut Registry::default());
        let refused = Err::<(), _>(Fault::Refused);
        for (etcd_answers, gauge) in [(false, 0), (true, 1), (false, 1)] {
            trouble.note("metrics", &refused);
            trouble.note_listener(&refused, etcd_answers);
            assert_eq!(trouble.misconfigured.get(), gauge);
        }
        let own = of_listener(&refused, true);
        let again = trouble.change(LISTENER, own.as_ref());
        assert_eq!(again, Change::None, "it is logged once");
        trouble.listener_answered();
        assert_eq!(trouble.misconfigured.get(), 0);
    }

    #[test]
    fn the_gauge_is_up_while_any_call_is_in_trouble() {
        let trouble = Trouble::new("kelpie_etcd_", &mut Registry::default());
        let own = Fault::Own("the certificate has expired".to_owned());
        let denied = Fault::Denied("etcdserver: permission denied".to_owned());
        let begins = |fault: &Fault| Change::Begins(fault.to_string());
        for (call, fault, change, gauge) in [
            ("read", None, Change::None, 0),
            ("read", Some(&own), begins(&own), 1),
            ("read", Some(&own), Change::None, 1),
            ("metrics", Some(&own), Change::None, 1),
            ("status", Some(&denied), begins(&denied), 1),
            ("read", Some(&Fault::Silent), Change::None, 1),
            ("read", None, Change::None, 1),
            ("metrics", None, Change::None, 1),
            ("status", Some(&Fault::NoLeader), Change::Ends, 0),
            ("status", Some(&Fault::Refused), Change::None, 0),
        ] {
            assert_eq!(trouble.change(call, fault), change, "{call} {fault:?}");
            assert_eq!(trouble.misconfigured.get(), gauge, "{call} {fault:?}");
        }
    }
}
