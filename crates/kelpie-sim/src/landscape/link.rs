//! How a watchdog reaches a landscape without sockets.

use std::io;
use std::sync::{Arc, Weak};

use fastrand::Rng;
use kelpie_net::Network;
use tokio::io::duplex;

use super::Shared;
use super::shuffled::Shuffled;
use super::snare::Snare;
use crate::server::Server;
use kelpie_bell::{Bell, Listener};

/// Bytes under way in one direction of a connection.
const WINDOW: usize = 64 * 1024;

/// The network of one process. When it is cut, that process is as good as dead to everybody: what is
/// under way comes to nothing, and nothing new begins.
#[derive(Clone, Debug)]
pub struct Link {
    name: Arc<str>,
    landscape: Weak<Shared>,
    state: Bell<State>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// What was under way is lost, and nothing new gets through.
    Held,
    Cut,
}

impl Link {
    pub(super) fn new(name: &str, landscape: Weak<Shared>) -> Self {
        Self {
            name: name.into(),
            landscape,
            state: Bell::default(),
        }
    }

    /// Who this is: the user that the seed sees, and the token it shows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// For the process' clients.
    pub fn network(&self) -> Network {
        let (landscape, state) = (self.landscape.clone(), self.state.listen());
        Network::inside(move |host, port| {
            let (landscape, mut state) = (landscape.clone(), state.clone());
            let host = host.to_owned();
            Box::pin(async move {
                if state.until(|state| state != State::Held).await == State::Cut {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                let shared = landscape
                    .upgrade()
                    .ok_or(io::ErrorKind::ConnectionRefused)?;
                let server = shared.enter(&host, port).await?;
                let rng = shared.world().shuffle.as_mut().map(Rng::fork);
                drop(shared);
                let (ours, theirs) = duplex(WINDOW);
                tokio::spawn(carry(server, Shuffled::new(theirs, rng), state));
                Ok(ours)
            })
        })
    }

    /// The process hears and says nothing.
    pub fn hold(&self) {
        self.state.ring(State::Held);
    }

    /// The same, from its next write on, which is under way until then.
    pub(super) fn snare(&self) {
        if let Some(shared) = self.landscape.upgrade() {
            let snare = Snare::new(self.clone());
            shared.world().snares.insert(Arc::clone(&self.name), snare);
        }
    }

    /// It hears and speaks again.
    pub fn release(&self) {
        self.state.ring(State::Open);
        let shared = self.landscape.upgrade();
        let snare = shared.and_then(|shared| shared.world().snares.remove(&self.name));
        if let Some(snare) = snare {
            snare.open();
        }
    }

    /// The process is dead.
    pub fn cut(&self) {
        self.state.ring(State::Cut);
    }
}

/// Serves one connection for as long as the link is there.
async fn carry(server: Server, stream: Shuffled, mut state: Listener<State>) {
    let mut talk = Box::pin(server.converse(stream, None));
    tokio::select! {
        biased;
        _ = state.until(|state| state != State::Open) => {}
        () = &mut talk => {}
    }
}
