//! The TLS session to resume.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// What the last connection left to the next one. The library's own store has room for eight
/// sessions of a server: two kilobytes, for each of many servers that are connected to one at a time.
#[derive(Default)]
pub(crate) struct LastSession(Mutex<Option<Box<Session>>>);

struct Session {
    /// A session is never shown to anybody but the server that it was made with.
    server: ServerName<'static>,
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: Option<Tls13ClientSessionValue>,
}

impl LastSession {
    /// A panic elsewhere leaves a whole session behind, or none.
    fn slot(&self) -> MutexGuard<'_, Option<Box<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is known of `server`, or changes it.
    fn known<T>(
        &self,
        server: &ServerName<'_>,
        look: impl FnOnce(&mut Session) -> Option<T>,
    ) -> Option<T> {
        let mut slot = self.slot();
        look(slot.as_mut().filter(|session| session.server == *server)?)
    }

    /// Notes something about `server`, and forgets any other.
    fn note(&self, server: ServerName<'static>, note: impl FnOnce(&mut Session)) {
        let mut slot = self.slot();
        slot.take_if(|session| session.server != server);
        note(slot.get_or_insert_with(|| {
            Box::new(Session {
                server,
                group: None,
                tls12: None,
                tls13: None,
            })
        }));
    }
}

impl ClientSessionStore for LastSession {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.note(server, |session| session.group = Some(group));
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.known(server, |session| session.group)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.note(server, |session| session.tls12 = Some(value));
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.known(server, |session| session.tls12.clone())
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.known(server, |session| session.tls12.take());
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.note(server, |session| session.tls13 = Some(value));
    }

    /// Each is shown once: who watches the wire must not be able to link two connections.
    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.known(server, |session| session.tls13.take())
    }
}

/// A session is a secret.
impl fmt::Debug for LastSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastSession").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &'static str) -> ServerName<'static> {
        ServerName::try_from(name).unwrap()
    }

    #[test]
    fn what_is_known_of_one_server_is_not_told_another() {
        let sessions = LastSession::default();
        assert_eq!(sessions.kx_hint(&server("a")), None);
        sessions.set_kx_hint(server("a"), NamedGroup::X25519);
        assert_eq!(sessions.kx_hint(&server("a")), Some(NamedGroup::X25519));
        assert_eq!(sessions.kx_hint(&server("b")), None);
        sessions.set_kx_hint(server("b"), NamedGroup::secp256r1);
        assert_eq!(sessions.kx_hint(&server("b")), Some(NamedGroup::secp256r1));
        assert_eq!(sessions.kx_hint(&server("a")), None, "only the last");
    }
}
