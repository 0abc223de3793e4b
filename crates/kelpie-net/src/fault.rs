//! Why TLS did not come about.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Why there is no TLS with the server, in the operator's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// Signed by nobody whom we trust: wrong CA in the settings, or a wrong server.
    #[error("the server's certificate is not signed by the configured certificate authority")]
    UnknownCa,
    /// The server's certificate ran out.
    #[error("the server's certificate has expired: renew it, or check this host's clock")]
    Expired,
    /// The server's certificate is not valid yet.
    #[error("the server's certificate is not valid yet: check this host's clock")]
    NotYetValid,
    /// The server's certificate is for another name.
    #[error("the server's certificate is for another name than the one expected")]
    WrongName,
    /// The server's certificate is wrong in another way.
    #[error("the server's certificate cannot be used: {0}")]
    Certificate(String),
    /// The server does not accept us.
    #[error("the server refused the client certificate: {0}")]
    ClientRefused(ClientRefusal),
    /// What came back is not TLS.
    #[error("the server does not speak TLS on this port")]
    NotTls,
    /// The server ended the connection during the handshake.
    #[error("the server closed the connection during the TLS handshake")]
    Closed,
    /// Anything else.
    #[error("TLS failed: {0}")]
    Other(String),
}

/// Why a server did not accept the client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientRefusal {
    /// None was given.
    #[error("it wants one and none is configured")]
    Required,
    /// It ran out.
    #[error("it has expired")]
    Expired,
    /// The server does not trust its issuer.
    #[error("its issuer is unknown to the server")]
    UnknownCa,
    /// It was revoked.
    #[error("it was revoked")]
    Revoked,
    /// The server does not say more.
    #[error("it is bad or not allowed")]
    Bad,
}

impl TlsFault {
    /// The fault that an I/O error of a handshake carries.
    pub(crate) fn of_handshake(error: &io::Error) -> Self {
        if let Some(tls) = rustls_error(error) {
            return Self::from(tls);
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<&Error> for TlsFault {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(fault) => of_certificate(fault),
            Error::AlertReceived(alert) => match of_alert(*alert) {
                Some(refusal) => Self::ClientRefused(refusal),
                None => Self::Other(format!("the server sent the alert {alert:?}")),
            },
            Error::InvalidMessage(_) => Self::NotTls,
            other => Self::Other(other.to_string()),
        }
    }
}

fn of_certificate(fault: &CertificateError) -> TlsFault {
    match fault {
        // Authorities made for one purpose often share one name: then the wrong one is found by its
        // name and told by its key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFault::UnknownCa,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            TlsFault::NotYetValid
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsFault::WrongName
        }
        other => TlsFault::Certificate(other.to_string()),
    }
}

fn of_alert(alert: AlertDescription) -> Option<ClientRefusal> {
    Some(match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            ClientRefusal::Required
        }
        AlertDescription::CertificateExpired => ClientRefusal::Expired,
        AlertDescription::UnknownCA => ClientRefusal::UnknownCa,
        AlertDescription::CertificateRevoked => ClientRefusal::Revoked,
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => ClientRefusal::Bad,
        _ => return None,
    })
}

/// The TLS error somewhere under `error`. An `io::Error` hides the error that it holds from its own
/// chain of sources, so it is asked itself.
pub(crate) fn rustls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<Error>() {
            return Some(found);
        }
        let held = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = match held {
            Some(held) => Some(held as &(dyn StdError + 'static)),
            None => error.source(),
        };
    }
    None
}
