//! Kelpie's own clients.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kelpie_core::Time;
use kelpie_core::prober::fence::Observed;
use kelpie_core::prober::{ResourceRef, Setting};
use kelpie_e2e::{Credentials, SimApiServer};
use kelpie_kube::client::ClusterClient;
use kelpie_kube::events::{EventType, NewEvent, ObjectRef};
use kelpie_kube::kubeconfig::TenantConfig;
use kelpie_kube::leader::{ElectionSettings, Leadership, ReplicaRole};
use kelpie_kube::rbac::PolicyRule;
use kelpie_kube::resources::KubeconfigSecret;
use kelpie_kube::tenant::{ConnectionReuse, Tenant};
use kelpie_kube::watch::{Selection, WatchEvent};
use kelpie_sim::ObjectSelector;
use kelpie_sim::resource::{EVENTS, LEASES, SECRETS};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::cluster;
use crate::apiserver::connect_with;
use crate::fixture::gardener_nodes;

const TIMEOUT: Duration = Duration::from_secs(30);

async fn connect(simulated: &SimApiServer) -> ClusterClient {
    connect_with(&simulated.kubeconfig(&Credentials::admin())).await
}

#[tokio::test]
async fn tenant_client_probes() {
    let simulated = cluster().await;
    let store = simulated.server.store();
    for (number, name) in ["n1", "n2"].into_iter().enumerate() {
        let lease = json!({
            "metadata": { "name": name },
            "spec": { "holderIdentity": name, "leaseDurationSeconds": 40 },
        });
        store.create(&LEASES, "kube-node-lease", lease).unwrap();
        let at = Time::from_unix(1_800_000_000 + i64::try_from(number).unwrap(), 0);
        store.renew("kube-node-lease", name, at).unwrap();
    }
    let user = simulated.user("kelpie", &["system:masters"]).unwrap();
    for credentials in [Credentials::admin(), user] {
        let kubeconfig = simulated.kubeconfig(&credentials);
        let access = TenantConfig::from_kubeconfig(kubeconfig.as_bytes()).unwrap();
        let tenant = Tenant::new(access, ConnectionReuse::Keep);
        let deadline = Instant::now() + TIMEOUT;
        tenant.version(deadline).await.unwrap();
        let listed = tenant.leases(deadline).await.unwrap();
        assert!(listed.version.is_some());
        let renewed: Vec<_> = listed.leases.iter().map(|lease| lease.renew_time).collect();
        let at = |second: i64| Some(Time::from_unix(1_800_000_000 + second, 0));
        assert_eq!(renewed, [at(0), at(1)]);
        let nodes = tenant.nodes(&gardener_nodes(), deadline).await.unwrap();
        let nodes = nodes.items.finish(None);
        let names: Vec<&str> = nodes.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["n1", "n2"]);
    }
}

#[tokio::test]
async fn seed_client_watches_scales_and_posts_events() {
    let simulated = cluster().await;
    let store = simulated.server.store();
    let secret = json!({ "metadata": { "name": "dwd" }, "stringData": { "kubeconfig": "k" } });
    store.create(&SECRETS, "default", secret).unwrap();
    let api_client = connect(&simulated).await;
    assert_eq!(api_client.version().await.unwrap(), "v1.36.4");

    let mut secrets = pin!(api_client.watch::<KubeconfigSecret>(Selection {
        name: Some("dwd"),
        ..Selection::default()
    }));
    let mut next = async || timeout(TIMEOUT, secrets.next()).await.unwrap().unwrap();
    assert!(matches!(next().await, WatchEvent::Init));
    assert!(matches!(next().await, WatchEvent::Apply(secret) if secret.kubeconfig.is_ok()));
    assert!(matches!(next().await, WatchEvent::InitDone));
    let now = kelpie_sim::DeleteOptions::immediate();
    store.delete(&SECRETS, "default", "dwd", &now).unwrap();
    assert!(matches!(next().await, WatchEvent::Delete { .. }));

    let target = ResourceRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "kcm".into(),
    };
    let targets = api_client.actuators().scale().clone();
    let Observed::Present(present) = targets.read("default", &target).await.unwrap() else {
        panic!("the deployment is there");
    };
    assert_eq!(present.setting.0, 2);
    let scaled = targets
        .scale("default", &target, &present.version, Setting(0))
        .await;
    scaled.unwrap();
    let late = targets
        .scale("default", &target, &present.version, Setting(1))
        .await;
    late.unwrap_err();

    let rule = PolicyRule::new(&["patch"], ("apps", "deployments"), "test").subresource("scale");
    assert_eq!(api_client.denied(&rule).await.unwrap(), []);

    let events = api_client.events("kelpie", "kelpie-0");
    let note = NewEvent {
        about: ObjectRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "default".into(),
            name: "kcm".into(),
            uid: None,
        },
        kind: EventType::Warning,
        reason: "Fenced",
        action: "Scale",
        message: "scaled to 0".into(),
    };
    events.publish(note.clone());
    events.publish(note);
    let token = CancellationToken::new();
    let posting = tokio::spawn(events.run(token.clone()));
    let counted = kelpie_e2e::poll::until("the Event to be counted", TIMEOUT, async || {
        let (posted, _) = store.list(&EVENTS, &ObjectSelector::all())?;
        Ok(posted.into_iter().find(|event| event["count"] == 2))
    });
    assert_eq!(counted.await.unwrap()["reason"], "Fenced");
    token.cancel();
    posting.await.unwrap();
}

#[tokio::test]
async fn leader_election_hands_over() {
    let simulated = cluster().await;
    let api_client = connect(&simulated).await;
    let candidate = |identity: &str, token: &CancellationToken| {
        let settings = ElectionSettings {
            namespace: "default".into(),
            name: "leader".into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(4),
            renew_deadline: Duration::from_secs(3),
            retry_period: Duration::from_millis(500),
        };
        let election = ReplicaRole::Candidate(settings).election(&api_client);
        let leadership = election.leadership();
        let election = election.spawn(|_| {});
        let over = token.clone().cancelled_owned();
        (
            leadership,
            tokio::spawn(async move {
                over.await;
                election.step_down().await;
            }),
        )
    };
    let leads = |leadership| matches!(leadership, Leadership::Leader { .. });
    let (first_token, second_token) = (CancellationToken::new(), CancellationToken::new());
    let (mut first, first_task) = candidate("first", &first_token);
    timeout(TIMEOUT, first.wait_for(leads)).await.unwrap();
    let (mut second, second_task) = candidate("second", &second_token);
    let holder = || {
        let lease = simulated.server.store().get(&LEASES, "default", "leader");
        lease.unwrap()["spec"]["holderIdentity"].clone()
    };
    assert_eq!(holder(), "first");
    first_token.cancel();
    timeout(TIMEOUT, second.wait_for(leads)).await.unwrap();
    assert_eq!(holder(), "second");
    second_token.cancel();
    first_task.await.unwrap();
    second_task.await.unwrap();
}
