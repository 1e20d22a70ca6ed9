//! Certificates and keys from files in PEM form.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::pem::PemLabel;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::config::os_reason;

/// Most bytes of a file of certificates or keys. A system's bundle of authorities has a quarter of a megabyte.
const FILE_LEN_MAX: u64 = 4 << 20;

/// Most files in the directory of authorities.
const DIR_FILES_MAX: usize = 10_000;

/// Reads a certificate and those that vouch for it, in their order.
///
/// # Errors
/// A text that names the file.
pub(super) fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = certificates_in(&read(Path::new(path))?).map_err(|error| format!("{path}: {error}"))?;
    if certificates.is_empty() {
        return Err(format!("{path}: there is no certificate in it"));
    }
    Ok(certificates)
}

fn certificates_in(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Reads a private key, which may be encrypted with a password.
///
/// # Errors
/// A text that names the file.
pub(super) fn private_key(path: &str, password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let text = read(Path::new(path))?;
    key_in(&text, password).map_err(|error| format!("{path}: {error}"))
}

fn key_in(text: &[u8], password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if let Some(section) = section(text, EncryptedPrivateKeyInfoRef::PEM_LABEL) {
        return decrypted(section, password);
    }
    if text.windows(OLD_ENCRYPTION.len()).any(|window| window == OLD_ENCRYPTION) {
        return Err(
            "the key is encrypted in a form that is not supported; `openssl pkcs8 -topk8` writes it in one that \
                    is"
            .to_owned(),
        );
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => "there is no private key in it".to_owned(),
        other => other.to_string(),
    })
}

/// What the old form of encrypted keys says of itself.
const OLD_ENCRYPTION: &[u8] = b"Proc-Type: 4,ENCRYPTED";

fn decrypted(section: &[u8], password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if password.is_empty() {
        return Err("the key is encrypted, and no password is given for it".to_owned());
    }
    let (_, encrypted) =
        pkcs8::der::pem::decode_vec(section).map_err(|error| format!("the key is damaged: {error}"))?;
    let info = EncryptedPrivateKeyInfoRef::try_from(encrypted.as_slice())
        .map_err(|error| format!("the key's encryption is not supported: {error}"))?;
    let key = info.decrypt(password).map_err(|_| "the password does not fit the key".to_owned())?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// The section of a PEM text with this label, with its first and last lines.
fn section<'a>(text: &'a [u8], label: &str) -> Option<&'a [u8]> {
    let (first, last) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let find = |from: usize, line: &str| {
        let at = text[from..].windows(line.len()).position(|window| window == line.as_bytes());
        at.map(|at| from + at)
    };
    let start = find(0, &first)?;
    let end = find(start, &last)? + last.len();
    Some(&text[start..end])
}

/// Reads the authorities of a file and of all files in a directory; either may be empty.
///
/// # Errors
/// A text that names what cannot be read, or has no authority in it.
pub(super) fn authorities(file: &str, dir: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if !file.is_empty() {
        let (added, _) = roots.add_parsable_certificates(certificates(file)?);
        if added == 0 {
            return Err(format!("{file}: no certificate in it can be an authority's"));
        }
    }
    if !dir.is_empty() {
        for path in files_of(dir)? {
            // A README or a key is no reason to stop.
            let Ok(certificates) = read(&path).and_then(|text| certificates_in(&text)) else { continue };
            roots.add_parsable_certificates(certificates);
        }
        if roots.is_empty() {
            return Err(format!("{dir}: there is no authority's certificate in it"));
        }
    }
    Ok(roots)
}

fn files_of(dir: &str) -> Result<Vec<PathBuf>, String> {
    let failed = |error: io::Error| format!("{dir}: {}", os_reason(&error));
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        if paths.len() == DIR_FILES_MAX {
            return Err(format!("{dir}: it has more than {DIR_FILES_MAX} files"));
        }
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Reads a file of a bounded size; never waits for what is no file.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| format!("{}: {}", path.display(), os_reason(&error));
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(format!("{}: it is no file", path.display()));
    }
    let mut text = Vec::new();
    fs::File::open(path).map_err(failed)?.take(FILE_LEN_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    match text.len() as u64 > FILE_LEN_MAX {
        true => Err(format!("{}: it is too large ({FILE_LEN_MAX} bytes at most)", path.display())),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::testing::Folder;

    #[test]
    fn keys_are_read_in_all_their_forms() {
        let folder = Folder::with_certificates();
        folder.openssl("pkcs8 -topk8 -in server.key -out sealed.key -passout pass:secret");
        folder.openssl("pkcs8 -topk8 -in server.key -out scrypt.key -scrypt -passout pass:secret");
        folder.openssl("ec -in server.key -out sec1.key");
        folder.openssl("genrsa -traditional -out rsa.key 2048");
        let der = private_key(&folder.path("server.key"), b"").unwrap();
        for name in ["sealed.key", "scrypt.key"] {
            let opened = private_key(&folder.path(name), b"secret").unwrap();
            assert_eq!(opened.secret_der(), der.secret_der(), "{name}");
        }
        private_key(&folder.path("sec1.key"), b"unused").unwrap();
        private_key(&folder.path("rsa.key"), b"").unwrap();
    }

    #[test]
    fn what_is_wrong_with_a_key_is_said_with_its_file() {
        let folder = Folder::with_certificates();
        folder.openssl("pkcs8 -topk8 -in server.key -out sealed.key -passout pass:secret");
        folder.openssl("ec -in server.key -out old.key -aes128 -passout pass:secret");
        folder.write("empty.key", "");
        folder.write("cut.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n");
        for (name, password, text) in [
            ("sealed.key", "", "no password is given"),
            ("sealed.key", "wrong", "the password does not fit"),
            ("old.key", "secret", "openssl pkcs8 -topk8"),
            ("empty.key", "", "there is no private key in it"),
            ("cut.key", "x", "not supported"),
            ("server.crt", "", "there is no private key in it"),
            ("none.key", "", "No such file or directory"),
            ("", "", "it is no file"),
        ] {
            let error = private_key(&folder.path(name), password.as_bytes()).unwrap_err();
            assert!(error.contains(text) && error.contains(name), "{name}: {error}");
        }
    }

    #[test]
    fn authorities_come_from_a_file_and_a_folder() {
        let folder = Folder::with_certificates();
        folder.write("authorities/README", "no certificate");
        let none = authorities("", &folder.path("authorities")).unwrap_err();
        assert!(none.contains("no authority's certificate"), "{none}");
        std::fs::copy(folder.path("ca.crt"), folder.path("authorities/one.pem")).unwrap();
        assert_eq!(authorities("", &folder.path("authorities")).unwrap().len(), 1);
        assert_eq!(authorities(&folder.path("ca.crt"), &folder.path("authorities")).unwrap().len(), 2);
        for (file, dir, text) in [
            ("server.key", "", "there is no certificate in it"),
            ("none.crt", "", "No such file"),
            ("", "none", "No such file"),
            ("", "ca.crt", "Not a directory"),
        ] {
            let path = |name: &str| if name.is_empty() { String::new() } else { folder.path(name) };
            let error = authorities(&path(file), &path(dir)).unwrap_err();
            assert!(error.contains(text), "{file}{dir}: {error}");
        }
    }
}
