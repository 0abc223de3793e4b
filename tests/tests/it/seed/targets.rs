//! The controllers to fence on a real API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_core::fence::{Fencing, FlowReport, Present, Recorded, Sight, TargetOutcome, Version};
use kelpie_core::{
    Decision, Fence, Judge, Lease, Listing, Lists, Node, Observation, Outcome, ResourceRef, Roster,
    ScaleRule, Settings, Target, Time, Verdict,
};
use kelpie_e2e::{ApiServer, ControlPlane, poll};
use kelpie_kube::seed::{TargetError, Targets};
use tokio::time::Instant;

use super::{PATIENCE, apply, seed};

const SPEC: &str = r#""selector": {"matchLabels": {"a": "b"}}, "template": {
    "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#;

fn target(api_version: &str, kind: &str, name: &str) -> ResourceRef {
    ResourceRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
    }
}

async fn make(api: &ApiServer, kind: &str, name: &str, replicas: u32) -> ResourceRef {
    let manifest = format!(
        r#"{{"apiVersion": "apps/v1", "kind": "{kind}", "metadata": {{"name": "{name}",
            "namespace": "default"}}, "spec": {{"replicas": {replicas}, {SPEC}}}}}"#
    );
    apply(api, &manifest).await;
    target("apps/v1", kind, name)
}

async fn present(targets: &Targets, target: &ResourceRef) -> Present {
    match targets.read("default", target).await.unwrap() {
        Sight::Present(present) => present,
        Sight::Missing => panic!("{target} is missing"),
    }
}

#[tokio::test]
async fn deployments_and_stateful_sets_are_scaled_and_a_stale_version_conflicts() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let targets = seed(api, &api.admin()).await.targets();
    for kind in ["Deployment", "StatefulSet"] {
        let target = make(api, kind, "kcm", 2).await;
        let before = present(&targets, &target).await;
        assert_eq!((before.replicas, before.ready), (2, 0), "{kind}");

        let version = targets
            .scale("default", &target, &before.version, 0)
            .await
            .unwrap();

        // The version that a scale gives is the object's own: the next write may rest on it.
        let after = present(&targets, &target).await;
        assert_eq!((after.replicas, &after.version), (0, &version), "{kind}");
        let stale = targets.scale("default", &target, &before.version, 5).await;
        let error = stale.unwrap_err();
        assert!(matches!(error, TargetError::Conflict { .. }), "{error}");
        assert_eq!(present(&targets, &target).await.replicas, 0, "{kind}");
        let version = targets
            .scale("default", &target, &version, 3)
            .await
            .unwrap();
        let after = present(&targets, &target).await;
        assert_eq!((after.replicas, after.version), (3, version), "{kind}");
    }
}

#[tokio::test]
async fn the_looks_of_many_clusters_are_answered_by_one_list() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let names: Vec<Arc<str>> = (0..12)
        .map(|number| format!("ns-{number}").into())
        .collect();
    let mut items = Vec::new();
    for (replicas, name) in names.iter().enumerate().skip(1) {
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
    let seed = seed(api, &api.admin()).await;
    let (survey, answering) = seed.survey();
    let answering = tokio::spawn(answering);

    let kcm = target("apps/v1", "Deployment", "kcm");
    let sights = join_all(names.iter().map(|name| survey.look(name, &kcm))).await;

    let count = |sight: Option<Result<Sight, TargetError>>| match sight.unwrap().unwrap() {
        Sight::Present(present) => Some(present.replicas),
        Sight::Missing => None,
    };
    let counts: Vec<Option<u32>> = sights.into_iter().map(count).collect();
    let expected = (0..12).map(|number| (number > 0).then_some(number));
    assert_eq!(counts, expected.collect::<Vec<_>>());
    assert_eq!(seed.answers(), [(200, 1)].into());
    answering.abort();
}

/// A judged cluster of two nodes: fenced while they are silent, released once they renew.
fn decisions() -> [Decision; 2] {
    let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
    let nodes = ["a", "b"].map(|name| Node {
        name: name.into(),
        ..Node::default()
    });
    let settings = Settings {
        initial_delay: Duration::ZERO,
        ..Settings::default()
    };
    let mut judge = Judge::new(settings, at(0));
    let mut decide = |now: i64, renewed: i64, fence: Fence| {
        let leases = ["a", "b"].map(|name| Lease {
            name,
            renew_time: Some(at(renewed)),
            duration_seconds: Some(40),
        });
        let (start, end) = (at(now), at(now));
        let listed = judge.read(Listing { start, end }, leases);
        if judge.nodes_due(&listed, fence) {
            judge.learn(Roster::new(&nodes, None, &BTreeMap::new()), start);
        }
        judge.decide(&Observation {
            start,
            end,
            api_server: Outcome::Success,
            external: None,
            lists: Lists::Read(listed),
            throttled: None,
            fence,
            stands_by: false,
            released: None,
            jitter: 0.0,
        })
    };
    let fence = [0, 10, 20, 30, 40, 50, 60].map(|now| decide(now, now.min(30), Fence::None));
    let release = [70, 80, 90, 100, 110].map(|now| decide(now, now, Fence::Full));
    [fence[6], release[4]]
}

/// Runs a flow to its end, as the prober does.
async fn flow(
    targets: &Targets,
    fencing: &mut Fencing,
    decision: &Decision,
    target: &ResourceRef,
) -> FlowReport {
    fencing.steer(decision);
    let mut now = decision.at;
    for _ in 0..100 {
        for step in fencing.poll(now).steps {
            let reply = targets.perform("default", target, &step.call).await;
            if let Some(report) = fencing.reply(step, reply.unwrap(), now) {
                return report;
            }
        }
        // Nobody makes the pods ready here: the flow stops waiting for them after a while.
        now = now.after(Duration::from_millis(500));
    }
    panic!("a flow without an end");
}

#[tokio::test]
async fn a_flow_fences_and_restores_whatever_has_a_scale_subresource() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let targets = seed(api, &api.admin()).await.targets();
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
        make(api, "Deployment", "kcm", 2).await,
        make(api, "StatefulSet", "etcd", 2).await,
        target("example.org/v1", "Rig", "rig"),
    ] {
        let mut fencing = Fencing::new(Arc::new([Target {
            resource: target.clone(),
            optional: false,
            up: ScaleRule::default(),
            down: ScaleRule::default(),
        }]));

        let report = flow(&targets, &mut fencing, &fence, &target).await;

        let outcome = report.outcomes[0];
        let is_scaled = matches!(outcome, Some(TargetOutcome::Scaled { replicas: 0, .. }));
        assert!(is_scaled, "{target}: {outcome:?}");
        let fenced = present(&targets, &target).await;
        assert_eq!((fenced.replicas, fenced.marked), (0, true), "{target}");
        assert_eq!(fenced.recorded, Recorded::Count(2), "{target}");

        flow(&targets, &mut fencing, &release, &target).await;

        let restored = present(&targets, &target).await;
        assert_eq!((restored.replicas, restored.marked), (2, false), "{target}");
        assert_eq!(restored.recorded, Recorded::Count(2), "{target}");
    }
}

/// A kind that counts in a field of its own.
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
async fn a_kind_that_cannot_be_scaled_or_found_is_a_clear_error() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let targets = seed(api, &api.admin()).await.targets();

    let rows = [
        (
            "v1",
            "ConfigMap",
            "cannot scale ConfigMap x in namespace default: its kind has no scale \
            subresource; name one that has",
        ),
        (
            "v1",
            "Namespace",
            "cannot scale Namespace x in namespace default: its kind has no scale \
            subresource; name one that has",
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

    // What could not be found is looked for again.
    apply(api, DEFINITION).await;
    let wait = [
        "wait",
        "--for=condition=Established",
        "crd",
        "rigs.example.org",
    ];
    api.kubectl(&wait).await.unwrap();
    let rig = target("example.org/v1", "Rig", "x");
    poll::until("the new kind", PATIENCE, async || {
        Ok(targets.resolve(&rig).await.ok())
    })
    .await
    .unwrap();
    assert_eq!(targets.read("default", &rig).await.unwrap(), Sight::Missing);
    let deployment = target("apps/v1", "Deployment", "x");
    let sight = targets.read("default", &deployment).await.unwrap();
    assert_eq!(sight, Sight::Missing);
    let written = targets
        .scale("default", &deployment, &Version::new("1"), 0)
        .await;
    let error = written.unwrap_err();
    assert!(matches!(error, TargetError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn refusals_and_deadlines_name_the_object_the_verb_and_the_remedy() {
    let mut plane = ControlPlane::start().await.unwrap();
    let target = make(&plane.api, "Deployment", "kcm", 1).await;
    let stranger = seed(&plane.api, &plane.api.stranger()).await.targets();
    let admin = seed(&plane.api, &plane.api.admin()).await.targets();

    let error = stranger.read("default", &target).await.unwrap_err();
    assert!(matches!(error, TargetError::Denied { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.starts_with("may not read Deployment kcm in namespace default: "),
        "{said}"
    );
    assert!(
        said.ends_with("grant get and patch on it and on its scale"),
        "{said}"
    );

    let hurried = admin.within(Duration::ZERO);
    let error = hurried.read("default", &target).await.unwrap_err();
    assert!(matches!(error, TargetError::TimedOut { .. }), "{error}");

    plane.api.go_down();
    let error = admin.read("default", &target).await.unwrap_err();
    assert!(matches!(error, TargetError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn what_gardener_grants_is_enough_to_fence() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let role = "create clusterrole dwd --verb=get,list,watch,update,patch \
        --resource=deployments.apps,deployments.apps/scale";
    let role: Vec<&str> = role.split_whitespace().collect();
    api.kubectl(&role).await.unwrap();
    let bind = "create clusterrolebinding dwd --clusterrole=dwd --user=dwd";
    let bind: Vec<&str> = bind.split(' ').collect();
    api.kubectl(&bind).await.unwrap();
    let target = make(api, "Deployment", "kcm", 1).await;
    let targets = seed(api, &api.user("dwd", &[]).unwrap()).await.targets();
    let mut fencing = Fencing::new(Arc::new([Target {
        resource: target.clone(),
        optional: false,
        up: ScaleRule::default(),
        down: ScaleRule::default(),
    }]));
    let [fence, release] = decisions();

    flow(&targets, &mut fencing, &fence, &target).await;
    assert_eq!(present(&targets, &target).await.replicas, 0);
    flow(&targets, &mut fencing, &release, &target).await;
    assert_eq!(present(&targets, &target).await.replicas, 1);
}

#[tokio::test]
async fn two_hundred_fences_at_once_do_not_wait_for_each_other() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let made: Vec<String> = (0..200)
        .map(|number| {
            format!(
                r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{
                    "name": "kcm-{number}", "namespace": "default"}},
                    "spec": {{"replicas": 1, {SPEC}}}}}"#
            )
        })
        .collect();
    let list = made.join(",");
    apply(
        api,
        &format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{list}]}}"#),
    )
    .await;
    let targets = seed(api, &api.admin()).await.targets();
    let begin = Instant::now();
    let fences = (0..200).map(|number| {
        let target = target("apps/v1", "Deployment", &format!("kcm-{number}"));
        let targets = targets.within(Duration::from_secs(20));
        async move {
            let seen = present(&targets, &target).await;
            let scaled = targets.scale("default", &target, &seen.version, 0).await;
            scaled.unwrap();
        }
    });
    join_all(fences).await;
    let took = begin.elapsed();
    println!("200 reads and scales at once: {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}
