//! Our own clients, as the product uses them.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kelpie_core::fence::Sight;
use kelpie_core::{ResourceRef, Time};
use kelpie_e2e::{Credentials, Simulated};
use kelpie_kube::kubeconfig::Access;
use kelpie_kube::leader::{ElectionSettings, Leadership, elect};
use kelpie_kube::seed::{Answer, Change, Note, NoteKind, ObjectRef, Permission, Seed};
use kelpie_kube::tenant::{Haste, Keeping, Tenant};
use kelpie_sim::Selection;
use kelpie_sim::resource::{EVENTS, LEASES, SECRETS};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::cluster;
use crate::seed::seed_of;

const PATIENCE: Duration = Duration::from_secs(30);

async fn seed(simulated: &Simulated) -> Seed {
    seed_of(&simulated.kubeconfig(&Credentials::admin())).await
}

#[tokio::test]
async fn a_tenant_is_probed() {
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
        let access = Access::from_kubeconfig(kubeconfig.as_bytes()).unwrap();
        let mut tenant = Tenant::new(access, Keeping::Kept);
        let deadline = Instant::now() + PATIENCE;
        let probed = tenant.probe(Haste::Routine, deadline).await;
        probed.version.unwrap();
        let listed = probed.leases.unwrap().unwrap();
        let renewed: Vec<_> = listed.leases.iter().map(|lease| lease.renew_time).collect();
        let at = |second: i64| Some(Time::from_unix(1_800_000_000 + second, 0));
        assert_eq!(renewed, [at(0), at(1)]);
        let nodes = tenant.nodes(deadline).await.unwrap();
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2"]);
    }
}

#[tokio::test]
async fn a_seed_is_watched_fenced_and_told() {
    let simulated = cluster().await;
    let store = simulated.server.store();
    let secret = json!({ "metadata": { "name": "dwd" }, "stringData": { "kubeconfig": "k" } });
    store.create(&SECRETS, "default", secret).unwrap();
    let seed = seed(&simulated).await;
    assert_eq!(seed.version().await.unwrap(), "v1.36.4");

    let mut secrets = pin!(seed.secrets("dwd", None));
    let mut next = async || timeout(PATIENCE, secrets.next()).await.unwrap().unwrap();
    assert!(matches!(next().await, Change::Restarted));
    assert!(matches!(next().await, Change::Applied(secret) if secret.kubeconfig.is_some()));
    assert!(matches!(next().await, Change::Synced));
    let now = kelpie_sim::Deletion::now();
    store.delete(&SECRETS, "default", "dwd", &now).unwrap();
    assert!(matches!(next().await, Change::Deleted { .. }));

    let target = ResourceRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "kcm".into(),
    };
    let targets = seed.targets();
    let Sight::Present(present) = targets.read("default", &target).await.unwrap() else {
        panic!("the deployment is there");
    };
    assert_eq!(present.replicas, 2);
    let scaled = targets.scale("default", &target, &present.version, 0).await;
    scaled.unwrap();
    let late = targets.scale("default", &target, &present.version, 1).await;
    late.unwrap_err();

    let question = Permission {
        verb: "patch".into(),
        group: "apps".into(),
        resource: "deployments".into(),
        subresource: Some("scale".into()),
        ..Permission::default()
    };
    let answers = seed.may(&[question]).await.unwrap();
    assert_eq!(answers[0].1, Answer::Allowed);

    let events = seed.events("kelpie", "kelpie-0");
    let note = Note {
        about: ObjectRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "default".into(),
            name: "kcm".into(),
            uid: None,
        },
        kind: NoteKind::Warning,
        reason: "Fenced",
        action: "Scale",
        message: "scaled to 0".into(),
    };
    events.publish(note.clone());
    events.publish(note);
    let token = CancellationToken::new();
    let posting = tokio::spawn(events.run(token.clone()));
    let counted = kelpie_e2e::poll::until("the Event to be counted", PATIENCE, async || {
        let (posted, _) = store.list(&EVENTS, &Selection::all())?;
        Ok(posted.into_iter().find(|event| event["count"] == 2))
    });
    assert_eq!(counted.await.unwrap()["reason"], "Fenced");
    token.cancel();
    posting.await.unwrap();
}

#[tokio::test]
async fn of_two_candidates_one_leads_and_the_other_follows() {
    let simulated = cluster().await;
    let seed = seed(&simulated).await;
    let candidate = |identity: &str, token: &CancellationToken| {
        let settings = ElectionSettings {
            namespace: "default".into(),
            name: "leader".into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(4),
            renew_deadline: Duration::from_secs(3),
            retry_period: Duration::from_millis(500),
        };
        let (leadership, candidate) = elect(&seed, settings, token.clone());
        (leadership, tokio::spawn(candidate))
    };
    let leads = |leadership| matches!(leadership, Leadership::Leader { .. });
    let (first_token, second_token) = (CancellationToken::new(), CancellationToken::new());
    let (mut first, first_task) = candidate("first", &first_token);
    timeout(PATIENCE, first.until(leads)).await.unwrap();
    let (mut second, second_task) = candidate("second", &second_token);
    let holder = || {
        let lease = simulated.server.store().get(&LEASES, "default", "leader");
        lease.unwrap()["spec"]["holderIdentity"].clone()
    };
    assert_eq!(holder(), "first");
    first_token.cancel();
    timeout(PATIENCE, second.until(leads)).await.unwrap();
    assert_eq!(holder(), "second");
    second_token.cancel();
    first_task.await.unwrap();
    second_task.await.unwrap();
}
