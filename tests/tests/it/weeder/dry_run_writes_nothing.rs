//! A dry run reports the deletions it would make, and writes nothing.

use kelpie_e2e::landscape::{TestPod, rest};
use serde_json::{Value, json};

use super::fixture::*;

#[tokio::test]
async fn dry_run_reports_and_writes_nothing() {
    let fixture = Fixture::start().await;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    namespace.create_pod(&TestPod::new("pod")).await.unwrap();
    namespace
        .create_pod(&TestPod::new("ownerless").owner(None))
        .await
        .unwrap();
    let flags = ["--dry-run", "--enable-leader-election=true"];
    let by_flag = fixture.weeder(CONFIG, &flags).await;
    let by_file = fixture
        .weeder(&format!("dryRun: true\n{CONFIG}"), &[])
        .await;
    let second = TestPod::new("created-later");
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    for weeder in [&by_flag, &by_file] {
        let line = ["dry run: would delete", "pod=\"pod\"", "exit code 3"];
        weeder.kelpie.until_line(&line, TIMEOUT).await.unwrap();
        let state = weeder.state().await.unwrap();
        assert_eq!(
            (&state["dryRun"], &state["leads"]),
            (&json!(true), &json!(false))
        );
    }
    namespace.create_pod(&second).await.unwrap();
    for weeder in [&by_flag, &by_file] {
        let line = ["dry run: would delete", "created-later"];
        weeder.kelpie.until_line(&line, TIMEOUT).await.unwrap();
        until_deletions(weeder, 0.0).await;
    }
    assert_eq!(namespace.live_pods().await.unwrap().len(), 3);
    let events = fixture.seed.events("shoot").await.unwrap();
    assert_eq!(events, [Value::Null; 0]);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/garden/leases/dwd-weeder-leader-election";
    let lease = rest::get_opt(&fixture.seed.client, lease).await;
    assert_eq!(lease.unwrap(), None);
}
