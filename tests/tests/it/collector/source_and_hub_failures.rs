//! Sources and hubs that are down, slow, or answer with errors.

use std::time::Duration;

use kelpie_e2e::{MetricsServer, poll};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::fixture::{
    ScriptedServer, TIMEOUT, collector, exposition, now_ms, run_once, until_ticks,
};

/// Starts a source whose samples always have the current time.
async fn fresh_source() -> ScriptedServer {
    ScriptedServer::start(|_| (200, exposition("m", 20, now_ms()))).await
}

#[tokio::test]
async fn restarted_hub_receives_samples_again() {
    let source = fresh_source().await;
    let mut hub = MetricsServer::hub(&[]).await.unwrap();
    let collector = collector(source.url(), &hub.url(), &["--match=m", "--interval=2s"]).await;
    until_ticks(&collector, "success", 1.0).await;
    hub.kill();
    until_ticks(&collector, "failure", 2.0).await;
    poll::until("the reason in /debug/state", TIMEOUT, async || {
        let state: Value = serde_json::from_str(&collector.get("/debug/state").await?.body)?;
        let last = &state["lastTick"];
        assert_eq!(last["succeeded"], false, "{state}");
        let reason = last["message"].as_str().unwrap();
        Ok(reason.starts_with("hub: 127.0.0.1:").then_some(()))
    })
    .await
    .unwrap();
    // The addon's status reports an unreachable hub. Health checks still pass, because a restart of
    // the collector would not help.
    for endpoint in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(
            collector.get(endpoint).await.unwrap().status,
            200,
            "{endpoint}"
        );
    }
    hub.restart().await.unwrap();
    until_ticks(&collector, "success", 2.0).await;
    let stored = hub.query("m[1h]").await.unwrap();
    assert_eq!(stored.len(), 20);
    assert!(
        stored.values().all(|samples| samples.len() >= 3),
        "{stored:?}"
    );
    let last_success = "kelpie_collector_last_success_timestamp_seconds";
    assert!(collector.metric(last_success).await.unwrap() > 1.6e9);
}

#[tokio::test]
async fn hub_responses_decide_outcome() {
    for (responses, code, expected) in [
        (vec![(500, "oh"), (204, "")], 0, "20 samples sent"),
        (vec![(429, "slower"), (204, "")], 0, "20 samples sent"),
        (vec![(0, ""), (204, "")], 0, "20 samples sent"),
        (vec![(409, "conflict")], 0, ""),
        // So few samples are not split further.
        (vec![(413, "too large")], 1, "HTTP 413: too large"),
        (vec![(403, "who are you")], 1, "HTTP 403: who are you"),
    ] {
        let source = fresh_source().await;
        let mut script = responses.clone().into_iter();
        let hub = ScriptedServer::start(move |request| {
            assert_eq!(request.headers()["content-encoding"], "snappy");
            let (status, text) = script.next().unwrap_or((599, "unexpected request"));
            (status, text.to_owned())
        })
        .await;
        let (exit, text) = run_once(source.url(), hub.url(), &["--match=m"]).await;
        assert_eq!(exit, Some(code), "{responses:?}: {text}");
        assert!(text.contains(expected), "{responses:?}: {text}");
    }
}

#[tokio::test]
async fn unusable_source_is_reported() {
    let config = "global: { scrape_interval: 1s }\nscrape_configs:\n- job_name: self\n  \
        static_configs: [{ targets: ['{itself}'] }]\n";
    let prometheus = MetricsServer::prometheus(config, &[]).await.unwrap();
    poll::until("a scrape", TIMEOUT, async || {
        Ok((!prometheus.query("up == 1").await?.is_empty()).then_some(()))
    })
    .await
    .unwrap();
    let hub = fresh_source().await;
    let (real, closed) = (prometheus.url(), "http://127.0.0.1:1".to_owned());
    let missing = format!("{real}/nowhere");
    for (from, flags, expected) in [
        (&real, vec!["--match={job="], "400: 1:6: parse error"),
        (
            &real,
            vec!["--match={job=\"self\"}", "--limit-bytes=1000"],
            "--limit-bytes 1000",
        ),
        (
            &real,
            vec![r#"--recordingrule={"name":"bad","query":"sum("}"#],
            "recording rule bad: HTTP 400",
        ),
        (
            &real,
            vec![r#"--recordingrule={"name":"one","query":"scalar(up)"}"#],
            "recording rule one: the result is a scalar",
        ),
        (&missing, vec!["--match=up"], "HTTP 404"),
        (&closed, vec!["--match=up"], "connection refused"),
    ] {
        let (code, text) = run_once(from, hub.url(), &flags).await;
        assert_eq!(code, Some(1), "{flags:?}: {text}");
        assert!(text.contains(expected), "{flags:?}: {text}");
    }
}

#[tokio::test]
async fn truncated_body_fails_after_complete_lines() {
    let hub = MetricsServer::hub(&[]).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let from = format!("http://{}", listener.local_addr().unwrap());
    let text = exposition("m", 20, now_ms());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4_096]).await.unwrap();
        let cut = &text[..text.len() - 5];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        stream
            .write_all(format!("{head}{cut}").as_bytes())
            .await
            .unwrap();
        stream.flush().await.unwrap();
        // The client must read the data before it sees the connection close.
        tokio::time::sleep(Duration::from_millis(300)).await;
    });
    let (code, text) = run_once(&from, &hub.url(), &["--match=m"]).await;
    server.await.unwrap();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the connection was lost"), "{text}");
    assert_eq!(hub.query("m").await.unwrap().len(), 19);
}
