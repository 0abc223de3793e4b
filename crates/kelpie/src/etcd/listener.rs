//! The flags of the listener, and the certificates it serves with.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::Router;
use clap::{Args, ValueEnum};
use kelpie_health::serve_with_grace;
use kelpie_net::{
    ClientAuth, MinTlsVersion, ServerAlpn, TlsFilePaths, TlsFiles, TlsListener, TlsServer,
    TlsServerSettings,
};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::usage;
use crate::bind::BindAddress;

/// Maximum time for requests in flight to complete after the shutdown began.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(2_500);

/// Interval at which the files of the certificates are checked for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The flags of the listener.
#[derive(Args)]
#[command(next_help_heading = "Serving")]
pub(crate) struct ListenFlags {
    /// Address to listen on: HOST:PORT, :PORT or `unix://PATH`; port 0 takes a free port, which is
    /// logged
    ///
    /// The default is loopback, where the kubelet reaches members on the host network. Otherwise
    /// use :2378 to listen on the pod's own address.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:2378")]
    listen: ListenAddress,

    /// Certificate to serve over TLS with; reloaded with its key when the files change
    #[arg(long, value_name = "FILE", requires = "listen_key")]
    listen_cert: Option<PathBuf>,

    /// Private key of the certificate to serve with
    #[arg(long, value_name = "FILE", requires = "listen_cert")]
    listen_key: Option<PathBuf>,

    /// Require a client certificate that this authority signed; a kubelet's HTTP probe has none
    #[arg(long, value_name = "FILE", requires = "listen_cert")]
    listen_client_ca: Option<PathBuf>,

    /// Oldest version of TLS to accept
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "1.2",
        requires = "listen_cert"
    )]
    listen_tls_min_version: TlsVersion,
}

/// An address for the network or for this machine only.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ListenAddress {
    Tcp(BindAddress),
    Unix(PathBuf),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TlsVersion {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(PathBuf::from(path))),
            Some(_) => Err("expected an absolute path, as in unix:///run/kelpie.sock".to_owned()),
            None => match text.parse()? {
                BindAddress::Disabled => {
                    Err("0 would serve nothing: write HOST:PORT or :PORT".into())
                }
                address => Ok(Self::Tcp(address)),
            },
        }
    }
}

/// A bound listener.
pub(crate) enum BoundListener {
    Tcp(TcpListener),
    Tls(TcpListener, TlsFilePaths, MinTlsVersion),
    Unix(UnixListener, SocketFile),
}

/// The file of a unix socket. It is removed on drop.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that is gone already needs no removal, and the next start replaces a stale one.
        let _ = fs::remove_file(&self.0);
    }
}

impl ListenFlags {
    /// Reports flags that contradict each other.
    pub(crate) fn validate(&self) -> Result<()> {
        if self.listen_cert.is_some() && matches!(self.listen, ListenAddress::Unix(_)) {
            return Err(usage(
                "--listen unix://PATH serves without TLS: omit --listen-cert and --listen-key",
            ));
        }
        Ok(())
    }

    /// Binds the address. The log shows it.
    pub(crate) async fn bind(&self, etcd: &str) -> Result<BoundListener> {
        let address = match &self.listen {
            ListenAddress::Unix(path) => {
                let listener = bind_unix(path)?;
                info!(%etcd, "listening on unix://{}", path.display());
                return Ok(listener);
            }
            ListenAddress::Tcp(address) => address,
        };
        let tcp = address.listen("--listen").await?;
        let tcp = tcp.context("--listen 0 would serve nothing")?;
        let local = tcp.local_addr().context("cannot read the listen address")?;
        let identity = self.listen_cert.clone().zip(self.listen_key.clone());
        Ok(match identity {
            None => {
                info!(%etcd, "listening on http://{local}");
                BoundListener::Tcp(tcp)
            }
            Some(identity) => {
                info!(%etcd, "listening on https://{local}");
                let paths = TlsFilePaths {
                    identity: Some(identity),
                    roots: self.listen_client_ca.clone(),
                };
                let min_version = match self.listen_tls_min_version {
                    TlsVersion::Tls12 => MinTlsVersion::Tls12,
                    TlsVersion::Tls13 => MinTlsVersion::Tls13,
                };
                BoundListener::Tls(tcp, paths, min_version)
            }
        })
    }
}

/// Binds a unix socket, and replaces the file of a process that is gone.
fn bind_unix(path: &Path) -> Result<BoundListener> {
    let problem = || {
        format!(
            "cannot listen on unix://{}; choose another path with --listen",
            path.display()
        )
    };
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(anyhow::anyhow!("the file is not a socket")).with_context(problem);
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(path).with_context(problem)?;
            }
            _ => bail!("another process listens on unix://{}", path.display()),
        },
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).with_context(problem)?;
    Ok(BoundListener::Unix(listener, SocketFile(path.to_owned())))
}

impl BoundListener {
    /// Serves until `shutdown`.
    pub(crate) async fn serve(self, router: Router, shutdown: &CancellationToken) -> Result<()> {
        let stopping = shutdown.clone().cancelled_owned();
        let served = match self {
            Self::Tcp(tcp) => serve_with_grace(SHUTDOWN_GRACE, tcp, router, stopping).await,
            Self::Unix(unix, _file) => {
                serve_with_grace(SHUTDOWN_GRACE, unix, router, stopping).await
            }
            Self::Tls(tcp, paths, min_version) => {
                // Waiting for missing files must not delay the shutdown.
                let loading = load_and_watch(paths, min_version);
                match shutdown.run_until_cancelled(loading).await {
                    None => Ok(()),
                    Some(server) => {
                        let listener = TlsListener::new(tcp, server);
                        serve_with_grace(SHUTDOWN_GRACE, listener, router, stopping).await
                    }
                }
            }
        };
        served.context("the server failed")
    }
}

/// Loads the certificates and reloads them when their files change. Waits for missing files.
async fn load_and_watch(paths: TlsFilePaths, min_version: MinTlsVersion) -> TlsServer {
    let mut logged = None;
    let (mut files, server) = loop {
        match load(paths.clone(), min_version) {
            Ok(loaded) => break loaded,
            Err(problem) => {
                let problem = format!("{problem:#}");
                if logged.as_ref() != Some(&problem) {
                    error!(
                        %problem,
                        "cannot serve over TLS yet; fix the files of --listen-cert, --listen-key \
                         and --listen-client-ca"
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
            match reload(&mut files, &current) {
                Ok(changed) => {
                    if changed {
                        info!("serving certificate reloaded");
                    }
                    failing = false;
                }
                Err(problem) => {
                    if !std::mem::replace(&mut failing, true) {
                        warn!(
                            problem = %format!("{problem:#}"),
                            "cannot reload the serving certificate; still using the previous one"
                        );
                    }
                }
            }
        }
    });
    server
}

fn load(paths: TlsFilePaths, min_version: MinTlsVersion) -> Result<(TlsFiles, TlsServer)> {
    let files = TlsFiles::load(paths)?;
    let identity = files.identity().context("no certificate")?;
    let settings = TlsServerSettings {
        clients: clients(&files),
        min_version,
        alpn: ServerAlpn::Http2AndHttp1,
    };
    let server = TlsServer::new(identity, settings)?;
    Ok((files, server))
}

/// Reads changed files, and returns true if there were any.
fn reload(files: &mut TlsFiles, server: &TlsServer) -> Result<bool> {
    if !files.refresh()? {
        return Ok(false);
    }
    let identity = files.identity().context("no certificate")?;
    server.replace(identity, clients(files))?;
    Ok(true)
}

fn clients(files: &TlsFiles) -> ClientAuth {
    files.roots().map_or(ClientAuth::None, |roots| {
        ClientAuth::Required(roots.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let parse = str::parse::<ListenAddress>;
        let unix = ListenAddress::Unix(PathBuf::from("/run/kelpie.sock"));
        assert_eq!(parse("unix:///run/kelpie.sock"), Ok(unix));
        let tcp = ListenAddress::Tcp(BindAddress::AllInterfaces(2378));
        assert_eq!(parse(":2378"), Ok(tcp));
        for wrong in ["unix://kelpie.sock", "unix:/run/x", "0", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn only_stale_sockets_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = bind_unix(&path).unwrap();
        let error = bind_unix(&path).err().unwrap().to_string();
        assert!(error.contains("another process listens"), "{error}");
        drop(first);
        assert!(!path.exists(), "it is removed at the end");

        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(bind_unix(&path).is_ok(), "its process is gone");
        fs::write(&path, "data").unwrap();
        assert!(bind_unix(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }
}
