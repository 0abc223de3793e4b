//! `--once`: allowlists, recording rules, dry runs and exit codes.

use std::fs;

use kelpie_e2e::{MetricsServer, kelpie};

use super::fixture::{ScriptedServer, exposition, now_ms, run_once};
use super::samples_arrive_once::source;

const ALLOWLIST: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: { name: observability-metrics-allowlist }
data:
  metrics_list.yaml: |
    names: [up]
    matches: ['__name__=~\"some_.+\"']
    renames: { some_number: another_number }
    recording_rules: [{ record: 'jobs:up:sum', expr: sum(up) }]
    collect_rules: [{ group: g, rules: [{ collect: c, expr: up }] }]
";

#[tokio::test]
async fn allowlist_selects_and_renames_metrics() {
    let text = "some_number 7\nsome_text{a=\"b\"} 1\nother 1\n";
    let exporter = ScriptedServer::source(text).await;
    let source = source(&exporter).await;
    let hub = MetricsServer::hub(&[]).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("allowlist.yaml");
    fs::write(&file, ALLOWLIST).unwrap();
    let flags = ["--allowlist", file.to_str().unwrap(), "--label=cluster=c"];
    let (code, text) = run_once(&source.url(), &hub.url(), &flags).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("collect_rules are not supported"), "{text}");
    assert!(text.contains("samples sent"), "{text}");

    let names = hub
        .query("count by (__name__) ({cluster=\"c\"})")
        .await
        .unwrap();
    let names: Vec<(&str, f64)> = names
        .iter()
        .map(|(labels, samples)| (labels["__name__"].as_str(), samples[0].1))
        .collect();
    let expected = [
        ("another_number", 1.0),
        ("jobs:up:sum", 1.0),
        ("some_text", 1.0),
        ("up", 2.0),
    ];
    assert_eq!(names, expected);
    let sum = hub.query("{__name__=\"jobs:up:sum\"}").await.unwrap();
    assert_eq!(sum.values().next().unwrap()[0].1.to_bits(), 2_f64.to_bits());
}

#[tokio::test]
async fn dry_run_prints_samples_without_hub() {
    let now = now_ms();
    let source =
        ScriptedServer::source(format!("a{{b=\"c\",cluster=\"x\"}} 0.5 {now}\nold 1 7\n")).await;
    let from = format!("--from={}", source.url());
    let flags = ["--match=a", "--label=cluster=mine", "--rename=a=z"];
    let fixed = ["addon", "collector", "--once", "--dry-run", &from];
    let output = kelpie::run(&[&fixed[..], &flags].concat()).await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        printed,
        format!("z{{b=\"c\",cluster=\"mine\"}} 0.5 {now}\n")
    );
}

#[tokio::test]
async fn invalid_flags_exit_with_2() {
    let (from, to) = ("http://127.0.0.1:1", "http://127.0.0.1:1");
    for flags in [
        &[][..],
        &["--match=up", "--interval=10ms"],
        &["--match=up", "--label=0=x"],
        &["--match=up", "--label=cluster"],
        &["--match=up", "--rename=a=b c"],
        &["--match=up", "--recordingrule=up"],
        &["--match=up", "--worker-number=0"],
    ] {
        let (code, text) = run_once(from, to, flags).await;
        assert_eq!(code, Some(2), "{flags:?}: {text}");
    }
}

#[tokio::test]
async fn no_matching_series_is_success() {
    let source = ScriptedServer::source("").await;
    let (code, text) = run_once(source.url(), "http://127.0.0.1:1", &["--match=up"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("nothing matched"), "{text}");
    let source = ScriptedServer::source(exposition("m", 1, now_ms())).await;
    let (code, _) = run_once(
        source.url(),
        "http://127.0.0.1:1",
        &["--match=up", "--interval=1s"],
    )
    .await;
    assert_eq!(code, Some(1));
}
