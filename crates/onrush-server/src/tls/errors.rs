//! What is wrong, in words for an operator.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::config::os_reason;

/// Why a handshake has failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The client has sent something else than TLS.
    #[error("the client does not speak TLS, and this is the TLS port")]
    NoTls,
    /// The client has closed the connection.
    #[error("the client closed the connection during the handshake")]
    Closed,
    /// It takes too long.
    #[error("the handshake took longer than {0} s")]
    TooSlow(u64),
    /// The client sends without end and does not get anywhere.
    #[error("the client's handshake messages are too long")]
    TooLong,
    /// The system's.
    #[error("{}", os_reason(.0))]
    Io(#[from] io::Error),
    /// The protocol's.
    #[error("{}", reason(.0))]
    Tls(#[from] Error),
}

/// What a TLS error means, as one clause.
pub fn reason(error: &Error) -> String {
    match error {
        Error::NoCertificatesPresented => "the client showed no certificate, and tls-auth-clients is yes".to_owned(),
        Error::InvalidCertificate(error) => format!("the other side's certificate {}", certificate(error)),
        Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA => "the other side does not know the authority of our certificate".to_owned(),
            AlertDescription::CertificateExpired => "the other side says that our certificate has expired".to_owned(),
            AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
                "the other side does not accept our certificate".to_owned()
            }
            AlertDescription::CertificateRequired => "the other side demands a certificate".to_owned(),
            AlertDescription::ProtocolVersion => "the other side speaks no version of TLS that we speak".to_owned(),
            other => format!("the other side ended it with the alert {other:?}"),
        },
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => "the other side does not speak TLS".to_owned(),
        Error::PeerIncompatible(error) => format!("no version, suite or key exchange in common ({error:?})"),
        other => other.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "is not valid yet".to_owned(),
        CertificateError::UnknownIssuer => "is of an authority that we do not know".to_owned(),
        CertificateError::BadSignature => "is not signed by the authority that it names".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is for another purpose".to_owned()
        }
        CertificateError::Other(other) if other.to_string().contains("Version") => {
            "is of an old version of X.509; version 3 is needed".to_owned()
        }
        other => format!("is not accepted: {other}"),
    }
}
