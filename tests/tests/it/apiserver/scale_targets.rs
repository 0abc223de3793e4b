//! Reading and scaling targets on a real API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_core::Time;
use kelpie_core::prober::fence::{
    Fencing, FlowReport, Observed, RecordedSetting, ResourceVersion, TargetObject, TargetOutcome,
};
use kelpie_core::prober::{
    Decision, Delays, EgressState, Evaluator, FenceState, Lease, ListResult, ListSpan, Node,
    NodeConventions, NodeSet, Observation, ProbeResult, ProbeSettings, ResourceRef, Setting,
    Target, Verdict,
};
use kelpie_e2e::{ControlPlane, KubeApiServer, poll};
use kelpie_kube::actuator::{ActuatorError, ScaleClient, TargetScope};
use kelpie_kube::client::ApiError;
use tokio::time::Instant;

use super::{TIMEOUT, apply, connect};

const SPEC: &str = r#""selector": {"matchLabels": {"a": "b"}}, "template": {
    "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#;

fn target(api_version: &str, kind: &str, name: &str) -> ResourceRef {
    ResourceRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
    }
}

/// Creates a workload in namespace `default`.
async fn create(api: &KubeApiServer, kind: &str, name: &str, replicas: u32) -> ResourceRef {
    let manifest = format!(
        r#"{{"apiVersion": "apps/v1", "kind": "{kind}", "metadata": {{"name": "{name}",
            "namespace": "default"}}, "spec": {{"replicas": {replicas}, {SPEC}}}}}"#
    );
    apply(api, &manifest).await;
    target("apps/v1", kind, name)
}

async fn present(targets: &ScaleClient, target: &ResourceRef) -> TargetObject {
    match targets.read("default", target).await.unwrap() {
        Observed::Present(present) => present,
        Observed::Missing => panic!("{target} is missing"),
    }
}

#[tokio::test]
async fn stale_version_conflicts() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    let targets = connect(api, &api.admin()).await.actuators().scale().clone();
    for kind in ["Deployment", "StatefulSet"] {
        let target = create(api, kind, "kcm", 2).await;
        let before = present(&targets, &target).await;
        assert_eq!((before.setting.0, before.effective.0), (2, 0), "{kind}");

        let version = targets
            .scale("default", &target, &before.version, Setting(0))
            .await
            .unwrap();

        // A scale returns the version of the object, on which the next write may be based.
        let after = present(&targets, &target).await;
        assert_eq!((after.setting.0, &after.version), (0, &version), "{kind}");
        let stale = targets
            .scale("default", &target, &before.version, Setting(5))
            .await;
        let error = stale.unwrap_err();
        assert_eq!(error.cause(), Some(&ApiError::Conflict), "{error}");
        assert_eq!(present(&targets, &target).await.setting.0, 0, "{kind}");
        let version = targets
            .scale("default", &target, &version, Setting(3))
            .await
            .unwrap();
        let after = present(&targets, &target).await;
        assert_eq!((after.setting.0, after.version), (3, version), "{kind}");
    }
}

#[tokio::test]
async fn reads_of_many_clusters_share_a_list() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    let scope = |number| TargetScope::of_namespace(&format!("ns-{number}"));
    let scopes: Vec<TargetScope> = (0..12).map(scope).collect();
    let mut items = Vec::new();
    for (replicas, scope) in scopes.iter().enumerate().skip(1) {
        let name = &scope.namespace;
        items.push(format!(
            r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}"}}}}"#
        ));
        for (deployment, replicas) in [("kcm", replicas), ("other", 0)] {
            items.push(format!(
                r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{
                "name": "{deployment}", "namespace": "{name}"}},
                "spec": {{"replicas": {replicas}, {SPEC}}}}}"#
            ));
        }
    }
    apply(api, &items.join("\n---\n")).await;
    let api_client = connect(api, &api.admin()).await;
    let (batch_reader, task) = api_client.batch_reader();
    let task = tokio::spawn(task);

    let kcm = Target::new(target("apps/v1", "Deployment", "kcm"));
    let observed = join_all(scopes.iter().map(|scope| batch_reader.read(scope, &kcm))).await;

    let count = |sight: Option<Result<Observed, ActuatorError>>| match sight.unwrap().unwrap() {
        Observed::Present(present) => Some(present.setting.0),
        Observed::Missing => None,
    };
    let counts: Vec<Option<u32>> = observed.into_iter().map(count).collect();
    let expected = (0..12).map(|number| (number > 0).then_some(number));
    assert_eq!(counts, expected.collect::<Vec<_>>());
    assert_eq!(api_client.response_counts(), [(200, 1)].into());
    task.abort();
}

/// Decisions about a cluster of two nodes: a fence while they are silent, and a release once they
/// renew.
fn decisions() -> [Decision; 2] {
    let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
    let nodes = ["a", "b"].map(|name| Node {
        name: name.into(),
        ..Node::default()
    });
    let settings = ProbeSettings {
        initial_delay: Duration::ZERO,
        ..ProbeSettings::default()
    };
    let mut judge = Evaluator::new(settings, at(0));
    let mut decide = |now: i64, renewed: i64, fence: FenceState| {
        let leases = ["a", "b"].map(|name| Lease {
            name,
            renew_time: Some(at(renewed)),
            duration_seconds: Some(40),
        });
        let (start, end) = (at(now), at(now));
        let listed = judge.observe_leases(ListSpan { start, end }, None, leases);
        if judge.nodes_due(&listed, fence) {
            judge.observe_nodes(
                NodeSet::new(&nodes, None, &BTreeMap::new(), &NodeConventions::default()),
                start,
            );
        }
        judge.decide(&Observation {
            start,
            end,
            api_server: ProbeResult::Success,
            external: None,
            egress: EgressState::Works,
            lists: ListResult::Read(listed),
            throttled: None,
            fence,
            stands_by: false,
            released: None,
            delays: Delays::default(),
            jitter: 0.0,
        })
    };
    let fence = [0, 10, 20, 30, 40, 50, 60].map(|now| decide(now, now.min(30), FenceState::None));
    let release = [70, 80, 90, 100, 110].map(|now| decide(now, now, FenceState::Full));
    [fence[6], release[4]]
}

/// Runs a flow to its end, as the prober does.
async fn run_flow(
    targets: &ScaleClient,
    fencing: &mut Fencing,
    decision: &Decision,
    target: &ResourceRef,
) -> FlowReport {
    fencing.apply(decision);
    let mut now = decision.at;
    for _ in 0..100 {
        for step in fencing.poll(now).steps {
            let reply = targets.perform("default", target, &step.call).await;
            if let Some(report) = fencing.reply(step, reply.unwrap(), now) {
                return report;
            }
        }
        // No controller makes the pods ready, so the flow gives up waiting for them.
        now = now.after(Duration::from_millis(500));
    }
    panic!("the flow did not end");
}

#[tokio::test]
async fn any_scalable_kind_is_fenced_and_restored() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    let targets = connect(api, &api.admin()).await.actuators().scale().clone();
    apply(api, DEFINITION).await;
    let wait = [
        "wait",
        "--for=condition=Established",
        "crd",
        "rigs.example.org",
    ];
    api.kubectl(&wait).await.unwrap();
    apply(
        api,
        r#"{"apiVersion": "example.org/v1", "kind": "Rig", "metadata": {"name": "rig",
            "namespace": "default"}, "spec": {"size": 2}}"#,
    )
    .await;
    let [fence, release] = decisions();
    assert_eq!(
        (fence.verdict, release.verdict),
        (Verdict::Fence, Verdict::Release)
    );
    for target in [
        create(api, "Deployment", "kcm", 2).await,
        create(api, "StatefulSet", "etcd", 2).await,
        target("example.org/v1", "Rig", "rig"),
    ] {
        let mut fencing = Fencing::new(Arc::new([Target::new(target.clone())]));

        let report = run_flow(&targets, &mut fencing, &fence, &target).await;

        let outcome = report.outcomes[0];
        let is_scaled = matches!(
            outcome,
            Some(TargetOutcome::Applied {
                setting: Setting(0),
                ..
            })
        );
        assert!(is_scaled, "{target}: {outcome:?}");
        let fenced = present(&targets, &target).await;
        assert_eq!((fenced.setting.0, fenced.marked), (0, true), "{target}");
        assert_eq!(
            fenced.recorded,
            RecordedSetting::Value(Setting(2)),
            "{target}"
        );

        run_flow(&targets, &mut fencing, &release, &target).await;

        let restored = present(&targets, &target).await;
        assert_eq!(
            (restored.setting.0, restored.marked),
            (2, false),
            "{target}"
        );
        assert_eq!(
            restored.recorded,
            RecordedSetting::Value(Setting(2)),
            "{target}"
        );
    }
}

/// A custom resource whose replicas are in the field `size`.
const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition", "metadata": {"name": "rigs.example.org"},
    "spec": {"group": "example.org", "scope": "Namespaced",
        "names": {"plural": "rigs", "singular": "rig", "kind": "Rig"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.size"}}}]}}"#;

#[tokio::test]
async fn unknown_and_unscalable_kinds_are_errors() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    let targets = connect(api, &api.admin()).await.actuators().scale().clone();

    let rows = [
        (
            "v1",
            "ConfigMap",
            "cannot scale ConfigMap x in namespace default: its kind has no scale \
            subresource; configure a kind that has one",
        ),
        (
            "v1",
            "Namespace",
            "cannot scale Namespace x in namespace default: its kind has no scale \
            subresource; configure a kind that has one",
        ),
        (
            "apps/v1",
            "Deploymint",
            "cannot find Deploymint x in namespace default: the API server \
            knows no kind Deploymint in apps/v1",
        ),
        (
            "example.org/v1",
            "Rig",
            "cannot find Rig x in namespace default: the API server knows \
            no kind Rig in example.org/v1",
        ),
    ];
    for (version, kind, expected) in rows {
        let error = targets.read("default", &target(version, kind, "x")).await;
        assert_eq!(error.unwrap_err().to_string(), expected);
    }

    // A kind that was unknown is looked up again.
    apply(api, DEFINITION).await;
    let wait = [
        "wait",
        "--for=condition=Established",
        "crd",
        "rigs.example.org",
    ];
    api.kubectl(&wait).await.unwrap();
    let custom = target("example.org/v1", "Rig", "x");
    poll::until("the new kind", TIMEOUT, async || {
        Ok(targets.check_kind(&custom).await.ok())
    })
    .await
    .unwrap();
    assert_eq!(
        targets.read("default", &custom).await.unwrap(),
        Observed::Missing
    );
    let deployment = target("apps/v1", "Deployment", "x");
    let sight = targets.read("default", &deployment).await.unwrap();
    assert_eq!(sight, Observed::Missing);
    let written = targets
        .scale(
            "default",
            &deployment,
            &ResourceVersion::new("1"),
            Setting(0),
        )
        .await;
    let error = written.unwrap_err();
    assert_eq!(error.cause(), Some(&ApiError::NotFound), "{error}");
}

#[tokio::test]
async fn errors_name_object_and_remedy() {
    let mut control_plane = ControlPlane::start().await.unwrap();
    let target = create(&control_plane.api, "Deployment", "kcm", 1).await;
    let unprivileged = connect(&control_plane.api, &control_plane.api.unprivileged())
        .await
        .actuators()
        .scale()
        .clone();
    let admin = connect(&control_plane.api, &control_plane.api.admin())
        .await
        .actuators()
        .scale()
        .clone();

    let error = unprivileged.read("default", &target).await.unwrap_err();
    let is_denied = error.cause().and_then(ApiError::denied).is_some();
    assert!(is_denied, "{error}");
    let message = error.to_string();
    assert!(
        message.starts_with("may not read Deployment kcm in namespace default: "),
        "{message}"
    );
    assert!(
        message.ends_with("grant get and patch on it and on its scale"),
        "{message}"
    );

    let hurried = admin.with_limit(Duration::ZERO);
    let error = hurried.read("default", &target).await.unwrap_err();
    assert_eq!(error.cause(), Some(&ApiError::TimedOut), "{error}");

    control_plane.api.kill();
    let error = admin.read("default", &target).await.unwrap_err();
    assert!(
        matches!(error.cause(), Some(ApiError::Unavailable(_))),
        "{error}"
    );
}

#[tokio::test]
async fn gardener_rbac_is_sufficient_to_fence() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    let role = "create clusterrole dwd --verb=get,list,watch,update,patch \
        --resource=deployments.apps,deployments.apps/scale";
    let role: Vec<&str> = role.split_whitespace().collect();
    api.kubectl(&role).await.unwrap();
    let bind = "create clusterrolebinding dwd --clusterrole=dwd --user=dwd";
    let bind: Vec<&str> = bind.split(' ').collect();
    api.kubectl(&bind).await.unwrap();
    let target = create(api, "Deployment", "kcm", 1).await;
    let targets = connect(api, &api.user("dwd", &[]).unwrap())
        .await
        .actuators()
        .scale()
        .clone();
    let mut fencing = Fencing::new(Arc::new([Target::new(target.clone())]));
    let [fence, release] = decisions();

    run_flow(&targets, &mut fencing, &fence, &target).await;
    assert_eq!(present(&targets, &target).await.setting.0, 0);
    run_flow(&targets, &mut fencing, &release, &target).await;
    assert_eq!(present(&targets, &target).await.setting.0, 1);
}

#[tokio::test]
async fn concurrent_fences_do_not_block_each_other() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    let items: Vec<String> = (0..200)
        .map(|number| {
            format!(
                r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{
                    "name": "kcm-{number}", "namespace": "default"}},
                    "spec": {{"replicas": 1, {SPEC}}}}}"#
            )
        })
        .collect();
    let list = items.join(",");
    apply(
        api,
        &format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{list}]}}"#),
    )
    .await;
    let targets = connect(api, &api.admin()).await.actuators().scale().clone();
    let begin = Instant::now();
    let fences = (0..200).map(|number| {
        let target = target("apps/v1", "Deployment", &format!("kcm-{number}"));
        let targets = targets.with_limit(Duration::from_secs(20));
        async move {
            let seen = present(&targets, &target).await;
            let scaled = targets
                .scale("default", &target, &seen.version, Setting(0))
                .await;
            scaled.unwrap();
        }
    });
    join_all(fences).await;
    let took = begin.elapsed();
    println!("200 reads and scales at once: {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}
