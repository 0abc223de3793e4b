//! The faults that are active on one API server, and their effect on requests.

use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::{Fault, Incident, RequestSelection};

use crate::resource::{DEPLOYMENTS, LEASES, NODES};
use crate::server::{FaultInjection, InjectedAction, RequestInfo, ResponseDelivery};
use crate::status_error::{StatusError, StatusReason};
use crate::store::ObjectStore;

/// The time after which the API server gives up on a webhook, by default.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The average latency of a request without faults.
const BASE_LATENCY: Duration = Duration::from_millis(5);

/// The active faults of one API server, each with its number on the timeline.
#[derive(Debug)]
pub(crate) struct ActiveFaults {
    rng: Rng,
    faults: Vec<ActiveFault>,
    /// The snapshots that stale reads are served from, oldest first, each with its share of the
    /// reads.
    stale_stores: Vec<(usize, ObjectStore, f64)>,
}

/// A fault with its number on the timeline and the requests that it affects.
#[derive(Debug)]
struct ActiveFault {
    number: usize,
    fault: Fault,
    requests: RequestSelection,
}

impl ActiveFaults {
    /// Creates a server's faults, with none active.
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            rng,
            faults: Vec::new(),
            stale_stores: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, number: usize, incident: &Incident) {
        self.faults.push(ActiveFault {
            number,
            fault: incident.fault.clone(),
            requests: incident.requests,
        });
    }

    pub(crate) fn end(&mut self, number: usize) {
        self.faults.retain(|active| active.number != number);
        self.stale_stores.retain(|(own, ..)| *own != number);
    }

    /// Serves a share of the reads from `store`, unless an older snapshot serves them, until fault
    /// `number` ends.
    pub(crate) fn add_stale_store(&mut self, number: usize, store: ObjectStore, share: f64) {
        self.stale_stores.push((number, store, share));
    }

    /// Returns whether the API server is unreachable for all clients.
    pub(crate) fn is_down(&self) -> bool {
        self.any(|fault| matches!(fault, Fault::Outage(_) | Fault::EtcdOutage))
    }

    /// Returns whether the cluster's etcd is down.
    pub(crate) fn is_etcd_down(&self) -> bool {
        self.any(|fault| *fault == Fault::EtcdOutage)
    }

    /// Returns whether host names cannot be resolved.
    pub(crate) fn is_dns_down(&self) -> bool {
        self.any(|fault| *fault == Fault::Dns)
    }

    /// Returns whether all connections of the watchdog hang, not only some of its requests.
    pub(crate) fn is_stalled(&self) -> bool {
        self.faults.iter().any(|active| {
            matches!(active.fault, Fault::Stall(_)) && active.requests == RequestSelection::All
        })
    }

    /// Returns the faults that affect a request.
    fn affecting<'a>(&'a self, request: &'a RequestInfo) -> impl Iterator<Item = &'a Fault> {
        let affecting = self.faults.iter().filter(|active| active.affects(request));
        affecting.map(|active| &active.fault)
    }

    /// Returns the latency that faults add to a request.
    fn added_latency(&self, request: &RequestInfo) -> Duration {
        let all = self.affecting(request).map(|fault| match fault {
            Fault::Latency(_, by) => *by,
            _ => Duration::ZERO,
        });
        all.sum()
    }

    /// Returns the faults to inject into a request of the watchdog.
    pub(crate) fn injection(&mut self, request: &RequestInfo) -> FaultInjection {
        if self.is_down() {
            return FaultInjection::reset();
        }
        if self
            .affecting(request)
            .any(|fault| matches!(fault, Fault::Stall(_)))
        {
            return FaultInjection::hang();
        }
        let latency = BASE_LATENCY.mul_f64(0.5 + self.rng.f64());
        let mut injection = FaultInjection::delayed(latency + self.added_latency(request));
        let rng = &mut self.rng;
        let mut is_stale = |share: f64| share >= 1.0 || rng.f64() < share;
        let stale = self.stale_stores.iter();
        if let Some((_, store, _)) = stale.into_iter().find(|(.., share)| is_stale(*share)) {
            injection.action = InjectedAction::ServeStale(store.clone());
        }
        for active in &self.faults {
            match &active.fault {
                Fault::Refusal { status, share, .. }
                    if active.affects(request) && self.rng.f64() < *share =>
                {
                    injection.action = InjectedAction::Reject(rejection(*status, &mut self.rng));
                }
                Fault::WebhookOutage if calls_webhook(request) => {
                    let error = webhook_error(
                        "no endpoints available for service \"gardener-resource-manager\"",
                    );
                    injection.action = InjectedAction::Reject(error);
                }
                Fault::WebhookTimeout if calls_webhook(request) => {
                    injection.delay += WEBHOOK_TIMEOUT;
                    let error = webhook_error("context deadline exceeded");
                    injection.action = InjectedAction::Reject(error);
                }
                Fault::BodyCut { resets, .. } if request.verb == "list" => {
                    injection.delivery = ResponseDelivery::CutMidway { resets: *resets };
                }
                _ => {}
            }
        }
        injection
    }

    fn any(&self, predicate: impl Fn(&Fault) -> bool) -> bool {
        self.faults.iter().any(|active| predicate(&active.fault))
    }
}

impl ActiveFault {
    fn affects(&self, request: &RequestInfo) -> bool {
        match self.requests {
            RequestSelection::All => true,
            RequestSelection::Leases => request.resource == Some(LEASES),
            RequestSelection::Nodes => request.resource == Some(NODES),
            RequestSelection::Version => request.path == "/version",
        }
    }
}

/// Returns whether the API server asks the admission webhook for Deployments about a request. The
/// rule of a webhook for `deployments` does not match their subresources.
fn calls_webhook(request: &RequestInfo) -> bool {
    request.resource == Some(DEPLOYMENTS)
        && request.subresource.is_empty()
        && ["create", "update", "patch"].contains(&request.verb)
}

/// Builds the error of a write whose webhook does not answer.
fn webhook_error(why: &str) -> StatusError {
    let text = "failed calling webhook \"high-availability-config.resources.gardener.cloud\": \
                failed to call webhook: Post \
                \"https://gardener-resource-manager.garden.svc:443/webhooks/\
                high-availability-config?timeout=10s\"";
    let message = format!("Internal error occurred: {text}: {why}");
    StatusError::new(StatusReason::InternalError, &message)
}

/// Builds the error of an injected rejection. Half of the 429s carry `retryAfterSeconds`: mostly a
/// short delay, as real API servers send, sometimes one that is too long to wait for.
fn rejection(status: u16, rng: &mut Rng) -> StatusError {
    let reason = match status {
        401 => StatusReason::Unauthorized,
        403 => StatusReason::Forbidden,
        429 => StatusReason::TooManyRequests,
        503 => StatusReason::ServiceUnavailable,
        504 => StatusReason::Timeout,
        _ => StatusReason::InternalError,
    };
    let mut error = StatusError::new(reason, "injected by the scenario");
    if reason == StatusReason::TooManyRequests && rng.bool() {
        let seconds = rng.choice([1, 1, 5, 30, 300]);
        let details = error.details.get_or_insert_default();
        details.insert("retryAfterSeconds".into(), seconds.into());
    }
    error
}

#[cfg(test)]
mod tests {
    use kelpie_config::scenario::FaultSite;
    use kelpie_core::Time;

    use super::*;
    use crate::GroupResource;
    use crate::clock::SimClock;
    use crate::resource::NAMESPACES;
    use crate::server::UserInfo;
    use crate::store::DeleteOptions;

    fn request(verb: &'static str, resource: Option<GroupResource>) -> RequestInfo {
        let path = if resource.is_none() { "/version" } else { "/" };
        RequestInfo {
            received_at: Time::MIN,
            is_held: false,
            user: UserInfo::admin(),
            verb,
            resource,
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            path: path.to_owned(),
        }
    }

    fn version_request() -> RequestInfo {
        request("get", None)
    }

    fn active(fault: Fault, requests: RequestSelection) -> ActiveFaults {
        let mut faults = ActiveFaults::new(Rng::with_seed(1));
        let incident = Incident::new(Duration::ZERO, None, fault);
        faults.begin(0, &incident.for_requests(requests));
        faults
    }

    /// Returns the `retryAfterSeconds` of 100 rejections with this status code.
    fn retry_after(status: u16) -> Vec<Option<u64>> {
        let (site, share) = (FaultSite::Seed, 1.0);
        let fault = Fault::Refusal {
            site,
            status,
            share,
        };
        let mut faults = active(fault, RequestSelection::All);
        let injections = (0..100).map(|_| faults.injection(&version_request()));
        let retry_after = injections.map(|injection| match injection.action {
            InjectedAction::Reject(error) => error.details?.get("retryAfterSeconds")?.as_u64(),
            action => panic!("{action:?}"),
        });
        retry_after.collect()
    }

    #[test]
    fn throttled_requests_may_get_retry_after() {
        let throttled = retry_after(429);
        for expected in [None, Some(1), Some(300)] {
            assert!(throttled.contains(&expected), "{expected:?}");
        }
        assert_eq!(retry_after(503), [None; 100]);
    }

    #[test]
    fn faults_affect_selected_requests_only() {
        let latency = Fault::Latency(FaultSite::Shoot, Duration::from_secs(9));
        let stall = Fault::Stall(FaultSite::Shoot);
        let refusal = Fault::Refusal {
            site: FaultSite::Shoot,
            status: 503,
            share: 1.0,
        };
        let is_hit = |fault: &Fault, requests, request: &RequestInfo| {
            let injection = active(fault.clone(), requests).injection(request);
            injection.delay >= Duration::from_secs(9)
                || injection.delivery == ResponseDelivery::Withheld
                || matches!(injection.action, InjectedAction::Reject(_))
        };
        let lists = [request("list", Some(LEASES)), request("list", Some(NODES))];
        for fault in [latency, stall, refusal] {
            for (requests, expected) in [
                (RequestSelection::All, [true, true, true]),
                (RequestSelection::Leases, [true, false, false]),
                (RequestSelection::Nodes, [false, true, false]),
                (RequestSelection::Version, [false, false, true]),
            ] {
                let hit = [&lists[0], &lists[1], &version_request()]
                    .map(|request| is_hit(&fault, requests, request));
                assert_eq!(hit, expected, "{fault}: {requests:?}");
            }
        }
        let limited = active(Fault::Stall(FaultSite::Shoot), RequestSelection::Leases);
        assert!(!limited.is_stalled());
    }

    #[test]
    fn webhook_faults_spare_scale() {
        for (fault, seconds) in [(Fault::WebhookOutage, 0), (Fault::WebhookTimeout, 10)] {
            let mut faults = active(fault, RequestSelection::All);
            let patch = request("patch", Some(DEPLOYMENTS));
            let injection = faults.injection(&patch);
            assert_eq!(injection.delay.as_secs(), seconds);
            let InjectedAction::Reject(error) = injection.action else {
                panic!("served");
            };
            assert_eq!(error.reason.code(), 500);
            assert!(error.message.contains("failed calling webhook"));
            let scale = RequestInfo {
                subresource: "scale".into(),
                ..patch
            };
            for served in [scale, request("list", Some(DEPLOYMENTS)), version_request()] {
                let injection = faults.injection(&served);
                let action = injection.action;
                assert!(matches!(action, InjectedAction::Serve), "{action:?}");
                assert_eq!(injection.delay.as_secs(), 0);
            }
        }
    }

    #[test]
    fn stale_replicas_serve_their_share() {
        let mut faults = ActiveFaults::new(Rng::with_seed(1));
        let clock = SimClock::new(|| Time::from_unix(1_700_000_000, 0));
        faults.add_stale_store(0, ObjectStore::new(clock, 1), 0.3);
        let list = request("list", Some(LEASES));
        let stale = (0..1_000)
            .filter(|_| {
                let action = faults.injection(&list).action;
                matches!(action, InjectedAction::ServeStale(_))
            })
            .count();
        assert!((250..350).contains(&stale), "{stale}");
    }

    #[test]
    fn overlapping_stale_reads_end_separately() {
        let mut faults = ActiveFaults::new(Rng::with_seed(1));
        let clock = || SimClock::new(|| Time::from_unix(1_700_000_000, 0));
        let (old, new) = (ObjectStore::new(clock(), 1), ObjectStore::new(clock(), 2));
        let options = DeleteOptions::immediate();
        old.delete(&NAMESPACES, "", "default", &options).unwrap();
        let versions = (old.version(), new.version());
        assert_ne!(versions.0, versions.1);
        let served_version =
            |faults: &mut ActiveFaults| match faults.injection(&version_request()).action {
                InjectedAction::ServeStale(store) => Some(store.version()),
                _ => None,
            };
        faults.add_stale_store(0, old, 1.0);
        faults.add_stale_store(1, new, 1.0);
        assert_eq!(served_version(&mut faults), Some(versions.0));
        faults.end(0);
        assert_eq!(served_version(&mut faults), Some(versions.1));
        faults.end(1);
        assert_eq!(served_version(&mut faults), None);
    }
}
