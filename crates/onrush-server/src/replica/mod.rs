//! Following a primary: the role of this server, and the link of a replica.
//!
//! One thread does all of it. It changes the role between two parts of the stream, with the whole keyspace, so that no
//! part is executed in the wrong role; [`link`] is its connection, [`handshake`] how both sides introduce themselves,
//! [`full_sync`] how the data is replaced, and [`stream`] how what changes at the primary is executed here. Whoever
//! asks for another role interrupts what the thread waits for.

mod full_sync;
mod handshake;
mod link;
mod service;
mod stream;

use std::io;
use std::time::{Duration, Instant};

use onrush_engine::blocking::unblock_all;
use onrush_engine::gate::Exclusive;
use onrush_engine::replication::role::{Link as LinkFacts, LinkState, Primary};
use onrush_persist::threads;

use crate::process::server::Server;
use link::End;
use service::Request;
pub use service::Service;
use stream::Follower;

/// How long after a failure the primary is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How often the thread looks whether it can have the keyspace, or whether the data is loaded.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Makes a server that starts the replica that its configuration says. Nothing is served yet.
pub fn begin(server: &Server) {
    let replicaof = server.host.config.read().replicaof.clone();
    if let Some((host, port)) = replicaof.split_once(' ')
        && let Ok(port) = port.parse()
    {
        server.replication.role.set_primary(Some(Primary { host: host.to_owned(), port }));
        server.replication.history.keep(true);
    }
}

/// Starts the thread.
///
/// # Errors
/// The system cannot create it.
pub fn start(server: &'static Server) -> io::Result<()> {
    threads::start("replica", move || run(server))?;
    Ok(())
}

fn run(server: &'static Server) {
    let service = &server.host.replica;
    let mut follower = None;
    loop {
        while let Some(request) = service.next() {
            change_role(server, request);
            follower = None;
        }
        let Some(primary) = server.replication.role.primary() else {
            service.wait(None);
            continue;
        };
        if server.loading.is_on() {
            service.wait(Some(LOOK_PERIOD));
            continue;
        }
        let end = follow(server, &primary, &mut follower);
        note_down(server);
        match end {
            End::Interrupted => continue,
            End::Later(why) => tracing::info!("The primary {primary} can't serve this replica yet: {why}"),
            End::Failed(why) => tracing::warn!("Replication from the primary {primary} failed: {why}"),
        }
        service.wait(Some(RETRY_AFTER));
    }
}

/// Follows the primary until something ends that. `follower` is the client that executes its stream; it stays for the
/// next link, since the stream goes on where it was.
fn follow(server: &'static Server, primary: &Primary, follower: &mut Option<Follower>) -> End {
    let result = try_follow(server, primary, follower);
    let Err(end) = result;
    // Whoever interrupts closes the socket: what failed then has failed for that.
    if server.host.replica.is_asked() { End::Interrupted } else { end }
}

fn try_follow(
    server: &'static Server,
    primary: &Primary,
    follower: &mut Option<Follower>,
) -> Result<std::convert::Infallible, End> {
    let role = &server.replication.role;
    role.set_link(|facts| facts.state = LinkState::Connecting);
    tracing::info!("Connecting to the primary {primary}");
    let mut link = link::Link::open(server, primary)?;
    role.set_link(|facts| facts.state = LinkState::Handshake);
    handshake::introduce(server, &mut link)?;
    match handshake::ask_for_stream(server, &mut link, follower.is_some())? {
        handshake::Answer::Continues(id) => {
            if let Some(id) = id.filter(|id| *id != server.replication.history.position().id) {
                server.replication.history.rename(id);
            }
            tracing::info!("The primary {primary} goes on where this replica was: partial resynchronization");
        }
        handshake::Answer::SendsAll(position) => {
            role.set_link(|facts| facts.state = LinkState::Sync);
            *follower = None;
            full_sync::receive(server, &mut link, position)?;
        }
    }
    role.set_link(|facts| {
        *facts = LinkFacts { state: LinkState::Connected, last_io: Some(Instant::now()), ..LinkFacts::default() }
    });
    let epoch = server.replication.history.epoch();
    let end = follower.get_or_insert_with(|| Follower::new(server)).follow(server, &mut link);
    if server.replication.history.epoch() != epoch {
        // The data is not what this client has executed.
        *follower = None;
    }
    end
}

/// The link is down.
fn note_down(server: &Server) {
    server.replication.role.set_link(|link| {
        let down_since = if link.state == LinkState::Connected { None } else { link.down_since };
        let down_since = down_since.or_else(|| Some(Instant::now()));
        *link = LinkFacts { down_since, last_io: link.last_io, ..LinkFacts::default() };
    });
}

/// Takes the whole keyspace, however long a script or a command has it.
fn alone(server: &'static Server) -> Exclusive<'static> {
    loop {
        if let Some(alone) = server.alone_unless_busy() {
            return alone;
        }
        std::thread::sleep(LOOK_PERIOD);
    }
}

/// Gives the server another role, and tells who asked for it.
fn change_role(server: &'static Server, request: Request) {
    let Request { primary, done } = request;
    let alone = alone(server);
    server.log.flush();
    let replication = &server.replication;
    let was_replica = replication.role.is_replica();
    // Replicas ask again where they are.
    replication.history.begin_epoch();
    replication.role.set_primary(primary.clone());
    match (&primary, was_replica) {
        (Some(primary), false) => {
            tracing::info!("This server is a replica of {primary} from now on");
            replication.end_stream(server.engine());
            replication.history.keep(true);
            unblock_all(server.engine());
            replication.held.give_all_up();
        }
        (Some(primary), true) => tracing::info!("This replica follows {primary} from now on"),
        (None, true) => {
            replication.history.rename(server.new_replid());
            replication.history.set_db(None);
            if let Err(error) = replication.begin_stream(server.engine()) {
                tracing::error!("Can't keep the stream for replicas: {error}");
                replication.history.keep(false);
            }
            tracing::info!("This server is a primary from now on");
        }
        (None, false) => {}
    }
    drop(alone);
    server.host.replica.note_done();
    done(Ok(()));
}
