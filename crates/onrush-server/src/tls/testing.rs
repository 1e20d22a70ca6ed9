//! Certificates for tests, made by the `openssl` command.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of its own, removed when dropped.
pub(crate) struct Folder(PathBuf);

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// What `openssl ca` wants to know, the only way to dates in the past.
const AUTHORITY: &str = "[ca]\ndefault_ca=own\n[own]\nserial=number\ndatabase=index\nnew_certs_dir=.\npolicy=any\n[any]\ncommonName=supplied\n";

impl Folder {
    /// With an authority `ca`, and `server` and `client` that it vouches for.
    pub(crate) fn with_certificates() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let folder = Self(std::env::temp_dir().join(format!("onrush-tls-{}-{number}", std::process::id())));
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir_all(folder.0.join("authorities")).unwrap();
        folder.openssl(&format!("req -x509 {NEW_KEY} -keyout ca.key -out ca.crt -subj /CN=authority -days 30"));
        folder.write("names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
        folder.certify("server");
        folder.certify("client");
        folder
    }

    /// Adds a certificate that has expired.
    pub(crate) fn expired(&self, who: &str) {
        self.write("ca.cnf", AUTHORITY);
        self.write("index", "");
        self.write("number", "01\n");
        self.openssl(&format!("req {NEW_KEY} -keyout {who}.key -out {who}.csr -subj /CN={who}"));
        let dates = "-startdate 20200101000000Z -enddate 20210101000000Z";
        let signed = "-cert ca.crt -keyfile ca.key -md sha256 -notext -extfile names";
        self.openssl(&format!("ca -batch -config ca.cnf {signed} {dates} -in {who}.csr -out {who}.crt"));
    }

    fn certify(&self, who: &str) {
        self.openssl(&format!("req {NEW_KEY} -keyout {who}.key -out {who}.csr -subj /CN={who}"));
        let signed = "-CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names";
        self.openssl(&format!("x509 -req -in {who}.csr -out {who}.crt {signed}"));
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    pub(crate) fn openssl(&self, args: &str) {
        let done = Command::new("openssl").args(args.split(' ')).current_dir(&self.0).output().expect("openssl");
        assert!(done.status.success(), "{args}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
