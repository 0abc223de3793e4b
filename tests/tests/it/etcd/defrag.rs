//! A real defragmentation: livez stays, readyz says what is going on.

use std::time::Duration;

use kelpie_e2e::wire::{self, Reply};
use kelpie_e2e::{Etcd, Kelpie, LINES, Setup, poll};
use tokio::time::{Instant, sleep};

use super::stage::{PATIENCE, beside, on_lines, quiet};

/// 320 MB of live data.
const KEYS: usize = 320;
const SIZE: usize = 1_000_000;

/// An answer, and when it was asked for and there.
struct Probe {
    asked: Instant,
    there: Instant,
    reply: Reply,
}

/// The time for which the member said that it defragments.
#[derive(Clone, Copy)]
struct Span {
    first: Instant,
    last: Instant,
}

impl Span {
    /// The probes that began and ended inside it.
    fn inside<'a>(&self, probes: &'a [Probe]) -> Vec<&'a Probe> {
        let inside = |probe: &&Probe| probe.asked >= self.first && probe.there <= self.last;
        probes.iter().filter(inside).collect()
    }
}

/// What was seen of one defragmentation.
struct Seen {
    span: Span,
    ended: Instant,
    livez: Vec<Probe>,
    readyz: Vec<Probe>,
    without: Vec<Probe>,
    control: Vec<Probe>,
    /// etcd's own livez, asked once it had begun.
    theirs: Option<Reply>,
}

#[tokio::test]
async fn livez_stays_and_readyz_names_it() {
    let _quiet = quiet().await;
    for line in LINES {
        defragment(line).await;
    }
}

async fn defragment(line: &'static str) {
    let etcd = Etcd::start(line).await.unwrap();
    let short = "--livez-deadline=500ms";
    let kelpie = beside(&etcd, &[short]).await;
    let control = beside(&etcd, &[short, "--defrag-detection=false"]).await;
    etcd.fill(KEYS, SIZE).await.unwrap();
    for ours in [&kelpie, &control] {
        ours.until("/readyz", 200, PATIENCE).await.unwrap();
    }
    let size = etcd
        .metric("etcd_mvcc_db_total_size_in_use_in_bytes")
        .await
        .unwrap();
    assert!(size > 300e6, "{size} bytes of live data");

    let seen = watch(&etcd, &kelpie, &control).await;

    let took = seen.span.last - seen.span.first;
    let livez = seen.span.inside(&seen.livez);
    assert!(
        livez.len() >= 3,
        "{} probes of livez inside {took:?}",
        livez.len()
    );
    for probe in &livez {
        assert_eq!(probe.reply.status, 200, "{}", probe.reply.body);
    }
    // The sample a probe shares may be from the moment before.
    let settled = Span {
        first: seen.span.first + Duration::from_millis(100),
        ..seen.span
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
            "only that: {}",
            reply.body
        );
    }
    let without = settled.inside(&seen.without);
    assert!(
        !without.is_empty(),
        "no probe without defragmentation inside {took:?}"
    );
    for probe in &without {
        assert_eq!(probe.reply.status, 200, "{}", probe.reply.body);
    }
    let failed = seen
        .control
        .iter()
        .filter(|probe| probe.reply.status == 503);
    let failed = failed
        .filter(|probe| probe.asked >= seen.span.first)
        .count();
    assert!(
        failed > 0,
        "without detection livez never failed: the test proves nothing"
    );
    let back = seen
        .readyz
        .iter()
        .find(|p| p.there >= seen.ended && p.reply.status == 200);
    let back = back.unwrap().there - seen.ended;
    assert!(
        back < Duration::from_secs(1),
        "ready only {back:?} after the end"
    );
    let theirs = seen.theirs.map_or("none".to_owned(), |reply| {
        format!("{} after {:?}", reply.status, reply.took)
    });
    let longest = livez.iter().map(|probe| probe.reply.took).max().unwrap();
    println!(
        "{line}, defragmentation of {:.0} MB in {took:?}: {} livez 200 inside it (longest \
         {longest:?}), {} readyz 503, {} without it 200, ready again after {back:?}; without \
         detection {failed} livez 503; etcd's own livez: {theirs}",
        size / 1e6,
        livez.len(),
        readyz.len(),
        without.len(),
    );
}

async fn watch(etcd: &Etcd, kelpie: &Kelpie, control: &Kelpie) -> Seen {
    let done = tokio::sync::watch::Sender::new(false);
    let defragment = async {
        // What is asked before it begins is none of its business.
        sleep(Duration::from_millis(200)).await;
        etcd.defragment().await.unwrap();
        let ended = Instant::now();
        sleep(Duration::from_millis(1_500)).await;
        done.send_replace(true);
        ended
    };
    let span = async {
        let (mut first, mut last) = (None, None);
        while !*done.borrow() {
            let asked = Instant::now();
            let running = etcd.metric("etcd_disk_defrag_inflight").await.unwrap();
            if running > 0.5 {
                first.get_or_insert_with(Instant::now);
                last = Some(asked);
            }
            sleep(Duration::from_millis(5)).await;
        }
        let (first, last) = (first.expect("it was seen"), last.expect("it was seen"));
        Span { first, last }
    };
    let theirs = async {
        poll::until("a defragmentation", PATIENCE, async || {
            let running = etcd.metric("etcd_disk_defrag_inflight").await?;
            Ok((running > 0.5).then_some(()))
        })
        .await
        .unwrap();
        let reply = wire::get(etcd.metrics_url(), "/livez").await.unwrap();
        (reply.status != 404).then_some(reply)
    };
    let (ended, span, theirs, livez, readyz, without, control) = tokio::join!(
        defragment,
        span,
        theirs,
        probe(kelpie, "/livez", &done),
        probe(kelpie, "/readyz", &done),
        probe(kelpie, "/readyz?exclude=defragmentation", &done),
        probe(control, "/livez", &done),
    );
    Seen {
        span,
        ended,
        livez,
        readyz,
        without,
        control,
        theirs,
    }
}

async fn probe(
    kelpie: &Kelpie,
    target: &str,
    done: &tokio::sync::watch::Sender<bool>,
) -> Vec<Probe> {
    let mut probes = Vec::new();
    while !*done.borrow() {
        let asked = Instant::now();
        let reply = kelpie.get(target).await.unwrap();
        let there = Instant::now();
        probes.push(Probe {
            asked,
            there,
            reply,
        });
        sleep(Duration::from_millis(20)).await;
    }
    probes
}

#[tokio::test]
async fn a_member_that_says_so_itself_needs_no_metrics() {
    let _quiet = quiet().await;
    on_lines(&["etcd-3.5", "etcd-3.7"], async |line| {
        let flag = match line {
            "etcd-3.5" => "--experimental-stop-grpc-service-on-defrag=true",
            _ => "--feature-gates=StopGRPCServiceOnDefrag=true",
        };
        let etcd = Etcd::start_with(&Setup::new(line).flag(flag))
            .await
            .unwrap();
        let nowhere = "--metrics-url=http://127.0.0.1:1/metrics";
        let kelpie = beside(&etcd, &["--livez-deadline=500ms", nowhere]).await;
        etcd.fill(KEYS, SIZE).await.unwrap();
        kelpie.until("/livez", 200, PATIENCE).await.unwrap();

        let watch = async {
            let mut said = false;
            let mut failed = Vec::new();
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(3) {
                let (live, ready) =
                    tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz/defragmentation"));
                let (live, ready) = (live.unwrap(), ready.unwrap());
                said |= ready.status == 503 && ready.body.contains("[-]defragmentation failed: ");
                if live.status != 200 {
                    failed.push(live.body);
                }
                sleep(Duration::from_millis(10)).await;
            }
            (said, failed)
        };
        let (done, (said, failed)) = tokio::join!(etcd.defragment(), watch);
        done.unwrap();
        assert!(said, "never named");
        assert!(failed.is_empty(), "livez failed: {failed:?}");
    })
    .await;
}
