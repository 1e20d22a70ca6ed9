//! Worker threads: each runs its connections on a runtime of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::alloc;
use crate::client::ClientHandle;
use crate::connection::Connection;
use crate::server::Server;

/// How often a worker looks whether memory can be given back.
const TEND_PERIOD: Duration = Duration::from_millis(100);

/// A database's tables are levelled when the number of its keys has changed by more than this part of them.
const LEVELLING_RATIO: usize = 128;

/// A socket just accepted.
pub enum Accepted {
    /// TCP.
    Tcp(std::net::TcpStream, Arc<ClientHandle>),
    /// Unix.
    Unix(std::os::unix::net::UnixStream, Arc<ClientHandle>),
}

/// The way to hand connections to a worker. Bounded by `maxclients`.
pub type Inbox = UnboundedSender<Accepted>;

/// Starts worker `thread`.
///
/// # Errors
/// The system has no thread or no event queue to give.
pub fn start(server: &'static Server, thread: usize) -> std::io::Result<Inbox> {
    let (inbox, accepted) = unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name(format!("worker-{thread}"))
        .spawn(move || runtime.block_on(run(server, thread, accepted)))?;
    Ok(inbox)
}

async fn run(server: &'static Server, thread: usize, mut accepted: UnboundedReceiver<Accepted>) {
    tokio::spawn(tend_memory(server, thread));
    while let Some(accepted) = accepted.recv().await {
        let handle = match &accepted {
            Accepted::Tcp(_, handle) | Accepted::Unix(_, handle) => Arc::clone(handle),
        };
        if let Err(error) = adopt(server, thread, accepted) {
            tracing::warn!("Cannot serve client {}: {error}", handle.addr);
            server.clients.remove(handle.id);
            server.connected.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// Gives memory back to the system after much of it was freed; each thread has to do that for its own. Also levels
/// the tables of databases that have grown or shrunk, this thread's share of them.
async fn tend_memory(server: &'static Server, thread: usize) {
    let mut seen = 0;
    let mut levelled = vec![0; server.keyspace.databases()];
    loop {
        tokio::time::sleep(TEND_PERIOD).await;
        let ebbs = alloc::ebbs();
        if ebbs != seen {
            seen = ebbs;
            alloc::give_back();
        }
        for (index, levelled) in levelled.iter_mut().enumerate() {
            let Some(db) = server.keyspace.db(index) else { continue };
            let len = db.len();
            if len.abs_diff(*levelled) > len / LEVELLING_RATIO {
                *levelled = len;
                let _entered = server.gate.enter(thread);
                let enlarged = db.level(thread, server.workers);
                tracing::debug!("Levelled database {index}: {enlarged} tables enlarged");
            }
        }
    }
}

/// Gives a connection its task.
fn adopt(server: &'static Server, thread: usize, accepted: Accepted) -> std::io::Result<()> {
    match accepted {
        Accepted::Tcp(stream, handle) => {
            let stream = TcpStream::from_std(stream)?;
            tokio::spawn(Connection::new(stream, server, thread, handle));
        }
        Accepted::Unix(stream, handle) => {
            let stream = UnixStream::from_std(stream)?;
            tokio::spawn(Connection::new(stream, server, thread, handle));
        }
    }
    Ok(())
}
