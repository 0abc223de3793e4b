//! The network between the process and its servers.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::DuplexStream;

/// The way to reach servers: TCP, or in-process streams. Clones refer to the same network.
#[derive(Clone, Default)]
pub struct Network(pub(crate) Option<Arc<Dial>>);

/// A future that resolves to an in-process stream.
pub type DialFuture = Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>>;

pub(crate) type Dial = dyn Fn(&str, u16) -> DialFuture + Send + Sync;

impl Network {
    /// Creates a network of servers in this process. `dial` finds them by host and port.
    ///
    /// No socket is opened and only the runtime's clock is used, so everything runs in virtual
    /// time. The streams have no TLS, because no other process can read them.
    pub fn in_process(dial: impl Fn(&str, u16) -> DialFuture + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(dial)))
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            None => "Network(TCP)",
            Some(_) => "Network(in-process)",
        })
    }
}
