//! The same pages to a real Prometheus and to our reader: every difference is meant.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use kelpie_collector::{Batch, Pipeline, Rules};
use kelpie_e2e::{MetricsServer, Samples, poll, wire};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use xtask::cache;

use super::pages::{DIFFERENT, Difference, SAME};

/// Prometheus looks every three seconds; on a busy machine some looks fail.
const PATIENCE: Duration = Duration::from_mins(2);

/// What Prometheus adds to everything that it reads; `PAGE` tells which page it was.
const JOB: &str = "pages";
const PAGE: &str = "kelpie_page";

/// What was read from a page.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Refused,
    Read(BTreeSet<Sample>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sample {
    labels: BTreeMap<String, String>,
    /// As text: NaN equals itself.
    value: String,
    /// If the page says it.
    timestamp_ms: Option<i64>,
}

#[tokio::test]
async fn prometheus_and_we_read_the_same() {
    let now = now_ms();
    let stamps = [now - 60_000, now - 59_000];
    let same = SAME.iter().map(|page| stamped(page, stamps));
    let same: Vec<Vec<u8>> = same.chain(recorded(stamps[0])).collect();
    let different = DIFFERENT.iter().map(|(page, ..)| stamped(page, stamps));
    let pages: Vec<Vec<u8>> = same.iter().cloned().chain(different).collect();

    let address = serve(pages.clone()).await.unwrap();
    let configuration = configuration(address, pages.len());
    let prometheus = MetricsServer::prometheus(&configuration, &[])
        .await
        .unwrap();
    let theirs = verdicts(&prometheus, pages.len(), address, stamps)
        .await
        .unwrap();
    let ours: Vec<Verdict> = pages.iter().map(|page| read(page, now)).collect();

    let same = same
        .iter()
        .map(|page| (page.as_slice(), None, "nothing is known to differ"));
    let different = DIFFERENT
        .iter()
        .map(|(page, expected, why)| (*page, Some(*expected), *why));
    let verdicts = ours.iter().zip(&theirs);
    let mut problems = Vec::new();
    for ((page, expected, why), (ours, theirs)) in same.chain(different).zip(verdicts) {
        let found = match (ours, theirs) {
            (Verdict::Refused, Verdict::Read(_)) => Some(Difference::WeRefuse),
            (Verdict::Read(_), Verdict::Refused) => Some(Difference::PrometheusRefuses),
            _ if ours != theirs => Some(Difference::OtherSamples),
            _ => None,
        };
        if found != expected {
            let page = page[..page.len().min(200)].escape_ascii();
            problems.push(format!(
                "{page}: {found:?}, but {why}\n{ours:?}\n{theirs:?}\n"
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// What our reader makes of a page.
fn read(page: &[u8], now: i64) -> Verdict {
    let mut pipeline = Pipeline::new(Arc::new(Rules::new()), Arc::default(), now);
    let mut samples = BTreeSet::new();
    let mut out = |batch: Batch| {
        samples.extend(batch.samples().into_iter().map(|sample| Sample {
            labels: sample.labels.into_iter().collect(),
            value: sample.value.to_string(),
            timestamp_ms: Some(sample.timestamp_ms).filter(|stamp| *stamp != now),
        }));
    };
    let fed = pipeline.feed(page, &mut out);
    match fed.and(pipeline.finish(&mut out)) {
        Ok(()) => Verdict::Read(samples),
        Err(_) => Verdict::Refused,
    }
}

/// What Prometheus made of every page.
async fn verdicts(
    prometheus: &MetricsServer,
    pages: usize,
    address: SocketAddr,
    stamps: [i64; 2],
) -> Result<Vec<Verdict>> {
    let mut judged: BTreeMap<usize, bool> = BTreeMap::new();
    let stored = poll::until("Prometheus to read all pages", PATIENCE, async || {
        judged.extend(accepted(prometheus).await?);
        if judged.len() < pages {
            return Ok(None);
        }
        let stored = prometheus.query(&format!("{{{PAGE}!=\"\"}}[10m]")).await?;
        // Comes into the storage together with what was on the page.
        let mut is_up = BTreeSet::new();
        for (labels, values) in &stored {
            if labels["__name__"] == "up" && values.iter().any(|(_, value)| *value > 0.0) {
                is_up.insert(labels[PAGE].parse::<usize>()?);
            }
        }
        let is_there = |(page, accepted): (&usize, &bool)| !accepted || is_up.contains(page);
        Ok(judged.iter().all(is_there).then_some(stored))
    });
    let stored = stored.await?;
    let mut samples = by_page(stored, &address.to_string(), stamps)?;
    let verdict = |(page, accepted)| {
        if accepted {
            Verdict::Read(samples.remove(&page).unwrap_or_default())
        } else {
            Verdict::Refused
        }
    };
    Ok(judged.into_iter().map(verdict).collect())
}

/// Pages that Prometheus has read, and whether it accepted them.
async fn accepted(prometheus: &MetricsServer) -> Result<Vec<(usize, bool)>> {
    let reply = wire::get(&prometheus.url(), "/api/v1/targets").await?;
    if reply.status != 200 {
        return Ok(Vec::new()); // It is starting.
    }
    let answer: Value = serde_json::from_str(&reply.body)?;
    let targets = answer["data"]["activeTargets"].as_array();
    let mut judged = Vec::new();
    for target in targets.context("no targets")? {
        let page = target["labels"][PAGE]
            .as_str()
            .context("no page")?
            .parse()?;
        let error = target["lastError"].as_str().unwrap_or_default();
        match target["health"].as_str() {
            Some("up") => judged.push((page, true)),
            Some("down") if !is_about_the_way(error) => judged.push((page, false)),
            _ => {}
        }
    }
    Ok(judged)
}

/// Whether Prometheus could not get the page: then the next look decides.
fn is_about_the_way(error: &str) -> bool {
    let troubles = ["Get ", "deadline exceeded", "timeout", "EOF", "connection"];
    troubles.iter().any(|trouble| error.contains(trouble))
}

/// Without what Prometheus itself has added.
fn by_page(
    stored: Samples,
    instance: &str,
    stamps: [i64; 2],
) -> Result<BTreeMap<usize, BTreeSet<Sample>>> {
    let mut pages: BTreeMap<usize, BTreeSet<Sample>> = BTreeMap::new();
    for (mut labels, values) in stored {
        let page = labels.remove(PAGE).context("no page")?.parse()?;
        if labels.get("job").is_some_and(|job| job == JOB) {
            labels.remove("job");
            if is_about_the_scrape(&labels["__name__"]) {
                continue;
            }
        }
        labels.retain(|name, value| name != "instance" || value != instance);
        pages
            .entry(page)
            .or_default()
            .extend(values.into_iter().map(|(time, value)| Sample {
                labels: labels.clone(),
                value: value.to_string(),
                timestamp_ms: Some(time).filter(|time| stamps.contains(time)),
            }));
    }
    Ok(pages)
}

fn is_about_the_scrape(name: &str) -> bool {
    name == "up" || name.starts_with("scrape_")
}

/// One target for each page.
fn configuration(address: SocketAddr, pages: usize) -> String {
    let mut text = format!(
        "global: {{scrape_interval: 3s, scrape_timeout: 3s}}\nscrape_configs:\n\
         - job_name: {JOB}\n  honor_labels: true\n  static_configs:\n"
    );
    for page in 0..pages {
        let labels = format!("{PAGE}: '{page}', __metrics_path__: /{page}");
        writeln!(text, "  - {{targets: ['{address}'], labels: {{{labels}}}}}").unwrap();
    }
    text
}

/// Serves the pages under their numbers, as long as the test runs.
async fn serve(pages: Vec<Vec<u8>>) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let pages = Arc::new(pages);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&pages)));
        }
    });
    Ok(address)
}

/// Answers until the client goes; whatever goes wrong, Prometheus will ask again.
async fn answer(stream: TcpStream, pages: Arc<Vec<Vec<u8>>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            let read = stream.read_line(&mut request).await.ok()?;
            if read == 0 {
                return None;
            }
        }
        let path = request.split(' ').nth(1)?.strip_prefix('/')?;
        let page = pages.get(path.parse::<usize>().ok()?)?;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\n\r\n",
            page.len()
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(page).await.ok()?;
    }
}

/// A page with its times.
fn stamped(page: &[u8], [first, second]: [i64; 2]) -> Vec<u8> {
    // Times stand in pages that are text.
    let Ok(text) = str::from_utf8(page) else {
        return page.to_vec();
    };
    let text = text.replace("{T}", &first.to_string());
    text.replace("{U}", &second.to_string()).into_bytes()
}

/// What real servers have answered, as of now: Prometheus takes nothing that is old.
fn recorded(stamp: i64) -> Vec<Vec<u8>> {
    let folder = cache::repository().join("crates/kelpie-collector/tests/corpus");
    let files = fs::read_dir(folder).unwrap();
    let restamped = |line: &str| match line.rsplit_once(' ') {
        Some((rest, time)) if !line.starts_with('#') && rest.contains([' ']) && is_time(time) => {
            format!("{rest} {stamp}\n")
        }
        _ => format!("{line}\n"),
    };
    let page = |file: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        text.lines().map(restamped).collect::<String>().into_bytes()
    };
    files.map(page).collect()
}

/// Milliseconds of our days.
fn is_time(word: &str) -> bool {
    word.len() == 13 && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn now_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the pages are of now")]
    let now = SystemTime::now();
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}
