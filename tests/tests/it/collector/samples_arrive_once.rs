//! Every matching sample arrives at the hub once and unchanged.

use std::collections::BTreeMap;

use kelpie_e2e::{Kelpie, MetricsServer, OWN_ADDRESS, PromLabels, PromSamples, poll};

use super::fixture::{ScriptedServer, TIMEOUT, collector};

/// Difficult values and labels. `{scrape}` is replaced by the number of the scrape.
const EXPOSITION: &str = r#"
values{kind="tenth"} 0.1
values{kind="third"} 0.3333333333333333
values{kind="huge"} 1.7976931348623157e308
values{kind="tiny"} 5e-324
values{kind="odd"} 9007199254740991
values{kind="minus"} -0.000061642
values{kind="zero"} -0
values{kind="nan"} NaN
values{kind="more"} +Inf
values{kind="less"} -Inf
labels{text="back\\slash \"quoted\" line\nfeed ü 🐎",empty=""} 1
spoofed{cluster="another",prometheus_replica="a"} 1
scrapes {scrape}
"#;

async fn exporter() -> ScriptedServer {
    let mut scrape = 0;
    ScriptedServer::start(move |_| {
        scrape += 1;
        (200, EXPOSITION.replace("{scrape}", &scrape.to_string()))
    })
    .await
}

/// Starts a Prometheus that scrapes itself and the exporter.
pub(super) async fn source(exporter: &ScriptedServer) -> MetricsServer {
    let configuration = format!(
        "global: {{ scrape_interval: 1s, external_labels: {{ prometheus: k8s, region: eu }} }}
scrape_configs:
- job_name: self
  static_configs: [{{ targets: ['{OWN_ADDRESS}'] }}]
- job_name: exporter
  honor_labels: true
  static_configs: [{{ targets: ['{}'] }}]
",
        exporter.host()
    );
    let source = MetricsServer::prometheus(&configuration, &[])
        .await
        .unwrap();
    poll::until("both targets", TIMEOUT, async || {
        let up = source.query("up == 1").await?;
        Ok((up.len() == 2).then_some(()))
    })
    .await
    .unwrap();
    source
}

const EVERYTHING: &str = "{job=~\".+\"}";

#[tokio::test]
async fn matching_samples_arrive_once_and_unchanged() {
    let exporter = exporter().await;
    let source = source(&exporter).await;
    let prometheus = MetricsServer::hub(&[]).await.unwrap();
    let victoria = MetricsServer::victoria_metrics().await.unwrap();
    let flags = [
        "--match",
        EVERYTHING,
        "--label=cluster=spoke-1",
        "--label=clusterID=spoke-1",
        "--interval=3s",
    ];
    let parallel = [&flags[..], &["--worker-number=3", "--match=values"]].concat();
    let to_prometheus = collector(&source.url(), &prometheus.url(), &flags).await;
    let to_victoria = collector(&source.url(), &victoria.url(), &parallel).await;

    let forwarded = "{cluster=\"spoke-1\"}[1h]";
    for hub in [&prometheus, &victoria] {
        poll::until("three scrapes at the hub", TIMEOUT, async || {
            let scrapes = hub.query("scrapes[1h]").await?;
            let count: usize = scrapes.values().map(Vec::len).sum();
            Ok((count >= 3).then_some(()))
        })
        .await
        .unwrap();
    }
    // The hub may have accepted a request whose response did not arrive in time. The collector then
    // sends it again.
    let had_no_timeouts = async |collector: &Kelpie| {
        let metrics = collector.get("/metrics").await.unwrap().body;
        !metrics.contains("write_requests_total{code=\"error\"}")
    };
    let no_retries = had_no_timeouts(&to_victoria).await;
    for collector in [to_prometheus, to_victoria] {
        let log = collector.log();
        assert!(!log.contains("hub refused"), "{log}");
        assert_eq!(collector.stop().await.unwrap().code, Some(0));
    }

    let everything = format!("{EVERYTHING}[1h]");
    let arrived = prometheus.query(forwarded).await.unwrap();
    let stored = expected(source.query(&everything).await.unwrap());
    assert!(has_no_duplicates(&arrived));
    compare(&arrived, &stored, |_| true, is_same);
    let arrived = victoria.query(forwarded).await.unwrap();
    assert!(has_no_duplicates(&arrived) || !no_retries);
    // VictoriaMetrics stores neither NaN nor denormals, and rounds to about 12 digits.
    compare(
        &arrived,
        &stored,
        |value| value.is_finite() && value.abs() > 1e-300,
        |sent, found| (sent - found).abs() <= sent.abs() * 1e-11,
    );
}

/// Returns true if no series has two samples with the same time.
fn has_no_duplicates(arrived: &PromSamples) -> bool {
    let is_strict = |samples: &Vec<(i64, f64)>| samples.is_sorted_by(|a, b| a.0 < b.0);
    arrived.values().all(is_strict)
}

/// Compares bit by bit, except that federation drops the sign of zero and that all NaNs are equal.
fn is_same(sent: f64, found: f64) -> bool {
    let bits = |value: f64| match value {
        0.0 => 0,
        value if value.is_nan() => f64::NAN.to_bits(),
        value => value.to_bits(),
    };
    bits(sent) == bits(found)
}

/// Returns the samples of the source with the labels that the collector sends.
fn expected(stored: PromSamples) -> PromSamples {
    let labels = |mut labels: PromLabels| {
        labels.remove("prometheus_replica");
        labels.insert("region".into(), "eu".into());
        labels.insert("cluster".into(), "spoke-1".into());
        labels.insert("clusterID".into(), "spoke-1".into());
        labels
    };
    let stored = stored.into_iter();
    stored
        .map(|(found, samples)| (labels(found), samples))
        .collect()
}

/// Asserts that every sample that arrived exists at the source, and that every series of the source
/// has arrived.
fn compare(
    arrived: &PromSamples,
    stored: &PromSamples,
    is_kept: impl Fn(f64) -> bool,
    is_equal: impl Fn(f64, f64) -> bool,
) {
    let mut count = 0;
    for (labels, samples) in arrived {
        let Some(sent) = stored.get(labels) else {
            panic!("{labels:?} is not at the source");
        };
        let sent: BTreeMap<i64, f64> = sent.iter().copied().collect();
        for (time, value) in samples.iter().filter(|(_, value)| is_kept(*value)) {
            let sent = sent.get(time);
            assert!(
                sent.is_some_and(|sent| is_equal(*sent, *value)),
                "{labels:?} at {time}: {value} arrived, {sent:?} is at the source"
            );
            count += 1;
        }
    }
    let last = |samples: &PromSamples| samples.values().flatten().map(|(time, _)| *time).max();
    let last = last(arrived).unwrap();
    for (labels, samples) in stored {
        let (first_time, last_time) = (samples[0].0, samples[samples.len() - 1].0);
        let spans_last_tick = first_time < last - 6_000 && last_time > last;
        if spans_last_tick && is_kept(samples[0].1) {
            assert!(arrived.contains_key(labels), "{labels:?} did not arrive");
        }
    }
    // A loaded machine has fewer ticks, but each has hundreds of series.
    assert!(count > 100, "only {count} samples");
}
