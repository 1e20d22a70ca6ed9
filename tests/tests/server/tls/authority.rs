//! Certificates, made by the `openssl` command.

use std::fs;
use std::path::Path;
use std::process::Command;

use onrush_tests::server::TempDir;

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// What `openssl ca` wants to know, the only way to dates in the past.
const SETTINGS: &str = "[ca]\ndefault_ca=own\n[own]\nserial=number\ndatabase=index\nnew_certs_dir=.\npolicy=any\n[any]\ncommonName=supplied\n";

/// A folder with an authority `ca.crt`, and `server` and `client` that it vouches for.
pub struct Authority(TempDir);

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        let folder = Self(TempDir::new());
        folder.openssl(&format!("req -x509 {NEW_KEY} -keyout ca.key -out ca.crt -subj /CN=authority -days 30"));
        folder.write("names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
        folder.write("ca.cnf", SETTINGS);
        folder.write("index", "");
        folder.write("number", "01\n");
        folder.certify("server");
        folder.certify("client");
        folder
    }

    /// Makes a key and a certificate of this name.
    pub fn certify(&self, who: &str) {
        self.request(who);
        let signed = "-CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names";
        self.openssl(&format!("x509 -req -in {who}.csr -out {who}.crt {signed}"));
    }

    /// Makes one that has expired.
    pub fn certify_expired(&self, who: &str) {
        self.request(who);
        let dates = "-startdate 20200101000000Z -enddate 20210101000000Z";
        let signed = "-cert ca.crt -keyfile ca.key -md sha256 -notext -extfile names";
        self.openssl(&format!("ca -batch -config ca.cnf {signed} {dates} -in {who}.csr -out {who}.crt"));
    }

    fn request(&self, who: &str) {
        self.openssl(&format!("req {NEW_KEY} -keyout {who}.key -out {who}.csr -subj /CN={who}"));
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder().join(name).to_str().expect("a path").to_owned()
    }

    /// Copies a file of the folder over another one.
    pub fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).expect("a file");
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder().join(name), text).expect("a file");
    }

    fn folder(&self) -> &Path {
        &self.0.0
    }

    /// Runs `openssl` in the folder.
    pub fn openssl(&self, args: &str) {
        let done = Command::new("openssl").args(args.split(' ')).current_dir(self.folder()).output().expect("openssl");
        assert!(done.status.success(), "{args}: {}", String::from_utf8_lossy(&done.stderr));
    }
}
