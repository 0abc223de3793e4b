//! The in-process network between a watchdog and a landscape.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fastrand::Rng;
use kelpie_net::{Network, ResolveError};
use parking_lot::Mutex;
use tokio::io::duplex;
use tokio::time::sleep;

use super::LandscapeInner;
use super::pause_on_write::PauseOnWrite;
use super::yielding_stream::YieldingStream;
use crate::server::SimServer;
use kelpie_runtime::watch::{Receiver, Sender};

/// The buffer of a connection in each direction, in bytes.
const WINDOW: usize = 64 * 1024;

/// The time after which a lookup fails while DNS is away.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The network of one process, which can be paused and cut. Cutting it has the effect of killing
/// the process: requests in flight are lost, and new ones fail.
#[derive(Clone, Debug)]
pub struct ProcessLink {
    name: Arc<str>,
    landscape: Weak<LandscapeInner>,
    state: Sender<LinkState>,
    /// The clusters that the process cannot reach over their external addresses.
    without_external_path: Arc<Mutex<BTreeSet<String>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinkState {
    #[default]
    Open,
    /// Requests in flight are lost, and new connections wait.
    Paused,
    Cut,
}

impl ProcessLink {
    pub(super) fn new(name: &str, landscape: Weak<LandscapeInner>) -> Self {
        Self {
            name: name.into(),
            landscape,
            state: Sender::default(),
            without_external_path: Arc::default(),
        }
    }

    /// Returns the process' name: the user that the seed sees, and its token.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The prefix of the external addresses of clusters.
    pub const EXTERNAL_PREFIX: &str = "external.";

    /// Refuses new connections to the external addresses of these clusters, and no others.
    pub fn block_external_paths(&self, clusters: impl IntoIterator<Item = String>) {
        *self.without_external_path.lock() = clusters.into_iter().collect();
    }

    /// Returns the network for the process' clients.
    pub fn network(&self) -> Network {
        let (landscape, state) = (self.landscape.clone(), self.state.subscribe());
        let names = self.landscape.clone();
        let without_external_path = Arc::clone(&self.without_external_path);
        let network = Network::in_process(move |host, port| {
            let (landscape, mut state) = (landscape.clone(), state.clone());
            let external = host.strip_prefix(Self::EXTERNAL_PREFIX);
            let is_blocked =
                external.is_some_and(|cluster| without_external_path.lock().contains(cluster));
            let host = external.unwrap_or(host).to_owned();
            Box::pin(async move {
                if state.wait_for(|state| state != LinkState::Paused).await == LinkState::Cut {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                if is_blocked {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                let inner = landscape.upgrade();
                let inner = inner.ok_or(io::ErrorKind::ConnectionRefused)?;
                let mut is_starved = inner.state().is_starved.subscribe();
                is_starved.wait_for(|is_starved| !is_starved).await;
                let server = inner.connect(&host, port).await?;
                let rng = inner.state().connection_rng.as_mut().map(Rng::fork);
                drop(inner);
                let (ours, theirs) = duplex(WINDOW);
                let stream = YieldingStream::new(theirs, rng);
                tokio::spawn(serve_until_closed(server, stream, state, is_starved));
                Ok(ours)
            })
        });
        network.with_resolver(move |host| {
            // A pod reaches the API server of its own cluster by an address, not by a name.
            let is_resolved =
                host == super::SEED || names.upgrade().is_none_or(|inner| inner.resolves_names());
            Box::pin(async move {
                if is_resolved {
                    return Ok(());
                }
                // As long as a resolver waits for its name server.
                sleep(LOOKUP_TIMEOUT).await;
                Err(ResolveError::Unavailable(
                    "no name server answers".to_owned(),
                ))
            })
        })
    }

    /// Pauses the process: its connections break, and new ones wait.
    pub fn pause(&self) {
        self.state.send(LinkState::Paused);
    }

    /// Pauses the process at its next write to a resource that controllers act on. The write
    /// arrives when the process resumes, as if it had been stopped after its last leadership check.
    pub fn pause_on_next_write(&self) {
        if let Some(inner) = self.landscape.upgrade() {
            let (name, pause) = (Arc::clone(&self.name), PauseOnWrite::new(self.clone()));
            inner.state().write_pauses.insert(name, pause);
        }
    }

    /// Resumes a paused process.
    pub fn resume(&self) {
        self.state.send(LinkState::Open);
        let inner = self.landscape.upgrade();
        let pause = inner.and_then(|inner| inner.state().write_pauses.remove(&self.name));
        if let Some(pause) = pause {
            pause.release();
        }
    }

    /// Cuts the process off for good.
    pub fn cut(&self) {
        self.state.send(LinkState::Cut);
    }
}

/// Serves one connection until it ends or the link is paused or cut. While the process gets no CPU,
/// the connection stays open and nothing moves on it, including requests under way.
async fn serve_until_closed(
    server: SimServer,
    stream: YieldingStream,
    mut state: Receiver<LinkState>,
    mut is_starved: Receiver<bool>,
) {
    let mut connection = Box::pin(server.serve_connection(stream, None));
    loop {
        let starves = is_starved.borrow();
        tokio::select! {
            biased;
            _ = state.wait_for(|state| state != LinkState::Open) => return,
            _ = is_starved.wait_for(|now| now != starves) => {}
            () = &mut connection, if !starves => return,
        }
    }
}
