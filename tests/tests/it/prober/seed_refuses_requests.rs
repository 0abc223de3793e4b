//! The seed's API server rejects requests while a fence is carried out.

use std::time::Duration;

use kelpie_e2e::landscape::{InterceptAction, InterceptedRequest, ProberConfigFile, Timings};

use super::fixture::*;

/// Rejected requests of a fence: shoot, method, status code, and words that the log contains. A
/// fence reads nothing, because its targets are watched.
const REJECTIONS: [(&str, &str, u16, &str); 2] = [
    ("throttled", "PATCH", 429, "throttling requests"),
    ("broken", "PATCH", 503, "503"),
];
/// Number of requests rejected for each shoot.
const TIMES: u8 = 4;

/// Shortest pause before a rejected request is retried, less a tolerance for the clock.
const PAUSE: Duration = Duration::from_millis(90);

#[tokio::test]
async fn rejected_requests_are_retried_after_a_pause() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let mut shoots = Vec::new();
    for (name, ..) in REJECTIONS {
        let shoot = fixture.shoot(name, &kubelets).await;
        let external = fixture.kubeconfig.clone();
        shoot.add_secret("dwd-external", &external).await.unwrap();
        shoot.add_secret("database", "password").await.unwrap();
        shoots.push(shoot);
    }
    let interceptor = fixture.interceptor().await;
    let config = ProberConfigFile::gardener_targets(timings)
        .line("externalKubeConfigSecretName: dwd-external");
    let prober = fixture.prober_through(&interceptor, &config, &[]).await;
    for shoot in &shoots {
        until_healthy(&prober, shoot).await;
        // The targets have been read at startup, so later requests for them belong to a fence.
        let read = prober.until_state("the targets", &shoot.name, TIMEOUT, |state| {
            state["fence"] == "none"
        });
        read.await.unwrap();
    }

    let mut rejected = [0_u8; REJECTIONS.len()];
    interceptor.set_rule(move |request| {
        let rows = REJECTIONS.into_iter().zip(&mut rejected);
        for ((shoot, method, status, _), times) in rows {
            if is_rejected(request, shoot, method) && *times < TIMES {
                *times += 1;
                return InterceptAction::Reject(status, vec!["Retry-After: 600"]);
            }
        }
        InterceptAction::Pass
    });
    kubelets.partition(1.0).await;
    for shoot in &shoots {
        shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    }
    for (shoot, method, status, words) in REJECTIONS {
        let warnings = prober.lines(&["WARN", shoot, words]);
        assert!(!warnings.is_empty(), "{shoot}: {}", prober.log());
        let answers = format!(r#"kelpie_prober_seed_requests_total{{code="{status}"}}"#);
        let answers = prober.kelpie.metric(&answers).await.unwrap();
        assert!(answers > f64::from(TIMES) - 0.5, "{shoot}: {answers}");
        let mut requests = interceptor.requests();
        requests.retain(|request| method == "PATCH" && is_rejected(request, shoot, method));
        for (number, one) in requests.iter().enumerate() {
            let retry = requests[number + 1..]
                .iter()
                .find(|other| other.path == one.path);
            let pause = retry.map(|retry| retry.at - one.at);
            assert!(pause.is_none_or(|pause| pause >= PAUSE), "{requests:#?}");
        }
    }
    kubelets.heal().await;
    for shoot in &shoots {
        shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    }

    let mut secrets = interceptor.requests();
    secrets.retain(|request| request.path.contains("/secrets"));
    assert!(secrets.len() >= 2, "{secrets:#?}");
    // Only the configured Secrets are requested.
    for request in &secrets {
        let selector = "fieldSelector=metadata.name%3Ddwd-";
        let is_named = ["internal", "external"]
            .into_iter()
            .any(|name| request.path.contains(&format!("{selector}{name}&")));
        assert!(request.method == "GET" && is_named, "{request:?}");
    }
}

fn is_rejected(request: &InterceptedRequest, shoot: &str, method: &str) -> bool {
    let namespace = format!("/namespaces/{shoot}/");
    request.is_deployment_call() && request.method == method && request.path.contains(&namespace)
}
