//! Connecting to a member for gRPC.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kelpie_net::{Alpn, ConnectError, HyperStream, Note, TlsFault, connect};
use tokio::time::{Instant, timeout};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::Fault;
use crate::boot::Boot;
use crate::wire::access::{Access, Address};

/// Connecting, handshake included. A member that boots accepts TCP and is silent; whoever waits
/// leaves earlier.
const CONNECT: Duration = Duration::from_secs(10);

/// Why there is no connection. It travels through tonic as the source of a status.
#[derive(Debug)]
struct Undialled(Fault);

impl fmt::Display for Undialled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Undialled {}

/// A connection to a member, and what it has seen of the member's life.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) channel: Channel,
    pub(crate) boot: Arc<Mutex<Boot>>,
    /// Why TLS ended a connection since the last answer. Several calls fail with one connection,
    /// so it is not for the first of them alone.
    note: Note,
    is_https: bool,
}

impl Line {
    /// It connects when it is used, and again when the connection is lost.
    pub(crate) fn new(access: &Access, address: &Address) -> Self {
        let boot = Arc::new(Mutex::new(Boot::new(Instant::now())));
        let note = Note::default();
        Self {
            channel: channel(access, address, &boot, &note),
            boot,
            note,
            is_https: address.is_https(),
        }
    }

    /// The member answered something.
    pub(crate) fn answered(&self) {
        let mut boot = self.boot.lock().unwrap_or_else(PoisonError::into_inner);
        boot.answered();
        self.note.clear();
    }

    /// What a status of tonic means: an answer of the server, or trouble on the way.
    pub(crate) fn fault(&self, status: &Status) -> Fault {
        match of_status(status) {
            Fault::Broken(how) => self.broken(how),
            fault => fault,
        }
    }

    /// A connection that never worked is more likely our own trouble than etcd's.
    fn broken(&self, how: String) -> Fault {
        if let Some(fault) = self.note.read() {
            return Fault::Own(fault.to_string());
        }
        let boot = self.boot.lock().unwrap_or_else(PoisonError::into_inner);
        match (boot.has_answered(), self.is_https) {
            (true, _) => Fault::Broken(how),
            (false, true) => Fault::Own(format!(
                "the server closes the connection ({how}): it may want another client certificate \
                 (--cert), or no TLS (http://)"
            )),
            (false, false) => Fault::Own(format!(
                "the server closes the connection ({how}): it may want TLS (https:// and --cacert)"
            )),
        }
    }
}

fn channel(access: &Access, address: &Address, boot: &Arc<Mutex<Boot>>, note: &Note) -> Channel {
    let (access, boot, note) = (access.clone(), Arc::clone(boot), note.clone());
    // TLS is ours, so tonic is told of none. It never resolves this itself.
    let name = http_uri(address.authority());
    let address = address.clone();
    let connected = Arc::new(AtomicBool::new(false));
    let connector = service_fn(move |_| {
        // Asked to connect again: the other side has ended what there was. A connection that never
        // came about says nothing of that kind.
        if connected.swap(false, Ordering::Relaxed) {
            gone(&boot);
        }
        let (access, address) = (access.clone(), address.clone());
        let (boot, note, connected) = (Arc::clone(&boot), note.clone(), Arc::clone(&connected));
        async move {
            let dialled = dial(&access, &address, note).await;
            match &dialled {
                Ok(_) => connected.store(true, Ordering::Relaxed),
                Err(Undialled(Fault::Refused)) => gone(&boot),
                Err(_) => {}
            }
            dialled
        }
    });
    name.connect_with_connector_lazy(connector)
}

fn http_uri(authority: &str) -> Endpoint {
    let uri = tonic::codegen::http::Uri::builder()
        .scheme("http")
        .authority(authority)
        .path_and_query("/");
    // An address has been parsed: its authority is one.
    Endpoint::from(uri.build().unwrap_or_default())
}

fn gone(boot: &Mutex<Boot>) {
    let mut boot = boot.lock().unwrap_or_else(PoisonError::into_inner);
    boot.gone(Instant::now());
}

async fn dial(access: &Access, address: &Address, note: Note) -> Result<HyperStream, Undialled> {
    let endpoint = access.endpoint(address, Alpn::Http2).map_err(Undialled)?;
    match timeout(CONNECT, connect(&endpoint)).await {
        Ok(Ok(stream)) => Ok(stream.noted(note).into_hyper()),
        Ok(Err(error)) => Err(Undialled(of_connect(&error))),
        Err(_) => Err(Undialled(Fault::Silent)),
    }
}

/// Refused is evidence about etcd; all else is on the way to it.
pub(crate) fn of_connect(error: &ConnectError) -> Fault {
    match error {
        ConnectError::Refused { .. } => Fault::Refused,
        // A process that ends closes what it has not served yet.
        ConnectError::Tls {
            fault: TlsFault::Closed,
            ..
        } => Fault::Broken(error.to_string()),
        ConnectError::Resolve { .. }
        | ConnectError::Unreachable { .. }
        | ConnectError::Tls { .. } => Fault::Own(error.to_string()),
    }
}

fn of_status(status: &Status) -> Fault {
    let Some(source) = status.source() else {
        return Fault::of_answer(status);
    };
    let mut next = Some(source);
    while let Some(error) = next {
        if let Some(Undialled(fault)) = error.downcast_ref() {
            return fault.clone();
        }
        next = error.source();
    }
    Fault::Broken(innermost(source))
}

/// The outer errors only say that there is an inner one.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
