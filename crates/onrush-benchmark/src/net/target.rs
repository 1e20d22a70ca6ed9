//! Servers: how to reach one, and the masters of a cluster.

use std::path::PathBuf;

use crate::net::tls::Tls;

/// A server and the login there.
#[derive(Clone, Debug)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub socket: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<String>,
    /// How to encrypt, if so.
    pub tls: Option<Tls>,
}

impl Default for Target {
    fn default() -> Target {
        Target { host: "127.0.0.1".into(), port: 6379, socket: None, user: None, password: None, tls: None }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "{}", path.display()),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// A master node of a cluster.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: String,
    pub target: Target,
    /// First and last of each range of slots.
    pub slots: Vec<(u16, u16)>,
}
