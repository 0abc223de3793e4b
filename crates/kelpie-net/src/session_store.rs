//! Stores the TLS session to resume.

use std::fmt;

use parking_lot::Mutex;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Stores the session of the last connection for the next one. rustls' own store reserves space for
/// eight sessions per server. That is two kilobytes for each of many servers with one connection at
/// a time.
#[derive(Default)]
pub(crate) struct SingleSessionStore(Mutex<Option<Box<Session>>>);

struct Session {
    /// A session is offered only to the server that created it.
    server: ServerName<'static>,
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: Option<Tls13ClientSessionValue>,
}

impl SingleSessionStore {
    /// Reads or changes the session of `server`, if it is the stored one.
    fn with_session<T>(
        &self,
        server: &ServerName<'_>,
        access: impl FnOnce(&mut Session) -> Option<T>,
    ) -> Option<T> {
        let mut slot = self.0.lock();
        access(slot.as_mut().filter(|session| session.server == *server)?)
    }

    /// Updates the session of `server`, and drops the session of any other server.
    fn update(&self, server: ServerName<'static>, update: impl FnOnce(&mut Session)) {
        let mut slot = self.0.lock();
        slot.take_if(|session| session.server != server);
        update(slot.get_or_insert_with(|| {
            Box::new(Session {
                server,
                group: None,
                tls12: None,
                tls13: None,
            })
        }));
    }
}

impl ClientSessionStore for SingleSessionStore {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.update(server, |session| session.group = Some(group));
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.with_session(server, |session| session.group)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.update(server, |session| session.tls12 = Some(value));
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.with_session(server, |session| session.tls12.clone())
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.with_session(server, |session| session.tls12.take());
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.update(server, |session| session.tls13 = Some(value));
    }

    /// Returns each ticket once, so that an observer of the network cannot link two connections.
    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.with_session(server, |session| session.tls13.take())
    }
}

/// Hides the session, which is secret.
impl fmt::Debug for SingleSessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleSessionStore").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &'static str) -> ServerName<'static> {
        ServerName::try_from(name).unwrap()
    }

    #[test]
    fn sessions_are_not_shared_between_servers() {
        let sessions = SingleSessionStore::default();
        assert_eq!(sessions.kx_hint(&server("a")), None);
        sessions.set_kx_hint(server("a"), NamedGroup::X25519);
        assert_eq!(sessions.kx_hint(&server("a")), Some(NamedGroup::X25519));
        assert_eq!(sessions.kx_hint(&server("b")), None);
        sessions.set_kx_hint(server("b"), NamedGroup::secp256r1);
        assert_eq!(sessions.kx_hint(&server("b")), Some(NamedGroup::secp256r1));
        assert_eq!(sessions.kx_hint(&server("a")), None, "only the last");
    }
}
