//! Leader election on a real API server, with no more rights than Gardener grants.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kelpie_bell::Listener;
use kelpie_e2e::{ApiServer, ControlPlane, Credentials, poll};
use kelpie_kube::leader::{ElectionSettings, Leadership, elect};
use kube::Api;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{PATIENCE, apply, seed};

const NAME: &str = "dwd-prober-leader-election";

/// A candidate that takes part.
struct Candidate {
    leadership: Listener<Leadership>,
    token: CancellationToken,
    task: JoinHandle<()>,
}

/// Faster than in production: tests wait for leases to run out.
fn fast(identity: &str) -> ElectionSettings {
    ElectionSettings {
        namespace: "garden".into(),
        name: NAME.into(),
        identity: identity.into(),
        lease_duration: Duration::from_secs(4),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(500),
    }
}

/// As the flags have it by default.
fn usual(identity: &str) -> ElectionSettings {
    ElectionSettings {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        ..fast(identity)
    }
}

impl Candidate {
    async fn new(api: &ApiServer, credentials: &Credentials, settings: ElectionSettings) -> Self {
        let seed = seed(api, credentials).await;
        let token = CancellationToken::new();
        let (leadership, election) = elect(&seed, settings, token.clone());
        Self {
            leadership,
            token,
            task: tokio::spawn(election),
        }
    }

    /// Waits until it leads, and says until when.
    async fn leads(&mut self) -> Instant {
        let is_leader = |leadership| matches!(leadership, Leadership::Leader { .. });
        let leads = self.leadership.until(is_leader);
        match timeout(PATIENCE, leads).await.unwrap() {
            Leadership::Leader { until } => until,
            Leadership::Standby => unreachable!(),
        }
    }

    /// Waits until a renewal has moved the end of its leadership on.
    async fn renews(&mut self) {
        let before = self.leads().await;
        let renewed = poll::until("a renewal", PATIENCE, async || {
            let now = self.leadership.peek();
            Ok(matches!(now, Leadership::Leader { until } if until > before).then_some(()))
        });
        renewed.await.unwrap();
    }

    async fn stands_by(&mut self) {
        let stands_by = self.leadership.until(|now| now == Leadership::Standby);
        timeout(PATIENCE, stands_by).await.unwrap();
    }

    fn may_act(&self) -> bool {
        self.leadership.peek().may_act(Instant::now())
    }
}

/// What Gardener grants for the election, and nothing else.
async fn grant(api: &ApiServer) -> Credentials {
    api.kubectl(&["create", "namespace", "garden"])
        .await
        .unwrap();
    let role = format!(
        r#"{{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {{"name": "election", "namespace": "garden"}}, "rules": [
            {{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}},
            {{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                "resourceNames": ["{NAME}"], "verbs": ["get", "watch", "update"]}}]}}"#
    );
    apply(api, &role).await;
    let bind = "create rolebinding election --namespace=garden --role=election --user=dwd";
    let bind: Vec<&str> = bind.split(' ').collect();
    api.kubectl(&bind).await.unwrap();
    api.user("dwd", &[]).unwrap()
}

async fn lease(plane: &ControlPlane) -> (String, i32, i32) {
    let leases: Api<Lease> = Api::namespaced(plane.client().await.unwrap(), "garden");
    let spec = leases.get(NAME).await.unwrap().spec.unwrap();
    (
        spec.holder_identity.unwrap_or_default(),
        spec.lease_transitions.unwrap(),
        spec.lease_duration_seconds.unwrap(),
    )
}

#[tokio::test]
async fn one_leads_and_the_other_follows_within_a_second_of_the_release() {
    let plane = ControlPlane::start().await.unwrap();
    let user = grant(&plane.api).await;
    let mut first = Candidate::new(&plane.api, &user, usual("first")).await;
    first.leads().await;
    assert_eq!(lease(&plane).await, ("first".into(), 0, 15));
    let mut second = Candidate::new(&plane.api, &user, usual("second")).await;
    for _ in 0..2 {
        first.renews().await;
    }
    assert!(!second.may_act());

    let begin = Instant::now();
    first.token.cancel();
    first.task.await.unwrap();
    assert_eq!(first.leadership.peek(), Leadership::Standby);
    second.leads().await;
    let gap = begin.elapsed();

    println!("from the release to the next leader: {gap:?}");
    assert!(gap < Duration::from_secs(1), "{gap:?}");
    assert_eq!(lease(&plane).await, ("second".into(), 1, 15));
    second.token.cancel();
    second.task.await.unwrap();
    assert_eq!(lease(&plane).await, (String::new(), 1, 1));
}

#[tokio::test]
async fn a_leader_that_vanished_is_followed_after_its_lease_and_not_before() {
    let plane = ControlPlane::start().await.unwrap();
    let user = grant(&plane.api).await;
    let mut first = Candidate::new(&plane.api, &user, fast("first")).await;
    first.leads().await;
    let mut second = Candidate::new(&plane.api, &user, fast("second")).await;
    first.renews().await;
    let until = first.leads().await;

    let begin = Instant::now();
    first.task.abort();
    let _ = first.task.await;
    second.leads().await;

    let took = begin.elapsed();
    println!("from the kill to the next leader: {took:?}");
    assert!(Instant::now() > until);
    // The lease of 4 s, less what had passed since its last renewal; a look more at most.
    assert!(took > Duration::from_secs(3), "{took:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_before_its_lease_runs_out_and_comes_back() {
    let mut plane = ControlPlane::start().await.unwrap();
    let user = grant(&plane.api).await;
    let mut only = Candidate::new(&plane.api, &user, fast("only")).await;
    only.leads().await;

    plane.api.go_down();
    let until = only.leads().await;
    only.stands_by().await;

    let now = Instant::now();
    assert!(now >= until || !only.may_act());
    assert!(now < until + Duration::from_secs(1), "told too late");
    plane.api.come_back().await.unwrap();
    only.leads().await;
    assert!(only.may_act());
    // It was its own lease all the time: it never changed hands.
    assert_eq!(lease(&plane).await, ("only".into(), 0, 4));
}

#[tokio::test]
async fn without_permission_nobody_leads_and_once_it_is_granted_somebody_does() {
    let plane = ControlPlane::start().await.unwrap();
    let user = plane.api.user("dwd", &[]).unwrap();
    let mut early = Candidate::new(&plane.api, &user, fast("early")).await;
    // Neither the namespace nor the permission is there yet.
    let patient = timeout(Duration::from_secs(1), early.leadership.heard()).await;
    assert!(patient.is_err(), "it does not lead");
    assert!(!early.may_act());

    grant(&plane.api).await;

    early.leads().await;
    assert!(early.may_act());
    early.token.cancel();
    timeout(PATIENCE, early.task).await.unwrap().unwrap();
    assert_eq!(lease(&plane).await, (String::new(), 0, 1));
}

#[tokio::test]
async fn what_others_wrote_into_the_lease_stays_there() {
    let plane = ControlPlane::start().await.unwrap();
    let user = grant(&plane.api).await;
    let mut only = Candidate::new(&plane.api, &user, fast("only")).await;
    only.leads().await;
    let label = ["label", "lease", NAME, "--namespace=garden", "kept=yes"];
    plane.api.kubectl(&label).await.unwrap();
    // Somebody else's write is no reason to lose the lease.
    for _ in 0..3 {
        only.renews().await;
    }

    let leases: Api<Lease> = Api::namespaced(plane.client().await.unwrap(), "garden");
    let found = leases.get(NAME).await.unwrap();
    let labels = found.metadata.labels.unwrap();
    assert_eq!(labels["kept"], "yes");
}
