//! Protocol versions and cipher suites, by the names that OpenSSL gives them.

use rustls::crypto::ring::cipher_suite as ring;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

/// Suites of TLS 1.3, the preferred ones first.
const TLS13_SUITES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", ring::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", ring::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", ring::TLS13_CHACHA20_POLY1305_SHA256),
];

/// Suites of TLS 1.2, the preferred ones first.
const TLS12_SUITES: [(&str, SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", ring::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES256-GCM-SHA384", ring::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", ring::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", ring::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", ring::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", ring::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// The versions that `tls-protocols` names; all if it is empty.
///
/// # Errors
/// A text for the log.
pub(super) fn versions(names: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions = Vec::new();
    for name in names.split([' ', ',']).filter(|name| !name.is_empty()) {
        versions.push(match name.to_ascii_lowercase().as_str() {
            "tlsv1.2" => &TLS12,
            "tlsv1.3" => &TLS13,
            "tlsv1" | "tlsv1.1" => return Err(format!("tls-protocols: {name} is not supported, as it is not secure")),
            _ => {
                return Err(format!(
                    "tls-protocols: there is no '{name}'; use a combination of 'TLSv1.2' and 'TLSv1.3'"
                ));
            }
        });
    }
    if versions.is_empty() {
        versions = vec![&TLS13, &TLS12];
    }
    Ok(versions)
}

/// The suites that `tls-ciphersuites` (of TLS 1.3) and `tls-ciphers` (of TLS 1.2) name, in their order; an empty one
/// means all.
///
/// # Errors
/// A text for the log.
pub(super) fn suites(tls13: &str, tls12: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut suites = named("tls-ciphersuites", tls13, &TLS13_SUITES)?;
    suites.extend(named("tls-ciphers", tls12, &TLS12_SUITES)?);
    Ok(suites)
}

fn named(
    directive: &str,
    names: &str,
    all: &[(&'static str, SupportedCipherSuite)],
) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut suites = Vec::new();
    for name in names.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
        let found = all.iter().find(|(own, suite)| own.eq_ignore_ascii_case(name) || has_name(suite.suite(), name));
        let Some((_, suite)) = found else {
            let known: Vec<_> = all.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "{directive}: '{name}' cannot be honoured; name suites out of {}, separated by colons",
                known.join(":")
            ));
        };
        if !suites.contains(suite) {
            suites.push(*suite);
        }
    }
    if suites.is_empty() {
        suites.extend(all.iter().map(|(_, suite)| *suite));
    }
    Ok(suites)
}

/// Whether this is the standard's name of the suite.
fn has_name(suite: CipherSuite, name: &str) -> bool {
    suite.as_str().is_some_and(|own| own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_are_named() {
        let names = |text: &str| versions(text).map(|all| all.iter().map(|v| v.version).collect::<Vec<_>>());
        let (v2, v3) = (rustls::ProtocolVersion::TLSv1_2, rustls::ProtocolVersion::TLSv1_3);
        assert_eq!(names(""), Ok(vec![v3, v2]));
        assert_eq!(names("TLSv1.2"), Ok(vec![v2]));
        assert_eq!(names("tlsv1.3 TLSv1.2"), Ok(vec![v3, v2]));
        for (wrong, text) in [("TLSv1", "not secure"), ("TLSv1.2 TLSv1.1", "not secure"), ("SSLv3", "no 'SSLv3'")] {
            assert!(names(wrong).unwrap_err().contains(text), "{wrong}");
        }
    }

    #[test]
    fn suites_are_taken_in_the_order_of_their_names() {
        let chosen =
            suites("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256").unwrap();
        let chosen: Vec<_> = chosen.iter().map(SupportedCipherSuite::suite).collect();
        assert_eq!(
            chosen,
            [
                CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
                CipherSuite::TLS13_AES_128_GCM_SHA256,
                CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
            ]
        );
        assert_eq!(suites("", "").unwrap().len(), 9);
        let standard = suites("", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256").unwrap();
        assert_eq!(standard.len(), 4);
    }

    #[test]
    fn what_cannot_be_honoured_is_an_error() {
        for (tls13, tls12, text) in [
            ("TLS_AES_128_CCM_SHA256", "", "tls-ciphersuites: 'TLS_AES_128_CCM_SHA256' cannot be honoured"),
            ("", "DEFAULT:!MEDIUM", "tls-ciphers: 'DEFAULT' cannot be honoured"),
            ("", "ECDHE-RSA-AES128-GCM-SHA256:!aNULL", "'!aNULL'"),
        ] {
            let error = suites(tls13, tls12).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }
}
