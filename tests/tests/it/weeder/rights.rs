//! The product in the place of dependency-watchdog's weeder: its command line, its rights, and no
//! others. And what `kelpie check weeder` says about them.

use std::process::Output;

use kelpie_e2e::landscape::{PodSpec, Weeder, grant_gardeners_weeder_rights, rest};
use kelpie_e2e::{kelpie, poll};
use serde_json::{Value, json};
use xtask::cache;

use super::stage::*;

/// What Gardener starts, after `--config-file`.
const GARDENERS_FLAGS: [&str; 4] = [
    "-kube-api-qps=20.0",
    "--kube-api-burst=100",
    "--zap-log-level=INFO",
    "--enable-leader-election=true",
];

const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/garden/leases/dwd-weeder-leader-election";

#[tokio::test]
async fn gardeners_command_line_and_rights_are_enough() {
    let stage = Stage::start().await;
    let client = &stage.seed.client;
    let made = stage.without_etcd("shoot").await;
    let other = stage.without_etcd("other").await;
    for made in [&made, &other] {
        for name in ["a", "b"] {
            made.pod(&PodSpec::new(name)).await.unwrap();
        }
        let lonely = PodSpec::new("lonely").owner(None);
        made.pod(&lonely).await.unwrap();
    }
    grant_gardeners_weeder_rights(client, "dwd").await.unwrap();
    let dwd = stage.seed.plane.api.user("dwd", &[]).unwrap();
    // What this test takes for granted.
    let own = stage.seed.plane.api.client(&dwd).await.unwrap();
    let event = json!({
        "metadata": { "generateName": "x." }, "reason": "X",
        "involvedObject": { "kind": "Pod", "namespace": "shoot", "name": "x" },
    });
    let events = "/api/v1/namespaces/shoot/events";
    assert!(rest::create(&own, events, &event).await.is_err());

    let kubeconfig = stage.seed.kubeconfig(&dwd).unwrap();
    // A key of a later version only warns under that name.
    let config = format!("somethingNew: true\n{CONFIG}");
    let name = "dependency-watchdog";
    let weeder = Weeder::start_as(name, &kubeconfig, &config, &GARDENERS_FLAGS);
    let weeder = weeder.await.unwrap();
    until_ready(&weeder).await;
    let leading = poll::until("it to lead", PATIENCE, async || {
        Ok((weeder.state().await?["leads"] == true).then_some(()))
    });
    leading.await.unwrap();
    for made in [&made, &other] {
        made.set(ETCD, &[Some(true)]).await.unwrap();
    }
    for made in [&made, &other] {
        made.until_alive(&["lonely"], PATIENCE).await.unwrap();
    }
    assert_eq!(weeder.kelpie.lines(&["WARN", "somethingNew"]).len(), 1);
    // The refusal is told once; the evidence stands in the log.
    let refused = ["Events are refused"];
    weeder.kelpie.until_line(&refused, PATIENCE).await.unwrap();
    let evidence = weeder.kelpie.lines(&["deleting", "exit code 3 (Error)"]);
    assert_eq!(evidence.len(), 4);
    let forbidden = weeder.kelpie.lines(&["forbidden"]);
    assert_eq!(forbidden.len(), 1, "{forbidden:#?}");
    let lease = rest::read(client, LEASE).await.unwrap();
    assert!(lease["spec"]["holderIdentity"].is_string(), "{lease:#}");

    let ended = weeder.kelpie.stop().await.unwrap();
    assert_eq!(ended.code, Some(0));
    let lease = rest::read(client, LEASE).await.unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    assert_eq!(holder, "", "the Lease was given back");
}

async fn check(stage: &Stage, user: &str) -> Output {
    let user = stage.seed.plane.api.user(user, &[]).unwrap();
    let kubeconfig = stage.seed.kubeconfig(&user).unwrap();
    let example = cache::repository().join("docs/examples/weeder.yaml");
    let arguments = [
        "check",
        "weeder",
        "--enable-leader-election",
        "--output=json",
        &format!("--config-file={}", example.display()),
        &format!("--kubeconfig={}", kubeconfig.display()),
    ];
    kelpie::run(&arguments).await.unwrap()
}

/// The rows of an answer that have this grade, as `about: found`.
fn rows(output: &Output, grade: &str) -> Vec<String> {
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer in JSON");
    let rows = answer["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["grade"] == grade);
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    rows.map(|row| format!("{}: {}", text(row, "about"), text(row, "found")))
        .collect()
}

#[tokio::test]
async fn the_generated_rights_are_enough_and_each_that_is_missing_is_told() {
    const WEEDER: &str = "system:serviceaccount:garden:kelpie-weeder";
    let stage = Stage::start().await;
    let nobody = check(&stage, "nobody").await;
    assert_eq!(nobody.status.code(), Some(1));
    let failed = rows(&nobody, "fail");
    for missing in [
        "permission: may not list endpointslices.discovery.k8s.io, nor watch endpointslices.discovery.k8s.io",
        "permission: may not list pods, nor watch pods",
        "permission: may not delete pods",
        "permission: may not create leases.coordination.k8s.io in namespace garden",
    ] {
        assert!(failed.iter().any(|row| row == missing), "{failed:#?}");
    }

    let rbac = cache::repository().join("deploy/rbac/weeder.yaml");
    let rbac = ["create", "--filename", rbac.to_str().unwrap()];
    stage.seed.plane.api.kubectl(&rbac).await.unwrap();
    let ready = stage.bare("shoot--a").await;
    let client = "etcd-main-client";
    ready.slice("a", client, &[Some(true)]).await.unwrap();
    let away = stage.bare("shoot--b").await;
    away.slice("a", client, &[Some(false)]).await.unwrap();
    // Its authorizer hears of new rights by a watch.
    let granted = poll::until("the rights to be in force", PATIENCE, async || {
        let said = check(&stage, WEEDER).await;
        Ok(said.status.success().then_some(said))
    });
    let said = granted.await.unwrap();
    assert_eq!(
        rows(&said, "warn"),
        [
            "etcd-main-client: in 2 namespaces, not ready in 1, such as shoot--b",
            "kube-apiserver: no namespace has EndpointSlices of this service",
        ]
    );
}
