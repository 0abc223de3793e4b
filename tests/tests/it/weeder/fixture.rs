//! Fixture for the tests of `kelpie weeder`.

use kelpie_e2e::landscape::{SeedCluster, TcpProxy, WeederNamespace, WeederProcess};
use kelpie_e2e::poll;
use serde_json::Value;

use crate::fixture::until_event;
pub(super) use crate::fixture::{ELECTION, TIMEOUT, leads, until_leading};

/// Name of the service that recovers in most tests, and of its EndpointSlice.
pub(super) const ETCD: &str = "etcd";

/// Pods labelled `role: dependant` depend on etcd. A window lasts long enough for everything that a
/// test expects in it. At startup windows open spread over a tenth of that time.
pub(super) const CONFIG: &str = "\
watchDuration: 20s
servicesAndDependantSelectors:
  etcd:
    podSelectors:
    - matchLabels: {role: dependant}
";

/// A seed without Gardener's resources, which the weeder does not need.
pub(super) struct Fixture {
    pub(super) seed: SeedCluster,
}

impl Fixture {
    pub(super) async fn start() -> Self {
        Self {
            seed: SeedCluster::start_without_crds().await.unwrap(),
        }
    }

    /// Creates a namespace whose etcd service is not ready.
    pub(super) async fn namespace_without_etcd(&self, name: &str) -> WeederNamespace {
        let namespace = self.empty_namespace(name).await;
        let slice = namespace.create_slice(ETCD, ETCD, &[Some(false)]);
        slice.await.unwrap();
        namespace
    }

    /// Creates a namespace without any service.
    pub(super) async fn empty_namespace(&self, name: &str) -> WeederNamespace {
        let namespace = WeederNamespace::create(&self.seed.client, name).await;
        namespace.unwrap()
    }

    /// Starts a weeder with admin rights and waits until it has listed the services.
    pub(super) async fn weeder(&self, config: &str, flags: &[&str]) -> WeederProcess {
        let admin = self.seed.control_plane.api.admin();
        let kubeconfig = self.seed.kubeconfig_file(&admin).unwrap();
        let weeder = WeederProcess::start(&kubeconfig, config, flags)
            .await
            .unwrap();
        until_ready(&weeder).await;
        weeder
    }

    /// Starts a weeder with admin rights that reaches the seed through `proxy`, and waits until it
    /// has listed the services.
    pub(super) async fn weeder_through(
        &self,
        proxy: &TcpProxy,
        config: &str,
        flags: &[&str],
    ) -> WeederProcess {
        let admin = self.seed.control_plane.api.admin();
        let kubeconfig = self.seed.kubeconfig_file_via_proxy(proxy, &admin).unwrap();
        let weeder = WeederProcess::start(&kubeconfig, config, flags)
            .await
            .unwrap();
        until_ready(&weeder).await;
        weeder
    }

    /// Waits for an Event with this reason about the object called `name`, and returns the Event.
    pub(super) async fn event(&self, namespace: &str, reason: &str, name: &str) -> Value {
        until_event(&self.seed, namespace, reason, name, TIMEOUT).await
    }
}

/// Waits until the weeder has listed the services.
pub(super) async fn until_ready(weeder: &WeederProcess) {
    let ready = poll::until("a weeder that is ready", TIMEOUT, async || {
        let reply = weeder.kelpie.health("/readyz").await?;
        Ok((reply.status == 200).then_some(()))
    });
    ready.await.unwrap();
}

/// Waits until the weeder has an open window for etcd in this namespace, and returns the service's
/// state.
pub(super) async fn until_window(weeder: &WeederProcess, namespace: &str) -> Value {
    let is_open = |state: &Value| state["window"].is_object();
    let open = weeder.until_service("a window", namespace, ETCD, TIMEOUT, is_open);
    open.await.unwrap()
}

/// Waits until the weeder has no open window for etcd in this namespace.
pub(super) async fn until_no_window(weeder: &WeederProcess, namespace: &str) {
    let is_closed = |state: &Value| state["window"].is_null();
    let closed = weeder.until_service("no window", namespace, ETCD, TIMEOUT, is_closed);
    closed.await.unwrap();
}

/// Waits until the weeder has observed this readiness of etcd.
pub(super) async fn until_observed(weeder: &WeederProcess, namespace: &str, ready: bool) {
    let is_observed = |state: &Value| state["ready"] == ready;
    let what = format!("etcd to be observed with ready={ready}");
    let observed = weeder.until_service(&what, namespace, ETCD, TIMEOUT, is_observed);
    observed.await.unwrap();
}

/// Counts the pods deleted because of etcd.
const DELETIONS: &str = r#"kelpie_weeder_pods_deleted_total{service="etcd"}"#;

/// Returns the number of pods that the weeder has deleted.
pub(super) async fn deletions(weeder: &WeederProcess) -> f64 {
    weeder.kelpie.metric(DELETIONS).await.unwrap()
}

/// Waits until the weeder has counted this many deletions, and asserts that there are no more. The
/// counter follows the deletion with a delay: the pod is gone before the response arrives.
pub(super) async fn until_deletions(weeder: &WeederProcess, expected: f64) {
    until_count(weeder, DELETIONS, expected).await;
}

/// Waits until the weeder has counted this many recoveries of etcd, and asserts that there are no
/// more.
pub(super) async fn until_recoveries(weeder: &WeederProcess, expected: f64) {
    let name = r#"kelpie_weeder_recoveries_total{service="etcd"}"#;
    until_count(weeder, name, expected).await;
}

async fn until_count(weeder: &WeederProcess, name: &str, expected: f64) {
    let what = format!("{name} to be {expected}");
    let count = poll::until(&what, TIMEOUT, async || {
        let count = weeder.kelpie.metric(name).await?;
        Ok((count > expected - 0.5).then_some(count))
    });
    let count = count.await.unwrap();
    assert!((count - expected).abs() < 0.1, "{name} is {count}");
}
