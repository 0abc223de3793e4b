//! A real defragmentation: livez passes, and readyz names the cause.

use std::time::Duration;

use kelpie_e2e::plain_http::{self, HttpResponse};
use kelpie_e2e::{ETCD_RELEASES, EtcdMember, EtcdSetup, Kelpie, poll};
use tokio::time::{Instant, sleep};

use super::fixture::{TIMEOUT, exclusive, on_releases, start_kelpie};

/// The store gets 640 MB of live data: a defragmentation then takes longer than the deadline of
/// livez on fast disks, too.
const KEYS: usize = 640;
const SIZE: usize = 1_000_000;

/// A response, with the instants of the request and of the response.
struct TimedResponse {
    sent: Instant,
    received: Instant,
    reply: HttpResponse,
}

/// The period in which the metrics showed a defragmentation.
#[derive(Clone, Copy)]
struct DefragPeriod {
    first: Instant,
    last: Instant,
}

impl DefragPeriod {
    /// Returns the probes that started and ended within the period.
    fn inside<'a>(&self, probes: &'a [TimedResponse]) -> Vec<&'a TimedResponse> {
        let inside =
            |probe: &&TimedResponse| probe.sent >= self.first && probe.received <= self.last;
        probes.iter().filter(inside).collect()
    }
}

/// The observations of one defragmentation.
struct Observations {
    period: DefragPeriod,
    ended: Instant,
    livez: Vec<TimedResponse>,
    readyz: Vec<TimedResponse>,
    /// readyz without the defragmentation check.
    excluded: Vec<TimedResponse>,
    /// livez of a kelpie that does not detect defragmentations.
    control: Vec<TimedResponse>,
    /// etcd's own livez, requested during the defragmentation.
    upstream: Option<HttpResponse>,
}

#[tokio::test]
async fn livez_passes_and_readyz_names_the_defrag() {
    let _exclusive = exclusive().await;
    for release in ETCD_RELEASES {
        defragment(release).await;
    }
}

async fn defragment(release: &'static str) {
    let etcd = EtcdMember::start(release).await.unwrap();
    let deadline = "--livez-deadline=500ms";
    let kelpie = start_kelpie(&etcd, &[deadline]).await;
    let control = start_kelpie(&etcd, &[deadline, "--defrag-detection=false"]).await;
    etcd.fill(KEYS, SIZE).await.unwrap();
    for ours in [&kelpie, &control] {
        ours.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    }
    let size = etcd
        .metric("etcd_mvcc_db_total_size_in_use_in_bytes")
        .await
        .unwrap();
    assert!(size > 600e6, "{size} bytes of live data");

    let seen = observe(&etcd, &kelpie, &control).await;

    let took = seen.period.last - seen.period.first;
    let livez = seen.period.inside(&seen.livez);
    assert!(
        livez.len() >= 3,
        "{} probes of livez inside {took:?}",
        livez.len()
    );
    for probe in &livez {
        assert_eq!(probe.reply.status, 200, "{}", probe.reply.body);
    }
    // The metrics that a probe shares may be from just before the start.
    let settled = DefragPeriod {
        first: seen.period.first + Duration::from_millis(100),
        ..seen.period
    };
    let readyz = settled.inside(&seen.readyz);
    assert!(!readyz.is_empty(), "no probe of readyz inside {took:?}");
    for probe in &readyz {
        let reply = &probe.reply;
        assert_eq!(reply.status, 503, "{}", reply.body);
        assert!(
            reply.body.contains("[-]defragmentation failed: "),
            "{}",
            reply.body
        );
        assert_eq!(
            reply.body.matches("[-]").count(),
            1,
            "only this check fails: {}",
            reply.body
        );
    }
    let excluded = settled.inside(&seen.excluded);
    assert!(
        !excluded.is_empty(),
        "no probe without defragmentation inside {took:?}"
    );
    for probe in &excluded {
        assert_eq!(probe.reply.status, 200, "{}", probe.reply.body);
    }
    let failed = seen
        .control
        .iter()
        .filter(|probe| probe.reply.status == 503);
    let failed = failed
        .filter(|probe| probe.sent >= seen.period.first)
        .count();
    assert!(
        failed > 0,
        "livez never failed without detection: the test proves nothing"
    );
    let recovery = seen
        .readyz
        .iter()
        .find(|probe| probe.received >= seen.ended && probe.reply.status == 200);
    let recovery = recovery.unwrap().received - seen.ended;
    assert!(
        recovery < Duration::from_secs(1),
        "ready only {recovery:?} after the end"
    );
    let upstream = seen.upstream.map_or("none".to_owned(), |reply| {
        format!("{} after {:?}", reply.status, reply.took)
    });
    let longest = livez.iter().map(|probe| probe.reply.took).max().unwrap();
    println!(
        "{release}, defragmentation of {:.0} MB in {took:?}: {} livez 200 inside it (longest \
         {longest:?}), {} readyz 503, {} without it 200, ready again after {recovery:?}; without \
         detection {failed} livez 503; etcd's own livez: {upstream}",
        size / 1e6,
        livez.len(),
        readyz.len(),
        excluded.len(),
    );
}

async fn observe(etcd: &EtcdMember, kelpie: &Kelpie, control: &Kelpie) -> Observations {
    let done = tokio::sync::watch::Sender::new(false);
    let defragment = async {
        // The first probes are sent before the defragmentation starts.
        sleep(Duration::from_millis(200)).await;
        etcd.defragment().await.unwrap();
        let ended = Instant::now();
        sleep(Duration::from_millis(1_500)).await;
        done.send_replace(true);
        ended
    };
    let period = async {
        let (mut first, mut last) = (None, None);
        while !*done.borrow() {
            let sent = Instant::now();
            let running = etcd.metric("etcd_disk_defrag_inflight").await.unwrap();
            if running > 0.5 {
                first.get_or_insert_with(Instant::now);
                last = Some(sent);
            }
            sleep(Duration::from_millis(5)).await;
        }
        let (first, last) = (first.expect("it was seen"), last.expect("it was seen"));
        DefragPeriod { first, last }
    };
    let upstream = async {
        poll::until("a defragmentation", TIMEOUT, async || {
            let running = etcd.metric("etcd_disk_defrag_inflight").await?;
            Ok((running > 0.5).then_some(()))
        })
        .await
        .unwrap();
        let reply = plain_http::get(etcd.metrics_url(), "/livez").await.unwrap();
        (reply.status != 404).then_some(reply)
    };
    let (ended, period, upstream, livez, readyz, excluded, control) = tokio::join!(
        defragment,
        period,
        upstream,
        probe(kelpie, "/livez", &done),
        probe(kelpie, "/readyz", &done),
        probe(kelpie, "/readyz?exclude=defragmentation", &done),
        probe(control, "/livez", &done),
    );
    Observations {
        period,
        ended,
        livez,
        readyz,
        excluded,
        control,
        upstream,
    }
}

async fn probe(
    kelpie: &Kelpie,
    target: &str,
    done: &tokio::sync::watch::Sender<bool>,
) -> Vec<TimedResponse> {
    let mut probes = Vec::new();
    while !*done.borrow() {
        let sent = Instant::now();
        let reply = kelpie.get(target).await.unwrap();
        let received = Instant::now();
        probes.push(TimedResponse {
            sent,
            received,
            reply,
        });
        sleep(Duration::from_millis(20)).await;
    }
    probes
}

#[tokio::test]
async fn not_serving_needs_no_metrics() {
    let _exclusive = exclusive().await;
    on_releases(&["etcd-3.5", "etcd-3.7"], async |release| {
        let flag = match release {
            "etcd-3.5" => "--experimental-stop-grpc-service-on-defrag=true",
            _ => "--feature-gates=StopGRPCServiceOnDefrag=true",
        };
        let etcd = EtcdMember::start_with(&EtcdSetup::new(release).flag(flag))
            .await
            .unwrap();
        let nowhere = "--metrics-url=http://127.0.0.1:1/metrics";
        let kelpie = start_kelpie(&etcd, &["--livez-deadline=500ms", nowhere]).await;
        etcd.fill(KEYS, SIZE).await.unwrap();
        kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();

        let watch = async {
            let mut named = false;
            let mut failed = Vec::new();
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(3) {
                let (live, ready) =
                    tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz/defragmentation"));
                let (live, ready) = (live.unwrap(), ready.unwrap());
                named |= ready.status == 503 && ready.body.contains("[-]defragmentation failed: ");
                if live.status != 200 {
                    failed.push(live.body);
                }
                sleep(Duration::from_millis(10)).await;
            }
            (named, failed)
        };
        let (done, (named, failed)) = tokio::join!(etcd.defragment(), watch);
        done.unwrap();
        assert!(named, "never named");
        assert!(failed.is_empty(), "livez failed: {failed:?}");
    })
    .await;
}
