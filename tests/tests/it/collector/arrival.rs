//! Every sample that matched arrives once, as it is at the source.

use std::collections::BTreeMap;

use kelpie_e2e::{ITSELF, Kelpie, Labels, MetricsServer, Samples, poll};

use super::stage::{PATIENCE, Scripted, collector};

/// Values and labels that are hard to carry; `{scrape}` becomes its number.
const EXPOSED: &str = r#"
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

async fn exporter() -> Scripted {
    let mut scrape = 0;
    Scripted::start(move |_| {
        scrape += 1;
        (200, EXPOSED.replace("{scrape}", &scrape.to_string()))
    })
    .await
}

/// A Prometheus that scrapes itself and the exporter.
pub(super) async fn source(exporter: &Scripted) -> MetricsServer {
    let configuration = format!(
        "global: {{ scrape_interval: 1s, external_labels: {{ prometheus: k8s, region: eu }} }}
scrape_configs:
- job_name: self
  static_configs: [{{ targets: ['{ITSELF}'] }}]
- job_name: exporter
  honor_labels: true
  static_configs: [{{ targets: ['{}'] }}]
",
        exporter.host()
    );
    let source = MetricsServer::prometheus(&configuration, &[])
        .await
        .unwrap();
    poll::until("both targets", PATIENCE, async || {
        let up = source.query("up == 1").await?;
        Ok((up.len() == 2).then_some(()))
    })
    .await
    .unwrap();
    source
}

const EVERYTHING: &str = "{job=~\".+\"}";

#[tokio::test]
async fn every_sample_that_matched_arrives_once_with_its_labels_time_and_value() {
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
    let many = [&flags[..], &["--worker-number=3", "--match=values"]].concat();
    let to_prometheus = collector(&source.url(), &prometheus.url(), &flags).await;
    let to_victoria = collector(&source.url(), &victoria.url(), &many).await;

    let ours = "{cluster=\"spoke-1\"}[1h]";
    for hub in [&prometheus, &victoria] {
        poll::until("three scrapes at the hub", PATIENCE, async || {
            let scrapes = hub.query("scrapes[1h]").await?;
            let count: usize = scrapes.values().map(Vec::len).sum();
            Ok((count >= 3).then_some(()))
        })
        .await
        .unwrap();
    }
    // A request that got no answer in time may have been taken all the same.
    let calm = async |collector: &Kelpie| {
        let numbers = collector.get("/metrics").await.unwrap().body;
        !numbers.contains("write_requests_total{code=\"0\"}")
    };
    let once = calm(&to_victoria).await;
    for collector in [to_prometheus, to_victoria] {
        let log = collector.log();
        assert!(!log.contains("refuses"), "{log}");
        assert_eq!(collector.stop().await.unwrap().code, Some(0));
    }

    let everything = format!("{EVERYTHING}[1h]");
    let arrived = prometheus.query(ours).await.unwrap();
    let there = expected(source.query(&everything).await.unwrap());
    assert!(arrive_once(&arrived));
    compare(&arrived, &there, |_| true, is_same);
    let arrived = victoria.query(ours).await.unwrap();
    assert!(arrive_once(&arrived) || !once);
    // It keeps no NaN and no denormals, and rounds to about 12 digits.
    compare(
        &arrived,
        &there,
        |value| value.is_finite() && value.abs() > 1e-300,
        |sent, found| (sent - found).abs() <= sent.abs() * 1e-11,
    );
}

/// No series has two samples of one time.
fn arrive_once(arrived: &Samples) -> bool {
    let is_strict = |samples: &Vec<(i64, f64)>| samples.is_sorted_by(|a, b| a.0 < b.0);
    arrived.values().all(is_strict)
}

/// To the last bit. Federation itself drops the sign of a zero, and nobody tells one NaN from another.
fn is_same(sent: f64, found: f64) -> bool {
    let bits = |value: f64| match value {
        0.0 => 0,
        value if value.is_nan() => f64::NAN.to_bits(),
        value => value.to_bits(),
    };
    bits(sent) == bits(found)
}

/// What the source has, with the labels that are sent.
fn expected(stored: Samples) -> Samples {
    let labels = |mut labels: Labels| {
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

/// Every sample that arrived is at the source, and every series of the source has arrived.
fn compare(
    arrived: &Samples,
    there: &Samples,
    is_kept: impl Fn(f64) -> bool,
    is_equal: impl Fn(f64, f64) -> bool,
) {
    let mut count = 0;
    for (labels, samples) in arrived {
        let Some(stored) = there.get(labels) else {
            panic!("nobody has sent {labels:?}");
        };
        let stored: BTreeMap<i64, f64> = stored.iter().copied().collect();
        for (time, value) in samples.iter().filter(|(_, value)| is_kept(*value)) {
            let sent = stored.get(time);
            assert!(
                sent.is_some_and(|sent| is_equal(*sent, *value)),
                "{labels:?} at {time}: {value} arrived, {sent:?} was there"
            );
            count += 1;
        }
    }
    let last = |samples: &Samples| samples.values().flatten().map(|(time, _)| *time).max();
    let last = last(arrived).unwrap();
    for (labels, samples) in there {
        let (first_there, last_there) = (samples[0].0, samples[samples.len() - 1].0);
        let was_there_all_along = first_there < last - 6_000 && last_there > last;
        if was_there_all_along && is_kept(samples[0].1) {
            assert!(arrived.contains_key(labels), "{labels:?} did not arrive");
        }
    }
    // A busy machine has fewer ticks; hundreds of series come with each.
    assert!(count > 100, "only {count} samples");
}
