//! Serving until told to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use kelpie_etcd::Member;
use kelpie_net::{FilePaths, Files, TlsListener, TlsServer};
use prometheus_client::registry::Registry;
use tokio::runtime;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::member::MemberFlags;
use super::usage;
use crate::bind::BindAddress;
use crate::exit::Outcome;
use crate::log::{self, LogFormat, LogLevel};
use crate::signals;

/// Answers under way may take this long once the end is asked for.
const DRAIN: Duration = Duration::from_millis(2_500);

/// Between two looks at the files of our own certificate.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The first call to etcd is only for the log.
const GREETING: Duration = Duration::from_secs(5);

/// Where and how to serve.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    member: MemberFlags,

    /// Serve here; port 0 takes a free one, which the log names
    ///
    /// On loopback by default, where the kubelet reaches members on the host's network. Elsewhere
    /// write :2378, so that it serves on the pod's own address.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:2378",
        help_heading = "Serving"
    )]
    listen: BindAddress,

    /// Serve over TLS with this certificate; it and the key are read again when the files change
    #[arg(
        long,
        value_name = "FILE",
        requires = "listen_key",
        help_heading = "Serving"
    )]
    listen_cert: Option<PathBuf>,

    /// Key of the certificate to serve with
    #[arg(
        long,
        value_name = "FILE",
        requires = "listen_cert",
        help_heading = "Serving"
    )]
    listen_key: Option<PathBuf>,

    /// Answer HEAD as well, for load balancers that cannot do otherwise
    #[arg(long, help_heading = "Serving")]
    allow_head: bool,

    /// How a line of the log looks
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        help_heading = "Log"
    )]
    log_format: LogFormat,

    /// What is worth a line
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        help_heading = "Log"
    )]
    log_level: LogLevel,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<Outcome> {
        // Mistakes on the command line before anything else.
        let options = self.member.options(self.allow_head)?;
        let target = self.member.target()?;
        if self.listen == BindAddress::Nowhere {
            return Err(usage(
                "--listen 0 would serve nothing: write HOST:PORT or :PORT",
            ));
        }
        log::start(self.log_format, self.log_level);
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        runtime.block_on(async {
            let Some(tcp) = self.listen.listen("--listen").await? else {
                return Ok(Outcome::Failure);
            };
            let member = self.member.member()?;
            let mut registry = Registry::default();
            let health = kelpie_etcd::checks(&member, &options, &mut registry)?;
            let router = kelpie_health::routes(health)
                .merge(kelpie_health::metrics(Arc::new(registry)))
                .fallback(kelpie_health::not_found);

            let scheme = if self.listen_cert.is_some() {
                "https"
            } else {
                "http"
            };
            let address = tcp.local_addr().context("cannot tell the address")?;
            info!(etcd = %target.endpoint, "listening on {scheme}://{address}");
            tokio::spawn(greet(Arc::clone(&member)));

            let shutdown = signals::shutdown()?;
            let stopping = shutdown.clone().cancelled_owned();
            let served = match self.identity_files() {
                None => kelpie_health::serve_within(DRAIN, tcp, router, stopping).await,
                Some(paths) => {
                    // Files that are not there yet must not hold up the end.
                    match shutdown.run_until_cancelled(own_certificate(paths)).await {
                        None => Ok(()),
                        Some(server) => {
                            let listener = TlsListener::new(tcp, server);
                            kelpie_health::serve_within(DRAIN, listener, router, stopping).await
                        }
                    }
                }
            };
            served.context("serving ended")?;
            info!("stopped");
            Ok(Outcome::Success)
        })
    }

    fn identity_files(&self) -> Option<FilePaths> {
        let pair = self.listen_cert.clone().zip(self.listen_key.clone());
        pair.map(|identity| FilePaths {
            identity: Some(identity),
            roots: None,
        })
    }
}

/// Says once how it stands, so that a wrong flag is seen at the start and not at the first probe.
async fn greet(member: Arc<dyn Member>) {
    match timeout(GREETING, member.status()).await {
        Ok(Ok(_)) => info!("etcd answers"),
        Ok(Err(fault)) => warn!(reason = %fault, "etcd cannot be asked yet; readyz will say why"),
        Err(_) => warn!("etcd does not answer yet; readyz will say when it does"),
    }
}

/// Our certificate; waits for files that are not there yet, and follows their changes.
async fn own_certificate(paths: FilePaths) -> TlsServer {
    let mut told = None;
    let (mut files, server) = loop {
        match load(paths.clone()) {
            Ok(loaded) => break loaded,
            Err(problem) => {
                let problem = format!("{problem:#}");
                if told.as_ref() != Some(&problem) {
                    error!(%problem, "cannot serve over TLS yet; mend the files of --listen-cert and --listen-key");
                    told = Some(problem);
                }
                sleep(Duration::from_secs(1)).await;
            }
        }
    };
    let current = server.clone();
    tokio::spawn(async move {
        let mut failing = false;
        loop {
            sleep(LOOK_AGAIN).await;
            match files.refresh() {
                Ok(changed) => {
                    if let Some(identity) = files.identity().filter(|_| changed) {
                        current.replace(identity);
                        info!("serving with the new certificate");
                    }
                    failing = false;
                }
                Err(problem) => {
                    if !std::mem::replace(&mut failing, true) {
                        warn!(%problem, "the new certificate cannot be read; the former stays in use");
                    }
                }
            }
        }
    });
    server
}

fn load(paths: FilePaths) -> Result<(Files, TlsServer)> {
    let files = Files::load(paths)?;
    let identity = files.identity().context("no certificate")?;
    let server = TlsServer::new(identity)?;
    Ok((files, server))
}
