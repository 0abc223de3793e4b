//! What lies between us and a server.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::DuplexStream;

/// The way to every server: TCP, or inside this process. Clones are the same network.
#[derive(Clone, Default)]
pub struct Network(pub(crate) Option<Arc<Dial>>);

/// A stream to come.
pub type Dialled = Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>>;

pub(crate) type Dial = dyn Fn(&str, u16) -> Dialled + Send + Sync;

impl Network {
    /// Servers that live in this process, found by host and port. No socket is opened and no clock
    /// but the runtime's is in the way, so that all of it runs in virtual time; and there is nobody
    /// to hide from, so that there is no TLS on these streams.
    pub fn inside(dial: impl Fn(&str, u16) -> Dialled + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(dial)))
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            None => "Network(TCP)",
            Some(_) => "Network(inside)",
        })
    }
}
