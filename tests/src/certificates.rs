//! Certificates for tests over TLS, made by openssl.

use std::path::Path;
use std::process::Command;

/// Runs openssl in a folder. Panics when it fails.
pub fn openssl(folder: &Path, args: &str) {
    let done = Command::new("openssl").args(args.split(' ')).current_dir(folder).output().expect("openssl");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// An authority, and a server and a client that it vouches for: files `ca`, `server` and `client` with `.key` and `.crt`.
pub fn certificates(folder: &Path) {
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(folder, &format!("req -x509 {KEY} -keyout ca.key -out ca.crt -subj /CN=authority -days 30"));
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("a file");
    for who in ["server", "client"] {
        openssl(folder, &format!("req {KEY} -keyout {who}.key -out {who}.csr -subj /CN={who}"));
        let signed = "-CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names";
        openssl(folder, &format!("x509 -req -in {who}.csr -out {who}.crt {signed}"));
    }
}
