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
use std::sync::Arc;
use std::time::{Duration, Instant};

use onrush_engine::gate::Exclusive;
use onrush_engine::replication::attached::{Phase, Replica};
use onrush_engine::replication::role::{Link as LinkFacts, LinkState, Primary};
use onrush_persist::threads;

use crate::process::server::Server;
use link::End;
pub use service::{Request, Service};
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
    threads::start("replica", move || run(server)).map(drop)
}

fn run(server: &'static Server) {
    let service = &server.host.replica;
    let mut follower = None;
    loop {
        while let Some((request, done)) = service.next() {
            if change_role(server, request) {
                follower = None;
            }
            service.note_done();
            done(Ok(()));
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
        give_failover_up(server, &end);
        match end {
            End::Interrupted | End::Refused(_) => continue,
            End::Later(why) => tracing::info!("The primary {primary} can't serve this replica yet: {why}"),
            End::Failed(why) => tracing::warn!("Replication from the primary {primary} failed: {why}"),
        }
        service.wait(Some(RETRY_AFTER));
    }
}

/// A planned fail-over ends without success if the replica does not want to take over, or never could be asked.
fn give_failover_up(server: &'static Server, end: &End) {
    let failover = &server.replication.failover;
    let timeout = Duration::from_secs(server.host.config.read().repl_timeout);
    let was_refused = matches!(end, End::Refused(_));
    if was_refused || failover.unasked_since().is_some_and(|since| since.elapsed() > timeout) {
        tracing::warn!("The planned fail-over ends, and this server is a primary again: {end}");
        server.host.replica.ask(Request::default(), Box::new(|_| {}));
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
    // Whoever replaces the data from here on begins another epoch, and then the stream is not that of the data.
    let mut epoch = server.replication.history.epoch();
    let answer = handshake::ask_for_stream(server, &mut link, follower.is_some())?;
    if !matches!(answer, handshake::Answer::Refuses(_)) && server.end_failover() {
        tracing::info!("{primary} has taken over from this server");
    }
    match answer {
        handshake::Answer::Refuses(why) => return Err(End::Refused(why)),
        handshake::Answer::Continues(id) => {
            if let Some(id) = id.filter(|id| *id != server.replication.history.position().id) {
                server.replication.history.rename(id);
                epoch = epoch.after_rename();
            }
            tracing::info!("The primary {primary} goes on where this replica was: partial resynchronization");
        }
        handshake::Answer::SendsAll(position) => {
            role.set_link(|facts| facts.state = LinkState::Sync);
            *follower = None;
            crate::cluster::forget_told(server);
            epoch = full_sync::receive(server, &mut link, position)?;
        }
    }
    role.set_link(|facts| {
        let now = Some(Instant::now());
        *facts = LinkFacts { state: LinkState::Connected, last_io: now, was_alike: now, ..LinkFacts::default() }
    });
    let end = follower.get_or_insert_with(|| Follower::new(server)).follow(server, &mut link, epoch);
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
        *link = LinkFacts { down_since, last_io: link.last_io, was_alike: link.was_alike, ..LinkFacts::default() };
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

/// Gives the server another role; returns `false` if it keeps its own, as the replica that is to take over lacks something.
fn change_role(server: &'static Server, request: Request) -> bool {
    let Request { primary, takes_over, is_same } = request;
    let alone = alone(server);
    server.log.flush();
    let replication = &server.replication;
    let was_replica = replication.role.is_replica();
    if takes_over && !may_take_over(server) {
        return false;
    }
    let was_alike = replication.role.link().was_alike.filter(|_| is_same);
    if let Err(error) = replication.change_role(server.engine(), primary.clone()) {
        tracing::error!("Can't keep the stream for replicas: {error}");
    }
    // Otherwise a primary that dies right then could not be replaced.
    replication.role.set_link(|facts| facts.was_alike = was_alike);
    match (&primary, was_replica) {
        (Some(primary), false) => tracing::info!("This server is a replica of {primary} from now on"),
        (Some(primary), true) => tracing::info!("This replica follows {primary} from now on"),
        (None, true) => tracing::info!("This server is a primary from now on"),
        (None, false) => {}
    }
    crate::replicas::count_good(server);
    drop(alone);
    if !takes_over {
        server.end_failover();
    }
    true
}

/// Whether the replica that FAILOVER has chosen has all, or may lack something. The caller has the whole keyspace, and the
/// log is flushed.
fn may_take_over(server: &Server) -> bool {
    let replication = &server.replication;
    let Some((target, lacks_some)) = replication.failover.target() else { return false };
    let offset = replication.history.position().offset;
    let has_all = |replica: &Arc<Replica>| {
        replica.phase() == Phase::Online && replica.address() == target && replica.acknowledged() >= offset
    };
    let may = !replication.role.is_replica() && (lacks_some || replication.attached.all().iter().any(has_all));
    if !may {
        replication.failover.wait_again();
        replication.wake();
    }
    may
}
