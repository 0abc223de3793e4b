//! Resolves host names, and keeps the last addresses for times without DNS.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::lookup_host;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::timeout;

use crate::endpoint::Endpoint;

/// The number of addresses that are used of one host name.
const MAX_ADDRESSES: usize = 8;

/// Limits the lookup of a host name. It is shorter than any caller's timeout for a server, so that
/// a hanging resolver is not mistaken for a hanging server.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits the lookup of a host name whose addresses are known. A resolver in the same cluster
/// answers within milliseconds.
const KNOWN_HOST_TIMEOUT: Duration = Duration::from_millis(250);

/// The texts with which the resolvers of glibc, musl and macOS say that a name has no address. The
/// standard library does not pass on their codes.
const NOT_FOUND_TEXTS: [&str; 4] = [
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "nodename nor servname provided",
];

/// The reason why a host name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The resolver answered that the name has no address.
    #[error("the name does not exist")]
    NotFound,
    /// The resolver did not answer, or this host is not set up to ask it. This says nothing about
    /// the name.
    #[error("{0}")]
    Unavailable(String),
}

impl From<ResolveError> for io::Error {
    /// Wraps the error for a connector of [`Network::in_process`](crate::Network::in_process).
    fn from(error: ResolveError) -> Self {
        Self::other(error)
    }
}

impl ResolveError {
    /// Returns the error that an I/O error wraps, if it wraps one.
    pub(crate) fn in_io_error(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref::<Self>().cloned()
    }

    fn from_lookup(error: &io::Error) -> Self {
        let text = error.to_string();
        if NOT_FOUND_TEXTS.iter().any(|known| text.contains(known)) {
            Self::NotFound
        } else {
            Self::Unavailable(text)
        }
    }

    fn no_answer(limit: Duration) -> Self {
        Self::Unavailable(format!("the resolver did not answer within {limit:?}"))
    }
}

/// The last addresses of a host name, which are used while DNS does not answer.
#[derive(Debug, Default)]
pub(crate) struct AddressCache {
    /// At most [`MAX_ADDRESSES`], from the last lookup that found some.
    known: Mutex<Vec<SocketAddr>>,
    /// Locked by the lookup in flight. A lookup that hangs occupies a thread even if its caller has
    /// given up, so there is at most one at a time.
    lookup: Arc<AsyncMutex<()>>,
}

/// Returns the addresses of the endpoint's host. An in-process network needs none: the list may be
/// empty then.
pub(crate) async fn resolve(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, ResolveError> {
    if let Ok(ip) = endpoint.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, endpoint.port)]);
    }
    if !endpoint.network.resolves_names() {
        return Ok(Vec::new());
    }
    match &endpoint.addresses {
        None => within(RESOLVE_TIMEOUT, look_up(endpoint.clone())).await,
        Some(cache) => cache.resolve(endpoint).await,
    }
}

impl AddressCache {
    async fn resolve(
        self: &Arc<Self>,
        endpoint: &Endpoint,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let known = self.known.lock().clone();
        if known.is_empty() {
            return within(RESOLVE_TIMEOUT, async {
                let turn = Arc::clone(&self.lookup).lock_owned().await;
                self.refresh(endpoint, turn).await
            })
            .await;
        }
        // The lookup in flight updates the addresses for later connections.
        let Ok(turn) = Arc::clone(&self.lookup).try_lock_owned() else {
            return Ok(known);
        };
        let found = within(KNOWN_HOST_TIMEOUT, self.refresh(endpoint, turn)).await;
        Ok(found.unwrap_or(known))
    }

    /// Looks the name up in a task of its own, which goes on if the caller gives up.
    async fn refresh(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let (cache, endpoint) = (Arc::clone(self), endpoint.clone());
        let task = tokio::spawn(async move {
            let found = look_up(endpoint).await;
            if let Ok(found) = &found {
                cache.known.lock().clone_from(found);
            }
            drop(turn);
            found
        });
        let ended = |_| ResolveError::Unavailable("the lookup was cancelled".to_owned());
        task.await.map_err(ended)?
    }
}

/// Looks the name up, without a limit. There is at least one address in the result.
async fn look_up(endpoint: Endpoint) -> Result<Vec<SocketAddr>, ResolveError> {
    let port = endpoint.port;
    if let Some(found) = endpoint.network.look_up(&endpoint.host) {
        found.await?;
        return Ok(vec![SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)]);
    }
    let found = lookup_host((&*endpoint.host, port)).await;
    let found = found.map_err(|error| ResolveError::from_lookup(&error))?;
    let addresses: Vec<_> = found.take(MAX_ADDRESSES).collect();
    if addresses.is_empty() {
        return Err(ResolveError::NotFound);
    }
    Ok(addresses)
}

async fn within<T>(
    limit: Duration,
    lookup: impl Future<Output = Result<T, ResolveError>>,
) -> Result<T, ResolveError> {
    timeout(limit, lookup)
        .await
        .unwrap_or_else(|_| Err(ResolveError::no_answer(limit)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::duplex;
    use tokio::time::Instant;

    use super::*;
    use crate::connect::{ConnectError, connect};
    use crate::network::Network;

    /// A resolver that can be broken.
    #[derive(Clone, Default)]
    struct TestResolver(Arc<Mutex<Answer>>, Arc<AtomicUsize>);

    #[derive(Clone, Default)]
    enum Answer {
        #[default]
        Found,
        Fails(ResolveError),
        Never,
    }

    impl TestResolver {
        fn set(&self, answer: Answer) {
            *self.0.lock() = answer;
        }

        fn lookups(&self) -> usize {
            self.1.load(Ordering::SeqCst)
        }

        fn endpoint(&self) -> Endpoint {
            let dial = |_: &str, _| {
                let stream = async { Ok(duplex(64).0) };
                Box::pin(stream) as crate::DialFuture
            };
            let resolver = self.clone();
            let network = Network::in_process(dial).with_resolver(move |_| {
                resolver.1.fetch_add(1, Ordering::SeqCst);
                let answer = resolver.0.lock().clone();
                Box::pin(async {
                    match answer {
                        Answer::Found => Ok(()),
                        Answer::Fails(error) => Err(error),
                        Answer::Never => std::future::pending().await,
                    }
                })
            });
            let endpoint = Endpoint::new("http://api.example", None).unwrap();
            endpoint.with_network(&network)
        }
    }

    fn unavailable() -> Answer {
        Answer::Fails(ResolveError::Unavailable("no route to DNS".into()))
    }

    #[tokio::test(start_paused = true)]
    async fn known_addresses_replace_missing_answers() {
        let resolver = TestResolver::default();
        let endpoint = resolver.endpoint().with_address_cache();
        connect(&endpoint).await.unwrap();
        let start = Instant::now();
        for answer in [unavailable(), Answer::Fails(ResolveError::NotFound)] {
            resolver.set(answer);
            connect(&endpoint).await.unwrap();
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
        assert_eq!(resolver.lookups(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_lookup_is_waited_for_once() {
        let resolver = TestResolver::default();
        let endpoint = resolver.endpoint().with_address_cache();
        connect(&endpoint).await.unwrap();
        resolver.set(Answer::Never);
        let start = Instant::now();
        for _ in 0..3 {
            connect(&endpoint).await.unwrap();
            assert_eq!(start.elapsed(), KNOWN_HOST_TIMEOUT);
        }
        assert_eq!(resolver.lookups(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn lookup_without_known_addresses_fails() {
        for cached in [false, true] {
            let resolver = TestResolver::default();
            let mut endpoint = resolver.endpoint();
            if cached {
                endpoint = endpoint.with_address_cache();
            }
            resolver.set(Answer::Never);
            let start = Instant::now();
            let error = connect(&endpoint).await.unwrap_err();
            assert_eq!(start.elapsed(), RESOLVE_TIMEOUT);
            let text = "api.example:80: cannot resolve the host name: the resolver did not answer \
                        within 2s";
            assert_eq!(error.to_string(), text);
        }
    }

    #[tokio::test]
    async fn endpoint_without_cache_forgets_addresses() {
        let resolver = TestResolver::default();
        let endpoint = resolver.endpoint();
        connect(&endpoint).await.unwrap();
        resolver.set(unavailable());
        let error = connect(&endpoint).await.unwrap_err();
        let ConnectError::Resolve { source, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!(source, ResolveError::Unavailable("no route to DNS".into()));
    }

    #[test]
    fn missing_name_is_told_from_missing_answer() {
        let prefix = "failed to lookup address information";
        for (text, expected) in [
            ("Name or service not known", true),
            ("Name does not resolve", true),
            ("Temporary failure in name resolution", false),
            ("Try again", false),
        ] {
            let error = io::Error::other(format!("{prefix}: {text}"));
            let found = ResolveError::from_lookup(&error) == ResolveError::NotFound;
            assert_eq!(found, expected, "{text}");
        }
        let error = io::Error::from_raw_os_error(24);
        let error = ResolveError::from_lookup(&error);
        assert!(matches!(error, ResolveError::Unavailable(_)), "{error:?}");
    }
}
