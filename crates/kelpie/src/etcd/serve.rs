//! Serves the health of a member until SIGTERM.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use kelpie_etcd::Member;
use kelpie_health::serve_with_grace;
use kelpie_net::{TlsFilePaths, TlsFiles, TlsListener, TlsServer};
use prometheus_client::registry::Registry;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::member::MemberFlags;
use super::usage;
use crate::bind::BindAddress;
use crate::component::{self, PlainLoggingFlags};
use crate::exit::ExitStatus;
use crate::signals;

/// Maximum time for requests in flight to complete after the shutdown began.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(2_500);

/// Interval at which the files of the serving certificate are checked for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// Time limit of the first call to etcd, whose result is only logged.
const FIRST_CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The flags of the server.
#[derive(Args)]
pub(crate) struct EtcdServe {
    #[command(flatten)]
    member: MemberFlags,

    /// Address to listen on; port 0 takes a free port, which is logged
    ///
    /// The default is loopback, where the kubelet reaches members on the host network. Otherwise
    /// use :2378 to listen on the pod's own address.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:2378",
        help_heading = "Serving"
    )]
    listen: BindAddress,

    /// Certificate to serve over TLS with; reloaded with its key when the files change
    #[arg(
        long,
        value_name = "FILE",
        requires = "listen_key",
        help_heading = "Serving"
    )]
    listen_cert: Option<PathBuf>,

    /// Private key of the certificate to serve with
    #[arg(
        long,
        value_name = "FILE",
        requires = "listen_cert",
        help_heading = "Serving"
    )]
    listen_key: Option<PathBuf>,

    /// Answer HEAD as well as GET, for load balancers that send nothing else
    #[arg(long, help_heading = "Serving")]
    allow_head: bool,

    #[command(flatten)]
    logging: PlainLoggingFlags,
}

impl EtcdServe {
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        // Errors on the command line are reported before anything else.
        let options = self.member.options(self.allow_head)?;
        let config = self.member.config()?;
        if self.listen == BindAddress::Disabled {
            return Err(usage(
                "--listen 0 would serve nothing: write HOST:PORT or :PORT",
            ));
        }
        self.logging.start();
        component::run(async {
            let Some(tcp) = self.listen.listen("--listen").await? else {
                return Ok(ExitStatus::Failure);
            };
            let member = self.member.member()?;
            let mut registry = Registry::default();
            let health = kelpie_etcd::member_health(&member, &options, &mut registry)?;
            let router = kelpie_health::routes(health)
                .merge(kelpie_health::metrics(Arc::new(registry)))
                .fallback(kelpie_health::not_found);

            let scheme = if self.listen_cert.is_some() {
                "https"
            } else {
                "http"
            };
            let address = tcp.local_addr().context("cannot read the listen address")?;
            info!(etcd = %config.endpoint, "listening on {scheme}://{address}");
            tokio::spawn(log_first_status(Arc::clone(&member)));

            let shutdown = signals::shutdown_token()?;
            let stopping = shutdown.clone().cancelled_owned();
            let served = match self.listen_cert.clone().zip(self.listen_key.clone()) {
                None => serve_with_grace(SHUTDOWN_GRACE, tcp, router, stopping).await,
                Some(identity) => {
                    let paths = TlsFilePaths {
                        identity: Some(identity),
                        roots: None,
                    };
                    // Waiting for missing files must not delay the shutdown.
                    let loading = load_and_watch(paths);
                    match shutdown.run_until_cancelled(loading).await {
                        None => Ok(()),
                        Some(server) => {
                            let listener = TlsListener::new(tcp, server);
                            serve_with_grace(SHUTDOWN_GRACE, listener, router, stopping).await
                        }
                    }
                }
            };
            served.context("the server failed")?;
            info!("stopped");
            Ok(ExitStatus::Success)
        })
    }
}

/// Calls etcd once and logs the result, so that a wrong flag shows at the start and not only at
/// the first probe.
async fn log_first_status(member: Arc<dyn Member>) {
    match timeout(FIRST_CALL_TIMEOUT, member.status()).await {
        Ok(Ok(_)) => info!("etcd answers"),
        Ok(Err(error)) => {
            warn!(reason = %error, "cannot call etcd yet; /readyz shows the current state");
        }
        Err(_) => warn!("etcd does not answer yet; /readyz shows the current state"),
    }
}

/// Loads the serving certificate and reloads it when its files change. Waits for missing files.
async fn load_and_watch(paths: TlsFilePaths) -> TlsServer {
    let mut logged = None;
    let (mut files, server) = loop {
        match load(paths.clone()) {
            Ok(loaded) => break loaded,
            Err(problem) => {
                let problem = format!("{problem:#}");
                if logged.as_ref() != Some(&problem) {
                    error!(
                        %problem,
                        "cannot serve over TLS yet; fix the files of --listen-cert and --listen-key"
                    );
                    logged = Some(problem);
                }
                sleep(Duration::from_secs(1)).await;
            }
        }
    };
    let current = server.clone();
    tokio::spawn(async move {
        let mut failing = false;
        loop {
            sleep(RELOAD_INTERVAL).await;
            match files.refresh() {
                Ok(changed) => {
                    if let Some(identity) = files.identity().filter(|_| changed) {
                        current.replace(identity);
                        info!("serving certificate reloaded");
                    }
                    failing = false;
                }
                Err(problem) => {
                    if !std::mem::replace(&mut failing, true) {
                        warn!(
                            %problem,
                            "cannot reload the serving certificate; still using the previous one"
                        );
                    }
                }
            }
        }
    });
    server
}

fn load(paths: TlsFilePaths) -> Result<(TlsFiles, TlsServer)> {
    let files = TlsFiles::load(paths)?;
    let identity = files.identity().context("no certificate")?;
    let server = TlsServer::new(identity, None)?;
    Ok((files, server))
}
