//! Tests of the probes that the manager starts.

use kelpie_config::{Strictness, prober};
use kelpie_core::prober::Rule;
use kelpie_kube::SystemClock;
use kelpie_kube::events::ObjectRef;
use prometheus_client::registry::Registry;

use kelpie_kube::leader::LeaseName;

use super::*;
use crate::observer::tests::nothing_seen;
use crate::{Prober, ProberOptions};

/// Returns the context of a prober whose seed is not used.
fn context() -> ProbeContext {
    let file = include_str!("../../../../docs/examples/prober.yaml");
    let config = prober::parse(file.as_bytes(), Strictness::Strict).unwrap();
    let options = ProberOptions {
        dry_run: true,
        fresh_connections: false,
        allow_local_clusters: false,
        election: None,
        lease: LeaseName {
            namespace: "garden".into(),
            name: "a".into(),
        },
        identity: "a".into(),
        event_namespace: "garden".into(),
    };
    let (network, clock) = (Network::default(), SystemClock::default());
    let seed = ClusterClient::in_process(&network, clock, "http://127.0.0.1:1", "a").unwrap();
    Prober::new(config.value, options, seed, &mut Registry::default()).context
}

#[tokio::test]
async fn restarted_probe_spends_no_second_initial_delay() {
    let context = context();
    let cluster = Arc::new(ClusterIdentity {
        id: "a".into(),
        namespace: "a".into(),
        object: ObjectRef::default(),
    });
    let now = context.clock.now();
    let rule_of_probe_started = |started: Time| {
        let warm_up = context.warm_up.start(&cluster.id, now);
        let (_, inputs) = watch::channel(ProbeInputs::default());
        let cancellation = ProbeCancellation {
            cancelled: CancellationToken::new(),
            shutdown: CancellationToken::new(),
        };
        let mut probe = context.probe(
            &context.access,
            &cluster,
            started,
            &warm_up,
            inputs,
            cancellation,
        );
        probe.evaluator.decide(&nothing_seen(now)).reasons.rule
    };
    let delay = context.config.probe.initial_delay;
    let first = rule_of_probe_started(now);
    assert!(matches!(first, Rule::InitialDelay { .. }), "{first:?}");
    let restarted = rule_of_probe_started(now.before(delay));
    assert!(
        !matches!(restarted, Rule::InitialDelay { .. }),
        "{restarted:?}"
    );
}
