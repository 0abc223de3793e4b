//! Measures the processor time and memory of a collector process that reads one large federate body
//! and writes it to a hub.
//!
//! Source and hub are stubs that only serve and count. Any collector can be measured: everything
//! after `--peer` is its command line, with `{from}` and `{to}` for the two URLs.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use kelpie_e2e::process::ServerProcess;
use kelpie_e2e::{kelpie, poll};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use xtask::cache;

/// Limits the time from the start to the last sample at the hub.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Cost of collecting
#[derive(Parser)]
struct Arguments {
    /// Number of samples in the body
    #[arg(long, default_value_t = 1_000_000)]
    samples: u64,
    /// Measure the collector with this command line instead of Kelpie's
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "COMMAND")]
    peer: Vec<String>,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { samples, peer, .. } = Arguments::parse();
    let body = body(samples)?;
    let bytes = body.len();
    let from = serve(Stub::Source(body)).await?;
    let received = Arc::default();
    let to = serve(Stub::Hub(Arc::clone(&received))).await?;

    let folder = tempfile::tempdir()?;
    let mut command = if peer.is_empty() {
        own_command()?
    } else {
        peer
    }
    .into_iter();
    let program = command.next().context("no command")?;
    let fill = |argument: String| argument.replace("{from}", &from).replace("{to}", &to);
    let arguments: Vec<String> = command.map(fill).collect();
    let log = folder.path().join("log");
    let mut process = ServerProcess::start(program.as_ref(), &arguments, &log)?;
    let wait = poll::until("all samples to arrive", TIMEOUT, async || {
        let is_done = received.load(Ordering::Relaxed) >= samples;
        ensure!(is_done || !process.has_exited(), "the collector exited");
        Ok(is_done.then_some(()))
    });
    let waited = wait.await;
    waited.with_context(|| process.log_tail())?;

    let processor = process.cpu_time()?.as_secs_f64();
    let millions = f64::from(u32::try_from(samples)?) / 1e6;
    let resident = f64::from(u32::try_from(process.resident_bytes()? / 1_000)?) / 1e3;
    println!("| samples | bytes | processor | per million samples | resident |");
    println!("|---|---|---|---|---|");
    println!(
        "| {samples} | {bytes} | {processor:.2} s | {:.2} s | {resident:.1} MB |",
        processor / millions
    );
    Ok(())
}

fn own_command() -> Result<Vec<String>> {
    let program = kelpie::dist_binary()?.display().to_string();
    let arguments = [
        "addon",
        "collector",
        "--from={from}",
        "--to={to}",
        "--match={__name__!=\"\"}",
        "--label=cluster=spoke-1",
        "--interval=60s",
        "--listen=127.0.0.1:0",
    ];
    let arguments = arguments.map(str::to_owned);
    Ok([program].into_iter().chain(arguments).collect())
}

/// Repeats the response of a real Prometheus for many instances, with current timestamps.
fn body(samples: u64) -> Result<Vec<u8>> {
    let file = "crates/kelpie-collector/tests/corpus/prometheus-federate.txt";
    let recorded = fs::read_to_string(cache::repository().join(file))?;
    let mut lines = Vec::new();
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let (rest, _time) = line.rsplit_once(' ').context("no time")?;
        lines.push(rest.split_once("instance=\"").context("no instance")?);
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the samples have current timestamps"
    )]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = now.as_millis();
    let mut body = String::new();
    let instances = (0_u64..).flat_map(|instance| lines.iter().map(move |line| (instance, line)));
    for (instance, (start, end)) in instances.zip(0..samples).map(|(line, _)| line) {
        writeln!(body, "{start}instance=\"{instance}-{end} {now}")?;
    }
    Ok(body.into_bytes())
}

/// The server at one end of the collector.
enum Stub {
    /// Answers every request with this body.
    Source(Vec<u8>),
    /// Accepts every request and counts its samples.
    Hub(Arc<AtomicU64>),
}

/// Serves the stub until the program exits. Returns its URL.
async fn serve(stub: Stub) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let stub = Arc::new(stub);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stub = Arc::clone(&stub);
            // An error ends the connection, and the collector notices that.
            tokio::spawn(async move { stub.serve(BufReader::new(stream)).await.is_ok() });
        }
    });
    Ok(url)
}

impl Stub {
    /// Answers requests until the collector closes the connection.
    async fn serve(&self, mut stream: BufReader<TcpStream>) -> Result<()> {
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                let read = stream.read_line(&mut head).await?;
                ensure!(read > 0, "closed");
            }
            let head = head.to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"));
            let length = length.map_or(Ok(0), |length| length.trim().parse())?;
            let mut request = vec![0; length];
            stream.read_exact(&mut request).await?;
            match self {
                Self::Source(body) => {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
                         Content-Length: {}\r\n\r\n",
                        body.len()
                    );
                    stream.write_all(head.as_bytes()).await?;
                    stream.write_all(body).await?;
                }
                Self::Hub(received) => {
                    let request = snap::raw::Decoder::new().decompress_vec(&request)?;
                    received.fetch_add(count_samples(&request)?, Ordering::Relaxed);
                    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
                }
            }
        }
    }
}

/// Counts the samples of a write request: field 2 of each field 1.
fn count_samples(request: &[u8]) -> Result<u64> {
    let mut samples = 0;
    for (_, series) in fields(request)?.into_iter().filter(|(tag, _)| *tag == 0x0a) {
        let found = fields(series)?.into_iter().filter(|(tag, _)| *tag == 0x12);
        samples += u64::try_from(found.count())?;
    }
    Ok(samples)
}

/// Splits a protobuf message that has only length-delimited fields.
fn fields(mut message: &[u8]) -> Result<Vec<(u8, &[u8])>> {
    let mut fields = Vec::new();
    while let Some((tag, mut rest)) = message.split_first() {
        let length = prost::decode_length_delimiter(&mut rest)?;
        let (field, rest) = rest
            .split_at_checked(length)
            .context("a field is truncated")?;
        fields.push((*tag, field));
        message = rest;
    }
    Ok(fields)
}
