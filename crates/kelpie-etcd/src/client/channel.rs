//! The gRPC connection to a member.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kelpie_net::{Alpn, ConnectError, HyperStream, StreamEndRecorder, TlsFault, connect};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::EtcdError;
use crate::boot::BootTracker;
use crate::client::member_url::MemberUrl;
use crate::client::tls_credentials::TlsCredentials;

/// The time limits of a connection to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Time limit of a connection attempt, including the TLS handshake. A booting member accepts
    /// TCP and stays silent. Callers have earlier deadlines.
    pub dial_timeout: Duration,
    /// Pings an idle connection too. `None` for no pings.
    pub keep_alive: Option<KeepAlive>,
}

/// The pings that find a connection whose other end is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// The time between two pings. etcd closes a connection that is pinged too often.
    pub interval: Duration,
    /// A connection on which nothing is received for this long after a ping is closed.
    pub timeout: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            dial_timeout: Duration::from_secs(10),
            keep_alive: None,
        }
    }
}

/// A gRPC channel to a member that also tracks whether the member has booted.
#[derive(Clone)]
pub(crate) struct MemberChannel {
    pub(crate) channel: Channel,
    pub(crate) boot: Arc<Mutex<BootTracker>>,
    /// The fault with which TLS ended a connection since the last response. It is kept for all
    /// calls that fail with the connection, not only for the first.
    stream_end: StreamEndRecorder,
    is_https: bool,
}

impl MemberChannel {
    /// Creates a channel. It connects on first use, and again when the connection is lost.
    pub(crate) fn new(tls: &TlsCredentials, url: &MemberUrl, settings: ConnectionSettings) -> Self {
        let boot = Arc::new(Mutex::new(BootTracker::new(Instant::now())));
        let stream_end = StreamEndRecorder::default();
        Self {
            channel: channel(tls, url, settings, &boot, &stream_end),
            boot,
            stream_end,
            is_https: url.is_https(),
        }
    }

    /// Records that the member has responded.
    pub(crate) fn record_answer(&self) {
        let mut boot = self.boot.lock();
        boot.record_answer();
        self.stream_end.clear();
    }

    /// Converts a status of tonic, which is a response of the server or a connection error.
    pub(crate) fn error(&self, status: &Status) -> EtcdError {
        match from_status(status) {
            EtcdError::ConnectionLost(cause) => self.connection_lost(cause),
            error => error,
        }
    }

    /// A connection that never worked is more likely a problem of the probe than of etcd.
    fn connection_lost(&self, cause: String) -> EtcdError {
        if let Some(fault) = self.stream_end.fault() {
            return EtcdError::Misconfigured(fault.to_string());
        }
        let boot = self.boot.lock();
        match (boot.has_answered(), self.is_https) {
            (true, _) => EtcdError::ConnectionLost(cause),
            (false, true) => EtcdError::Misconfigured(format!(
                "the server closed the connection ({cause}): it may require another client \
                 certificate (--cert), or plain HTTP (http://)"
            )),
            (false, false) => EtcdError::Misconfigured(format!(
                "the server closed the connection ({cause}): it may require TLS (https:// and \
                 --cacert)"
            )),
        }
    }
}

fn channel(
    tls: &TlsCredentials,
    url: &MemberUrl,
    settings: ConnectionSettings,
    boot: &Arc<Mutex<BootTracker>>,
    stream_end: &StreamEndRecorder,
) -> Channel {
    let (tls, boot, stream_end) = (tls.clone(), Arc::clone(boot), stream_end.clone());
    // The connector below resolves the name and does TLS, so tonic sees plain HTTP.
    let mut endpoint = http_endpoint(url.authority());
    if let Some(KeepAlive { interval, timeout }) = settings.keep_alive {
        endpoint = endpoint
            .http2_keep_alive_interval(interval)
            .keep_alive_timeout(timeout)
            .keep_alive_while_idle(true);
    }
    let url = url.clone();
    let connected = Arc::new(AtomicBool::new(false));
    let connector = service_fn(move |_| {
        // tonic reconnects after an established connection has ended. An attempt that never
        // succeeded does not prove that, and neither does a connection that a ping has ended: a
        // stopped process does not answer it.
        let expired = settings
            .keep_alive
            .is_some_and(|pings| stream_end.silence() >= Some(pings.timeout));
        if connected.swap(false, Ordering::Relaxed) && !expired {
            record_gone(&boot);
        }
        let (tls, url, stream_end) = (tls.clone(), url.clone(), stream_end.clone());
        let (boot, connected) = (Arc::clone(&boot), Arc::clone(&connected));
        async move {
            let stream = open_stream(&tls, &url, settings.dial_timeout, stream_end).await;
            match &stream {
                Ok(_) => connected.store(true, Ordering::Relaxed),
                Err(EtcdError::ConnectionRefused) => record_gone(&boot),
                Err(_) => {}
            }
            stream
        }
    });
    endpoint.connect_with_connector_lazy(connector)
}

fn http_endpoint(authority: &str) -> Endpoint {
    let uri = tonic::codegen::http::Uri::builder()
        .scheme("http")
        .authority(authority)
        .path_and_query("/");
    // The authority of a `MemberUrl` is valid, so this cannot fail.
    Endpoint::from(uri.build().unwrap_or_default())
}

fn record_gone(boot: &Mutex<BootTracker>) {
    let mut boot = boot.lock();
    boot.record_gone(Instant::now());
}

/// Connects. tonic passes an error on as the source of a status.
async fn open_stream(
    tls: &TlsCredentials,
    url: &MemberUrl,
    dial_timeout: Duration,
    stream_end: StreamEndRecorder,
) -> Result<HyperStream, EtcdError> {
    let endpoint = tls.endpoint(url, Alpn::Http2)?;
    match timeout(dial_timeout, connect(&endpoint)).await {
        Ok(Ok(stream)) => Ok(stream.with_end_recorder(stream_end).into_hyper()),
        Ok(Err(error)) => Err(from_connect_error(&error)),
        Err(_) => Err(EtcdError::NoResponse),
    }
}

/// Converts a connection error. Only a refused connection is evidence about etcd.
pub(crate) fn from_connect_error(error: &ConnectError) -> EtcdError {
    match error {
        ConnectError::Refused { .. } => EtcdError::ConnectionRefused,
        // A process that exits closes the connections that it has not served yet.
        ConnectError::Tls {
            fault: TlsFault::Closed,
            ..
        } => EtcdError::ConnectionLost(error.to_string()),
        ConnectError::Resolve { .. }
        | ConnectError::Local { .. }
        | ConnectError::LocalAddress { .. }
        | ConnectError::Unreachable { .. }
        | ConnectError::Tls { .. } => EtcdError::Misconfigured(error.to_string()),
    }
}

fn from_status(status: &Status) -> EtcdError {
    let Some(source) = status.source() else {
        return EtcdError::from_status(status);
    };
    let mut next = Some(source);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<EtcdError>() {
            return error.clone();
        }
        next = error.source();
    }
    EtcdError::ConnectionLost(root_cause(source))
}

/// Returns the text of the innermost error. The outer errors only announce it.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
