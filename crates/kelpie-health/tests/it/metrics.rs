//! The metrics of the checks.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use kelpie_health::{CheckGroup, HealthSettings, metrics, not_found, routes};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::fixture::{
    ScriptedCheck, failed, get, health, health_with, millis, request, serve, serve_router,
};

/// Returns every series except buckets and sums.
fn series(registry: &Registry) -> BTreeMap<String, f64> {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter(|line| !line.contains("_bucket{") && !line.contains("_sum{"));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// Returns the changes between two samples.
fn change(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
    assert!(
        before.keys().eq(after.keys()),
        "series appeared or disappeared"
    );
    let changed = after
        .iter()
        .map(|(name, value)| (name, value - before[name]));
    let changed = changed.filter(|(_, by)| by.abs() > 0.0);
    changed.map(|(name, by)| (name.clone(), by)).collect()
}

#[tokio::test]
async fn every_series_exists_before_the_first_probe() {
    let settings = HealthSettings {
        metric_prefix: "kelpie_etcd_".to_owned(),
        ..HealthSettings::default()
    };
    let (_health, registry) = health_with(settings, |checks| {
        checks.both("a", ScriptedCheck::returning(Ok(())));
        checks.readyz("b", ScriptedCheck::returning(Ok(())));
        drop(checks.shared_call("status", async || 0));
    });
    let mut expected = Vec::new();
    for (group, name) in [("livez", "a"), ("readyz", "a"), ("readyz", "b")] {
        let place = format!("type=\"{group}\",name=\"{name}\"");
        expected.push(format!("kelpie_etcd_healthcheck{{{place}}}"));
        expected.push(format!(
            "kelpie_etcd_healthcheck_duration_seconds_count{{{place}}}"
        ));
        for status in ["success", "error"] {
            expected.push(format!(
                "kelpie_etcd_healthchecks_total{{{place},status=\"{status}\"}}"
            ));
        }
    }
    for name in ["a", "b", "status"] {
        expected.push(format!(
            "kelpie_etcd_healthcheck_runs_total{{name=\"{name}\"}}"
        ));
    }
    expected.sort();
    let series = series(&registry);
    assert!(series.keys().eq(&expected), "{series:#?}");
    assert!(series.values().all(|value| *value == 0.0));
}

#[tokio::test]
async fn every_result_is_counted_once() {
    let (health, registry) = health(|checks| {
        checks.readyz(
            "a",
            ScriptedCheck::new([(millis(0), Ok(())), (millis(0), failed("x"))]),
        );
        checks.both("b", ScriptedCheck::returning(Ok(())));
    });
    let before = series(&registry);
    health.probe(CheckGroup::Readyz).await;
    let after = series(&registry);
    let named = |name: &str, labels: &str, by: f64| (format!("kelpie_{name}{{{labels}}}"), by);
    let (a, b) = (r#"type="readyz",name="a""#, r#"type="readyz",name="b""#);
    assert_eq!(
        change(&before, &after),
        [
            named("healthcheck_duration_seconds_count", a, 1.0),
            named("healthcheck_duration_seconds_count", b, 1.0),
            named("healthcheck_runs_total", r#"name="a""#, 1.0),
            named("healthcheck_runs_total", r#"name="b""#, 1.0),
            named(
                "healthchecks_total",
                &format!(r#"{a},status="success""#),
                1.0
            ),
            named(
                "healthchecks_total",
                &format!(r#"{b},status="success""#),
                1.0
            ),
            named("healthcheck", a, 1.0),
            named("healthcheck", b, 1.0),
        ]
    );

    let before = after;
    let address = serve(health).await;
    assert_eq!(get(address, "/readyz/a").await.0, 503);
    assert_eq!(
        change(&before, &series(&registry)),
        [
            named("healthcheck_duration_seconds_count", a, 1.0),
            named("healthcheck_runs_total", r#"name="a""#, 1.0),
            named("healthchecks_total", &format!(r#"{a},status="error""#), 1.0),
            named("healthcheck", a, -1.0),
        ]
    );
}

#[tokio::test]
async fn rejected_and_excluded_are_not_counted() {
    let (health, registry) = health(|checks| {
        checks.both("a", ScriptedCheck::returning(failed("x")));
    });
    let address = serve(health).await;
    let before = series(&registry);
    request(address, "POST", "/livez").await;
    request(address, "HEAD", "/livez/a").await;
    get(address, "/livez/bogus").await;
    get(address, "/livez/").await;
    assert_eq!(get(address, "/readyz?exclude=a").await.0, 200);
    assert_eq!(change(&before, &series(&registry)), []);
}

/// Sends a message when dropped.
struct NotifyOnDrop(mpsc::UnboundedSender<()>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn aborted_probe_is_not_counted() {
    let check = ScriptedCheck::hanging();
    let (health, registry) = health(|checks| {
        checks.both("a", check.clone());
    });
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let watched = from_fn(move |request: Request, next: Next| {
        let guard = NotifyOnDrop(dropped.clone());
        async move {
            let response = next.run(request).await;
            drop(guard);
            response
        }
    });
    let address = serve_router(routes(health).layer(watched)).await;
    let before = series(&registry);
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(head).await.unwrap();
    check.wait_for_runs(1).await;
    drop(client);
    drops.recv().await.unwrap();
    assert_eq!(check.running(), 1, "the run continues");
    let runs = r#"kelpie_healthcheck_runs_total{name="a"}"#.to_owned();
    assert_eq!(change(&before, &series(&registry)), [(runs, 1.0)]);
}

#[tokio::test]
async fn metrics_are_served_as_openmetrics() {
    let (health, registry) = health(|checks| {
        checks.livez("a", ScriptedCheck::returning(Ok(())));
    });
    let router = routes(health).merge(metrics(Arc::new(registry)));
    let address = serve_router(router.fallback(not_found)).await;
    get(address, "/livez").await;
    let answer = request(address, "GET", "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let format = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(answer.contains(format), "{answer}");
    let counted = r#"kelpie_healthchecks_total{type="livez",name="a",status="success"} 1"#;
    assert!(answer.contains(counted), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    assert_eq!(get(address, "/metrics/").await.0, 404);
}
