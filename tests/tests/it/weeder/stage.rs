//! What the tests of `kelpie weeder` share.

use std::time::Duration;

use kelpie_e2e::landscape::{Dependants, Proxy, Seed, Weeder};
use kelpie_e2e::poll;
use serde_json::Value;

/// How long anything may take that is expected to happen, on a loaded machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// The service that comes back in most tests, and its slice.
pub(super) const ETCD: &str = "etcd";

/// Pods labelled `role: dependant` depend on etcd. Windows are longer than any test, and so are
/// spread over seconds at start.
pub(super) const CONFIG: &str = "\
watchDuration: 20s
servicesAndDependantSelectors:
  etcd:
    podSelectors:
    - matchLabels: {role: dependant}
";

/// A seed without Gardener's kinds: the weeder needs none of them.
pub(super) struct Stage {
    pub(super) seed: Seed,
}

impl Stage {
    pub(super) async fn start() -> Self {
        Self {
            seed: Seed::bare().await.unwrap(),
        }
    }

    /// A namespace where etcd is away.
    pub(super) async fn without_etcd(&self, namespace: &str) -> Dependants {
        let made = self.bare(namespace).await;
        made.slice(ETCD, ETCD, &[Some(false)]).await.unwrap();
        made
    }

    /// A namespace without any service.
    pub(super) async fn bare(&self, namespace: &str) -> Dependants {
        let made = Dependants::make(&self.seed.client, namespace).await;
        made.unwrap()
    }

    /// The product with all rights, once it knows the services.
    pub(super) async fn weeder(&self, config: &str, flags: &[&str]) -> Weeder {
        let admin = self.seed.plane.api.admin();
        let kubeconfig = self.seed.kubeconfig(&admin).unwrap();
        let weeder = Weeder::start(&kubeconfig, config, flags).await.unwrap();
        until_ready(&weeder).await;
        weeder
    }

    /// The same, speaking to the seed by way of `proxy`.
    pub(super) async fn weeder_via(&self, proxy: &Proxy, config: &str, flags: &[&str]) -> Weeder {
        let admin = self.seed.plane.api.admin();
        let kubeconfig = self.seed.kubeconfig_via(proxy, &admin).unwrap();
        let weeder = Weeder::start(&kubeconfig, config, flags).await.unwrap();
        until_ready(&weeder).await;
        weeder
    }

    /// Waits for an Event of this reason about an object, and gives it.
    pub(super) async fn event(&self, namespace: &str, reason: &str, name: &str) -> Value {
        let what = format!("an Event {reason} about {name}");
        let found = poll::until(&what, PATIENCE, async || {
            let events = self.seed.events(namespace).await?;
            let is_it = |event: &Value| {
                event["reason"] == reason && event["involvedObject"]["name"] == name
            };
            Ok(events.into_iter().find(is_it))
        });
        found.await.unwrap()
    }
}

/// Waits until it has listed the services.
pub(super) async fn until_ready(weeder: &Weeder) {
    let ready = poll::until("a weeder that is ready", PATIENCE, async || {
        let reply = weeder.kelpie.health("/readyz").await?;
        Ok((reply.status == 200).then_some(()))
    });
    ready.await.unwrap();
}

/// Waits until it has an open window for etcd in a namespace.
pub(super) async fn until_window(weeder: &Weeder, namespace: &str) -> Value {
    let is_open = |state: &Value| state["window"].is_object();
    let open = weeder.until_service("a window", namespace, ETCD, PATIENCE, is_open);
    open.await.unwrap()
}

/// Waits until it has none.
pub(super) async fn until_no_window(weeder: &Weeder, namespace: &str) {
    let is_closed = |state: &Value| state["window"].is_null();
    let closed = weeder.until_service("no window", namespace, ETCD, PATIENCE, is_closed);
    closed.await.unwrap();
}

/// Waits until it has seen whether etcd is ready.
pub(super) async fn until_seen(weeder: &Weeder, namespace: &str, ready: bool) {
    let is_seen = |state: &Value| state["ready"] == ready;
    let what = format!("ready to be seen as {ready}");
    let seen = weeder.until_service(&what, namespace, ETCD, PATIENCE, is_seen);
    seen.await.unwrap();
}

/// How many pods it has deleted.
pub(super) async fn deletions(weeder: &Weeder) -> f64 {
    let name = r#"kelpie_weeder_pods_deleted_total{service="etcd"}"#;
    weeder.kelpie.metric(name).await.unwrap()
}

/// Waits until it has counted so many deletions; more are too many. A pod is gone before the answer
/// has come that says so.
pub(super) async fn until_deletions(weeder: &Weeder, expected: f64) {
    let name = r#"kelpie_weeder_pods_deleted_total{service="etcd"}"#;
    until_count(weeder, name, expected).await;
}

/// The same with recoveries of etcd.
pub(super) async fn until_recoveries(weeder: &Weeder, expected: f64) {
    let name = r#"kelpie_weeder_recoveries_total{service="etcd"}"#;
    until_count(weeder, name, expected).await;
}

async fn until_count(weeder: &Weeder, name: &str, expected: f64) {
    let what = format!("{expected} in {name}");
    let count = poll::until(&what, PATIENCE, async || {
        let count = weeder.kelpie.metric(name).await?;
        Ok((count > expected - 0.5).then_some(count))
    });
    let count = count.await.unwrap();
    assert!((count - expected).abs() < 0.1, "{name} is {count}");
}
