//! Servers that are down, slow, or not what they should be.

use std::time::Duration;

use kelpie_e2e::{MetricsServer, poll};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::stage::{PATIENCE, Scripted, collector, lines, now_ms, once, until_ticks};

/// A source whose samples are always of now.
async fn fresh() -> Scripted {
    Scripted::start(|_| (200, lines("m", 20, now_ms()))).await
}

#[tokio::test]
async fn a_hub_that_was_down_gets_samples_again_and_health_does_not_suffer() {
    let source = fresh().await;
    let mut hub = MetricsServer::hub(&[]).await.unwrap();
    let collector = collector(source.url(), &hub.url(), &["--match=m", "--interval=2s"]).await;
    until_ticks(&collector, "success", 1.0).await;
    hub.kill();
    until_ticks(&collector, "failure", 2.0).await;
    poll::until("the reason on the page", PATIENCE, async || {
        let state: Value = serde_json::from_str(&collector.get("/debug/state").await?.body)?;
        let last = &state["lastTick"];
        assert_eq!(last["succeeded"], false, "{state}");
        let why = last["said"].as_str().unwrap();
        Ok(why.starts_with("the hub: 127.0.0.1:").then_some(()))
    })
    .await
    .unwrap();
    // A hub that is down is for the status to tell: a restart of the collector would not help.
    for page in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(collector.get(page).await.unwrap().status, 200, "{page}");
    }
    hub.restart().await.unwrap();
    until_ticks(&collector, "success", 2.0).await;
    let stored = hub.query("m[1h]").await.unwrap();
    assert_eq!(stored.len(), 20);
    assert!(
        stored.values().all(|samples| samples.len() >= 3),
        "{stored:?}"
    );
    let at = "kelpie_collector_last_success_timestamp_seconds";
    assert!(collector.metric(at).await.unwrap() > 1.6e9);
}

#[tokio::test]
async fn answers_of_a_hub_are_understood_over_real_connections() {
    for (answers, code, expected) in [
        (vec![(500, "oh"), (204, "")], 0, "20 samples sent"),
        (vec![(429, "slower"), (204, "")], 0, "20 samples sent"),
        (vec![(0, ""), (204, "")], 0, "20 samples sent"),
        (vec![(409, "conflict")], 0, ""),
        (
            vec![(413, "too large"), (204, ""), (204, "")],
            0,
            "20 samples sent",
        ),
        (
            vec![(403, "who are you")],
            1,
            "it answered 403: who are you",
        ),
    ] {
        let source = fresh().await;
        let mut script = answers.clone().into_iter();
        let hub = Scripted::start(move |request| {
            assert_eq!(request.headers()["content-encoding"], "snappy");
            let (status, text) = script.next().unwrap_or((599, "nothing more was expected"));
            (status, text.to_owned())
        })
        .await;
        let (exit, text) = once(source.url(), hub.url(), &["--match=m"]).await;
        assert_eq!(exit, Some(code), "{answers:?}: {text}");
        assert!(text.contains(expected), "{answers:?}: {text}");
    }
}

#[tokio::test]
async fn a_source_that_is_no_use_is_named() {
    let config = "global: { scrape_interval: 1s }\nscrape_configs:\n- job_name: self\n  \
        static_configs: [{ targets: ['{itself}'] }]\n";
    let prometheus = MetricsServer::prometheus(config, &[]).await.unwrap();
    poll::until("a scrape", PATIENCE, async || {
        Ok((!prometheus.query("up == 1").await?.is_empty()).then_some(()))
    })
    .await
    .unwrap();
    let hub = fresh().await;
    let (real, nobody) = (prometheus.url(), "http://127.0.0.1:1".to_owned());
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
            "recording rule bad: it answered 400",
        ),
        (
            &real,
            vec![r#"--recordingrule={"name":"one","query":"scalar(up)"}"#],
            "recording rule one: its result is a scalar",
        ),
        (&missing, vec!["--match=up"], "it answered 404"),
        (&nobody, vec!["--match=up"], "connection refused"),
    ] {
        let (code, text) = once(from, hub.url(), &flags).await;
        assert_eq!(code, Some(1), "{flags:?}: {text}");
        assert!(text.contains(expected), "{flags:?}: {text}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_failure_and_its_whole_lines_arrive() {
    let hub = MetricsServer::hub(&[]).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let from = format!("http://{}", listener.local_addr().unwrap());
    let text = lines("m", 20, now_ms());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4_096]).await.unwrap();
        let cut = &text[..text.len() - 5];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        stream
            .write_all(format!("{head}{cut}").as_bytes())
            .await
            .unwrap();
        stream.flush().await.unwrap();
        // The client reads what there is before it sees the end.
        tokio::time::sleep(Duration::from_millis(300)).await;
    });
    let (code, text) = once(&from, &hub.url(), &["--match=m"]).await;
    serving.await.unwrap();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the connection broke off"), "{text}");
    assert_eq!(hub.query("m").await.unwrap().len(), 19);
}
