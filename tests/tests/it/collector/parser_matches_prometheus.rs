//! A real Prometheus and Kelpie's parser read the same expositions. Every difference is intended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kelpie_collector::{Batch, InvalidNames, Pipeline, TransformRules};
use kelpie_e2e::{MetricsServer, PromSamples, plain_http, poll};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use xtask::cache;

use super::exposition_corpus::{DIFFERENT, Difference, SAME};
use crate::fixture::now_ms;

/// Prometheus scrapes every three seconds. On a loaded machine some scrapes fail.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Job name of all targets.
const JOB: &str = "pages";
/// Target label with the number of the page.
const PAGE: &str = "kelpie_page";

/// Result of parsing a page.
#[derive(Clone, Debug, PartialEq)]
enum ParseResult {
    Rejected,
    Parsed(BTreeSet<Sample>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sample {
    labels: BTreeMap<String, String>,
    /// Text, so that NaN equals itself.
    value: String,
    /// The timestamp on the page, if it has one.
    timestamp_ms: Option<i64>,
}

#[tokio::test]
async fn parser_agrees_with_prometheus() {
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
    let theirs = scraped(&prometheus, pages.len(), address, stamps)
        .await
        .unwrap();
    let ours: Vec<ParseResult> = pages.iter().map(|page| parsed(page, now)).collect();

    let same = same
        .iter()
        .map(|page| (page.as_slice(), None, "no difference is expected"));
    let different = DIFFERENT
        .iter()
        .map(|(page, expected, why)| (*page, Some(*expected), *why));
    let results = ours.iter().zip(&theirs);
    let mut problems = Vec::new();
    for ((page, expected, why), (ours, theirs)) in same.chain(different).zip(results) {
        let found = match (ours, theirs) {
            (ParseResult::Rejected, ParseResult::Parsed(_)) => Some(Difference::KelpieRejects),
            (ParseResult::Parsed(_), ParseResult::Rejected) => Some(Difference::PrometheusRejects),
            _ if ours != theirs => Some(Difference::DifferentSamples),
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

/// Parses a page with Kelpie's parser.
fn parsed(page: &[u8], now: i64) -> ParseResult {
    let rules = TransformRules::new().invalid_names(InvalidNames::Keep);
    let mut pipeline = Pipeline::new(Arc::new(rules), Arc::default(), now);
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
        Ok(()) => ParseResult::Parsed(samples),
        Err(_) => ParseResult::Rejected,
    }
}

/// Waits until Prometheus has scraped every page, and returns the results in order.
async fn scraped(
    prometheus: &MetricsServer,
    pages: usize,
    address: SocketAddr,
    stamps: [i64; 2],
) -> Result<Vec<ParseResult>> {
    let mut judged: BTreeMap<usize, bool> = BTreeMap::new();
    let stored = poll::until("Prometheus to read all pages", TIMEOUT, async || {
        judged.extend(accepted(prometheus).await?);
        if judged.len() < pages {
            return Ok(None);
        }
        let stored = prometheus.query(&format!("{{{PAGE}!=\"\"}}[10m]")).await?;
        // `up` is stored together with the samples of the page.
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
    let result = |(page, accepted)| {
        if accepted {
            ParseResult::Parsed(samples.remove(&page).unwrap_or_default())
        } else {
            ParseResult::Rejected
        }
    };
    Ok(judged.into_iter().map(result).collect())
}

/// Returns the pages that Prometheus has scraped, and whether it accepted them.
async fn accepted(prometheus: &MetricsServer) -> Result<Vec<(usize, bool)>> {
    let reply = plain_http::get(&prometheus.url(), "/api/v1/targets").await?;
    if reply.status != 200 {
        return Ok(Vec::new()); // Prometheus is still starting.
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
            Some("down") if !is_connection_error(error) => judged.push((page, false)),
            _ => {}
        }
    }
    Ok(judged)
}

/// Returns true if Prometheus could not fetch the page. The next scrape decides then.
fn is_connection_error(error: &str) -> bool {
    let patterns = ["Get ", "deadline exceeded", "timeout", "EOF", "connection"];
    patterns.iter().any(|pattern| error.contains(pattern))
}

/// Groups the stored samples by page, without the labels and series that Prometheus adds.
fn by_page(
    stored: PromSamples,
    instance: &str,
    stamps: [i64; 2],
) -> Result<BTreeMap<usize, BTreeSet<Sample>>> {
    let mut pages: BTreeMap<usize, BTreeSet<Sample>> = BTreeMap::new();
    for (mut labels, values) in stored {
        let page = labels.remove(PAGE).context("no page")?.parse()?;
        if labels.get("job").is_some_and(|job| job == JOB) {
            labels.remove("job");
            if is_scrape_metric(&labels["__name__"]) {
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

fn is_scrape_metric(name: &str) -> bool {
    name == "up" || name.starts_with("scrape_")
}

/// Returns a Prometheus configuration with one target for each page.
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

/// Serves each page under its number until the test ends.
async fn serve(pages: Vec<Vec<u8>>) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let pages = Arc::new(pages);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_pages(stream, Arc::clone(&pages)));
        }
    });
    Ok(address)
}

/// Answers requests until the client disconnects. After an error Prometheus scrapes again.
async fn serve_pages(stream: TcpStream, pages: Arc<Vec<Vec<u8>>>) -> Option<()> {
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

/// Replaces the placeholders for timestamps in a page.
fn stamped(page: &[u8], [first, second]: [i64; 2]) -> Vec<u8> {
    // Only pages that are valid UTF-8 contain placeholders.
    let Ok(text) = str::from_utf8(page) else {
        return page.to_vec();
    };
    let text = text.replace("{T}", &first.to_string());
    text.replace("{U}", &second.to_string()).into_bytes()
}

/// Returns recorded responses of real servers with the timestamps replaced, because Prometheus
/// rejects old samples.
fn recorded(stamp: i64) -> Vec<Vec<u8>> {
    let folder = cache::repository().join("crates/kelpie-collector/tests/corpus");
    let files = fs::read_dir(folder).unwrap();
    let restamped = |line: &str| match line.rsplit_once(' ') {
        Some((rest, time))
            if !line.starts_with('#') && rest.contains([' ']) && is_timestamp(time) =>
        {
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

/// Returns true for a number with as many digits as the current time in milliseconds.
fn is_timestamp(word: &str) -> bool {
    word.len() == 13 && word.bytes().all(|byte| byte.is_ascii_digit())
}
