//! Hostile API servers of clusters are reported, cost little, and do not affect other clusters.

use std::time::Duration;

use kelpie_e2e::landscape::{FakeApiServer, FakeResponse, Timings};
use tokio::time::Instant;

use super::fixture::*;

/// Memory limit for the prober with all hostile clusters, in bytes, in the debug build.
const MEMORY_LIMIT: u64 = 400 << 20;

/// Answers `/version` properly, and every later request with `response`.
fn on_leases(response: FakeResponse) -> impl Fn(&str) -> FakeResponse + Send + Sync + 'static {
    move |path| {
        if path.starts_with("/version") {
            FakeResponse::version()
        } else {
            response.clone()
        }
    }
}

fn always(response: FakeResponse) -> impl Fn(&str) -> FakeResponse + Send + Sync + 'static {
    move |_| response.clone()
}

/// Starts the hostile API servers: name, server, and words that the reported problem contains.
async fn hostile_servers() -> Vec<(&'static str, FakeApiServer, &'static str)> {
    let lease =
        r#"{"metadata":{"name":"node-000"},"spec":{"renewTime":"2026-01-01T00:00:00.000000Z"}},"#;
    let list = r#"{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","items":["#;
    let flood = |start: &str, piece: &str, times: usize| FakeResponse::Flood {
        content_type: "application/json".into(),
        start: start.into(),
        piece: piece.into(),
        times,
    };
    let wrong_type = FakeResponse::Full(
        200,
        vec!["Content-Type: text/html".into()],
        b"<html>welcome</html>".to_vec(),
    );
    let redirect = FakeResponse::json(302, "{}").header("Location: https://127.0.0.1:1/");
    let throttled = FakeResponse::json(429, "{}").header("Retry-After: 100000");
    let scripts: Vec<(&str, Script, &str)> = vec![
        (
            "unauthorized",
            Box::new(always(FakeResponse::json(401, "{}"))),
            "401",
        ),
        (
            "forbidden",
            Box::new(on_leases(FakeResponse::json(403, "{}"))),
            "403",
        ),
        ("throttled", Box::new(on_leases(throttled)), "429"),
        (
            "broken",
            Box::new(always(FakeResponse::json(500, "{}"))),
            "500",
        ),
        (
            "closing",
            Box::new(always(FakeResponse::Close)),
            "no response",
        ),
        ("silent", Box::new(always(FakeResponse::Hang)), "in time"),
        (
            "silent-leases",
            Box::new(on_leases(FakeResponse::Hang)),
            "in time",
        ),
        (
            "gigabyte",
            Box::new(on_leases(flood(list, &" ".repeat(1 << 20), 1 << 10))),
            "too large",
        ),
        (
            "million-leases",
            Box::new(on_leases(flood(list, &lease.repeat(1_000), 1_000))),
            "too large",
        ),
        (
            "deep",
            Box::new(on_leases(flood(list, &"[".repeat(1_000), 1_000))),
            "cannot be decoded",
        ),
        ("html", Box::new(on_leases(wrong_type)), "cannot be decoded"),
        ("redirecting", Box::new(always(redirect)), "redirects"),
    ];
    let mut servers = Vec::new();
    for (name, script, words) in scripts {
        servers.push((name, FakeApiServer::start(script).await.unwrap(), words));
    }
    servers
}

/// Maps a request path to a response.
type Script = Box<dyn Fn(&str) -> FakeResponse + Send + Sync>;

#[tokio::test]
async fn hostile_clusters_are_reported_and_isolated() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let healthy = fixture.shoot("healthy", &kubelets).await;
    let servers = hostile_servers().await;
    let mut hostile = Vec::new();
    for (name, server, words) in &servers {
        let shoot = fixture
            .shoot_with_kubeconfig(name, &server.kubeconfig(), &kubelets)
            .await;
        hostile.push((shoot, *words));
    }
    let exec = fixture.kubeconfig.replace(
        "  user:\n",
        "  user:\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}\n",
    );
    assert_ne!(exec, fixture.kubeconfig);
    hostile.push((
        fixture
            .shoot_with_kubeconfig("exec", &exec, &kubelets)
            .await,
        "exec",
    ));

    let prober = fixture.gardener_prober(timings).await;
    until_healthy(&prober, &healthy).await;
    for (shoot, words) in &hostile {
        until_problem(&prober, shoot, words).await;
        let warnings = prober.lines(&["WARN", &format!("cluster=\"{}\"", shoot.name)]);
        assert!(!warnings.is_empty(), "{}", shoot.name);
    }

    // The healthy cluster is judged as often as it would be alone.
    let mut most = 0;
    let end = Instant::now() + timings.interval * 5;
    let age = format!(
        r#"kelpie_prober_last_judged_age_seconds{{cluster="{}"}}"#,
        healthy.name
    );
    let mut longest = 0.0_f64;
    while Instant::now() < end {
        most = most.max(prober.kelpie.process().resident_bytes().unwrap());
        longest = longest.max(prober.kelpie.metric(&age).await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!(
        "{} MiB at most; the healthy cluster's longest pause: {longest:.1} s",
        most >> 20
    );
    assert!(most < MEMORY_LIMIT, "{most} bytes");
    // The interval, its jitter of a fifth, the round, and some slack for a loaded machine.
    assert!(
        longest < 2.0 * timings.interval.as_secs_f64(),
        "{longest} s"
    );
    for (shoot, _) in &hostile {
        assert_untouched(shoot).await;
    }
    assert!(!prober.log().contains("secret-token-of-the-tenant"));

    // The fence of the healthy cluster is not delayed either.
    kubelets.partition(1.0).await;
    healthy.until_replicas(FENCED, TIMEOUT).await.unwrap();
    for (shoot, _) in &hostile {
        assert_untouched(shoot).await;
    }
}
