//! Reasons for which TLS fails.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// The reason that TLS with a server failed. The messages are written for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// No trusted authority signed the server's certificate. Either the configured CA or the server
    /// is wrong.
    #[error("the server's certificate is not signed by the configured certificate authority")]
    UnknownCa,
    /// The server's certificate has expired.
    #[error("the server's certificate has expired: renew it, or check this host's clock")]
    Expired,
    /// The server's certificate is not valid yet.
    #[error("the server's certificate is not valid yet: check this host's clock")]
    NotYetValid,
    /// The server's certificate is for another name.
    #[error("the server's certificate is not valid for the expected name")]
    WrongName,
    /// The server's certificate is invalid for another reason.
    #[error("the server's certificate cannot be used: {0}")]
    Certificate(String),
    /// The server rejected the client certificate.
    #[error("the server rejected the client certificate: {0}")]
    ClientCertRejected(ClientCertRejection),
    /// The server answered with something other than TLS.
    #[error("the server does not speak TLS on this port")]
    NotTls,
    /// The server closed the connection during the handshake.
    #[error("the server closed the connection during the TLS handshake")]
    Closed,
    /// Any other failure, with its description.
    #[error("TLS failed: {0}")]
    Other(String),
}

/// The reason that a server rejected the client certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientCertRejection {
    /// The server requires a certificate and none is configured.
    #[error("it requires one, and none is configured")]
    Required,
    /// The certificate has expired.
    #[error("it has expired")]
    Expired,
    /// The server does not trust the issuer.
    #[error("the server does not trust its issuer")]
    UnknownCa,
    /// The certificate was revoked.
    #[error("it was revoked")]
    Revoked,
    /// The server gives no details.
    #[error("it is invalid or not permitted")]
    Bad,
}

impl TlsFault {
    /// Finds a TLS fault in the source chain of an error.
    pub fn in_error_chain(error: &(dyn StdError + 'static)) -> Option<Self> {
        rustls_error(error).map(Self::from)
    }

    /// Returns the fault that caused an I/O error of a handshake.
    pub(crate) fn from_handshake(error: &io::Error) -> Self {
        if let Some(fault) = Self::in_error_chain(error) {
            return fault;
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<&Error> for TlsFault {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(fault) => certificate_fault(fault),
            Error::AlertReceived(alert) => match rejection(*alert) {
                Some(refusal) => Self::ClientCertRejected(refusal),
                None => Self::Other(format!("the server sent the alert {alert:?}")),
            },
            Error::InvalidMessage(_) => Self::NotTls,
            other => Self::Other(other.to_string()),
        }
    }
}

fn certificate_fault(fault: &CertificateError) -> TlsFault {
    match fault {
        // Authorities with the same purpose often share a name. Then a wrong one matches by name,
        // and only its signature shows the difference.
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

fn rejection(alert: AlertDescription) -> Option<ClientCertRejection> {
    Some(match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            ClientCertRejection::Required
        }
        AlertDescription::CertificateExpired => ClientCertRejection::Expired,
        AlertDescription::UnknownCA => ClientCertRejection::UnknownCa,
        AlertDescription::CertificateRevoked => ClientCertRejection::Revoked,
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => ClientCertRejection::Bad,
        _ => return None,
    })
}

/// Finds a rustls error in the source chain of `error`. An `io::Error` leaves the error that it
/// wraps out of its chain, so the wrapped error is checked directly.
fn rustls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<Error>() {
            return Some(found);
        }
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn StdError + 'static)),
            None => error.source(),
        };
    }
    None
}
