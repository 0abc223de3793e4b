//! Leader election on a real API server, with exactly the permissions that Gardener grants.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kelpie_e2e::{ControlPlane, Credentials, KubeApiServer, poll};
use kelpie_kube::leader::{ElectionSettings, Leadership, ReplicaRole};
use kelpie_runtime::watch::Receiver;
use kube::Api;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{TIMEOUT, apply, connect};

const NAME: &str = "dwd-prober-leader-election";

/// A candidate that takes part in the election, in a runtime of its own, so that it can be killed.
struct RunningCandidate {
    leadership: Receiver<Leadership>,
    token: CancellationToken,
    task: JoinHandle<()>,
    runtime: Option<Runtime>,
}

impl Drop for RunningCandidate {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Settings with short durations, for tests that wait for the expiry of the lease.
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

/// The defaults of the flags.
fn default_settings(identity: &str) -> ElectionSettings {
    ElectionSettings {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        ..fast(identity)
    }
}

impl RunningCandidate {
    async fn new(
        api: &KubeApiServer,
        credentials: &Credentials,
        settings: ElectionSettings,
    ) -> Self {
        let api_client = connect(api, credentials).await;
        let token = CancellationToken::new();
        let election = ReplicaRole::Candidate(settings).election(&api_client);
        let leadership = election.leadership();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let election = {
            let _inside = runtime.enter();
            election.spawn(|_| {})
        };
        let over = token.clone().cancelled_owned();
        let task = runtime.spawn(async move {
            over.await;
            election.step_down().await;
        });
        Self {
            leadership,
            token,
            task,
            runtime: Some(runtime),
        }
    }

    /// Waits until the candidate leads, and returns the end of its leadership.
    async fn until_leading(&mut self) -> Instant {
        let is_leader = |leadership| matches!(leadership, Leadership::Leader { .. });
        let leads = self.leadership.wait_for(is_leader);
        match timeout(TIMEOUT, leads).await.unwrap() {
            Leadership::Leader { until } => until,
            Leadership::Standby => unreachable!(),
        }
    }

    /// Waits until a renewal has extended the leadership.
    async fn until_renewed(&mut self) {
        let before = self.until_leading().await;
        let renewed = poll::until("a renewal", TIMEOUT, async || {
            let now = self.leadership.borrow();
            Ok(matches!(now, Leadership::Leader { until } if until > before).then_some(()))
        });
        renewed.await.unwrap();
    }

    async fn until_standby(&mut self) {
        let stands_by = self.leadership.wait_for(|now| now == Leadership::Standby);
        timeout(TIMEOUT, stands_by).await.unwrap();
    }

    fn may_act(&self) -> bool {
        self.leadership.borrow().may_act(Instant::now())
    }
}

/// Creates a user with exactly the permissions that Gardener grants for leader election.
async fn create_user(api: &KubeApiServer) -> Credentials {
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

/// Reads holder, transitions and duration of the Lease.
async fn lease(control_plane: &ControlPlane) -> (String, i32, i32) {
    let leases: Api<Lease> = Api::namespaced(control_plane.client().await.unwrap(), "garden");
    let spec = leases.get(NAME).await.unwrap().spec.unwrap();
    (
        spec.holder_identity.unwrap_or_default(),
        spec.lease_transitions.unwrap(),
        spec.lease_duration_seconds.unwrap(),
    )
}

#[tokio::test]
async fn standby_leads_within_a_second_of_release() {
    let control_plane = ControlPlane::start().await.unwrap();
    let user = create_user(&control_plane.api).await;
    let mut first =
        RunningCandidate::new(&control_plane.api, &user, default_settings("first")).await;
    first.until_leading().await;
    assert_eq!(lease(&control_plane).await, ("first".into(), 0, 15));
    let mut second =
        RunningCandidate::new(&control_plane.api, &user, default_settings("second")).await;
    for _ in 0..2 {
        first.until_renewed().await;
    }
    assert!(!second.may_act());

    let begin = Instant::now();
    first.token.cancel();
    (&mut first.task).await.unwrap();
    assert_eq!(first.leadership.borrow(), Leadership::Standby);
    second.until_leading().await;
    let gap = begin.elapsed();

    println!("from the release to the next leader: {gap:?}");
    assert!(gap < Duration::from_secs(1), "{gap:?}");
    assert_eq!(lease(&control_plane).await, ("second".into(), 1, 15));
    second.token.cancel();
    (&mut second.task).await.unwrap();
    assert_eq!(lease(&control_plane).await, (String::new(), 1, 1));
}

#[tokio::test]
async fn killed_leader_is_replaced_after_its_lease() {
    let control_plane = ControlPlane::start().await.unwrap();
    let user = create_user(&control_plane.api).await;
    let mut first = RunningCandidate::new(&control_plane.api, &user, fast("first")).await;
    first.until_leading().await;
    let mut second = RunningCandidate::new(&control_plane.api, &user, fast("second")).await;
    first.until_renewed().await;
    let until = first.until_leading().await;

    let begin = Instant::now();
    drop(first);
    second.until_leading().await;

    let took = begin.elapsed();
    println!("from the kill to the next leader: {took:?}");
    assert!(Instant::now() > until);
    // The lease of 4 s, minus the time since its last renewal, plus at most one retry period.
    assert!(took > Duration::from_secs(3), "{took:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test]
async fn leader_without_api_server_steps_down() {
    let mut control_plane = ControlPlane::start().await.unwrap();
    let user = create_user(&control_plane.api).await;
    let mut only = RunningCandidate::new(&control_plane.api, &user, fast("only")).await;
    only.until_leading().await;

    control_plane.api.kill();
    let until = only.until_leading().await;
    only.until_standby().await;

    let now = Instant::now();
    assert!(now >= until || !only.may_act());
    assert!(
        now < until + Duration::from_secs(1),
        "standby reported too late"
    );
    control_plane.api.restart().await.unwrap();
    only.until_leading().await;
    assert!(only.may_act());
    // No other candidate has held the lease, so there is no transition.
    assert_eq!(lease(&control_plane).await, ("only".into(), 0, 4));
}

#[tokio::test]
async fn election_starts_once_permitted() {
    let control_plane = ControlPlane::start().await.unwrap();
    let user = control_plane.api.user("dwd", &[]).unwrap();
    let mut early = RunningCandidate::new(&control_plane.api, &user, fast("early")).await;
    // Neither the namespace nor the permission exists yet.
    let waited = timeout(Duration::from_secs(1), early.leadership.changed()).await;
    assert!(waited.is_err(), "it must not lead");
    assert!(!early.may_act());

    create_user(&control_plane.api).await;

    early.until_leading().await;
    assert!(early.may_act());
    early.token.cancel();
    timeout(TIMEOUT, &mut early.task).await.unwrap().unwrap();
    assert_eq!(lease(&control_plane).await, (String::new(), 0, 1));
}

#[tokio::test]
async fn foreign_lease_labels_are_kept() {
    let control_plane = ControlPlane::start().await.unwrap();
    let user = create_user(&control_plane.api).await;
    let mut only = RunningCandidate::new(&control_plane.api, &user, fast("only")).await;
    only.until_leading().await;
    let label = ["label", "lease", NAME, "--namespace=garden", "kept=yes"];
    control_plane.api.kubectl(&label).await.unwrap();
    // A write of another client does not cost the leader its lease.
    for _ in 0..3 {
        only.until_renewed().await;
    }

    let leases: Api<Lease> = Api::namespaced(control_plane.client().await.unwrap(), "garden");
    let found = leases.get(NAME).await.unwrap();
    let labels = found.metadata.labels.unwrap();
    assert_eq!(labels["kept"], "yes");
}
