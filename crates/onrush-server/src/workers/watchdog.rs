//! The watchdog: a thread that checks whether the workers finish their rounds. It logs the command that keeps one from
//! it, and sees to it that new connections come to other workers. It also bounds the end of the process, and has a node of a
//! cluster execute nothing while its bus stands still. The only locks that it takes, those of a mailbox, of the snapshot under
//! way and of the node, are held for moments, so a thread that hangs cannot make it hang.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_persist::threads;

use crate::process::server::Server;
use crate::workers::mailbox::Mailbox;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(100);

/// Looks without a round after which a worker gets no new connections.
const STUCK_LOOKS: u32 = 2;

/// Looks at a stuck worker before the first log line; another line follows each time their number has doubled.
const PATIENCE_LOOKS: u32 = 10;

/// Looks at an end of the process that does not go on, after which the process ends without what is still to be saved.
/// This is longer than the end of the append-only file may take.
const END_LOOKS_MAX: u32 = 300;

/// Starts the watchdog's thread, which ends with the process.
///
/// # Errors
/// The system cannot create a thread.
pub fn start(server: &'static Server, workers: Arc<[Arc<Mailbox>]>) -> io::Result<()> {
    threads::start("watchdog", move || {
        let mut watched: Vec<Watched> = workers.iter().map(|_| Watched::default()).collect();
        let (mut end, mut bus) = (Standstill::default(), Standstill::default());
        loop {
            std::thread::sleep(PERIOD);
            bound_end(server, &mut end);
            watch_bus(server, &mut bus);
            for (thread, (worker, watched)) in workers.iter().zip(&mut watched).enumerate() {
                let stats = &server.stats.threads[thread];
                // A worker that has not begun to execute anything waits for its turn on a processor.
                let is_idle = worker.is_asleep() || stats.executing.last().is_none();
                tell(server, thread, &watched.look(stats.rounds.get(), is_idle));
                server.host.stuck[thread].store(watched.looks >= STUCK_LOOKS, Relaxed);
            }
            for (worker, watched) in workers.iter().zip(&watched) {
                if watched.looks >= STUCK_LOOKS {
                    pass_on(server, worker, &workers);
                }
            }
        }
    })?;
    Ok(())
}

/// Gives new connections of a stuck worker to others, if there are any that are not stuck.
fn pass_on(server: &Server, from: &Mailbox, workers: &[Arc<Mailbox>]) {
    if server.host.stuck.iter().all(|stuck| stuck.load(Relaxed)) {
        return;
    }
    for (socket, handle) in from.take_accepted() {
        workers[server.host.worker_for(handle.id)].hand_over(socket, handle);
    }
}

/// Ends the process if its end does not go on: the disk does not answer.
fn bound_end(server: &Server, end: &mut Standstill<Option<(u64, u64)>>) {
    if !server.host.is_closing.load(Relaxed) {
        *end = Standstill::default();
        return;
    }
    let saved = server.snapshots.underway().map(|underway| (underway.saved(), underway.written_bytes()));
    if end.look(saved) >= END_LOOKS_MAX {
        let time = PERIOD * END_LOOKS_MAX;
        tracing::error!("The data is not saved, exit code 1: the disk has not answered for {} s", time.as_secs());
        crate::log::wait();
        signal_hook::low_level::exit(1);
    }
}

/// The bus of the cluster. While it stands still, as its file of nodes cannot be written, other nodes hear nothing of this one,
/// and its replica takes over after a node timeout.
fn watch_bus(server: &Server, bus: &mut Standstill<u64>) {
    let Some(cluster) = &server.cluster else { return };
    let rounds = cluster.bus_rounds.load(Relaxed);
    let looks = bus.look(rounds);
    // Before its first round the data is loaded.
    if rounds == 0 || looks == 0 || cluster.is_stopped() {
        return;
    }
    let Ok(timeout_ms) = cluster.node.lock().map(|state| state.cluster.options().node_timeout_ms) else { return };
    let silent = PERIOD * looks;
    if silent.as_millis() >= u128::from(timeout_ms) {
        tracing::warn!(
            "The bus of the cluster has stood still for {} s: commands are refused until it goes on",
            silent.as_secs_f32()
        );
        cluster.stop();
    }
}

/// How long something has not gone on.
#[derive(Default)]
struct Standstill<T> {
    /// How far it was.
    seen: T,
    looks: u32,
}

impl<T: PartialEq> Standstill<T> {
    /// Returns how many looks in a row have found it where it was.
    fn look(&mut self, now: T) -> u32 {
        self.looks = if now == self.seen { self.looks.saturating_add(1) } else { 0 };
        self.seen = now;
        self.looks
    }
}

fn tell(server: &'static Server, thread: usize, finding: &Finding) {
    match finding {
        Finding::Nothing => {}
        Finding::Stuck(time) => tracing::warn!(
            "Worker {thread} has been busy with one command for {} s: {}. Its other clients wait",
            time.as_secs_f32(),
            command_name(server, thread)
        ),
        Finding::GoesOn(time) => tracing::warn!("Worker {thread} goes on after {} s", time.as_secs_f32()),
    }
}

fn command_name(server: &'static Server, thread: usize) -> &'static str {
    let command = server.stats.threads[thread].executing.last().map(|id| server.commands.command(id));
    command.map_or("none yet", |command| &command.full_name)
}

#[derive(Debug, PartialEq, Eq)]
enum Finding {
    Nothing,
    /// It has not finished a round for at least this long.
    Stuck(Duration),
    /// It has finished its round, after about this long.
    GoesOn(Duration),
}

/// The state of a worker. Time is counted in looks, so that a stopped process does not count as stuck.
#[derive(Default)]
struct Watched {
    rounds: u64,
    /// Looks since it last finished a round.
    looks: u32,
}

impl Watched {
    fn look(&mut self, rounds: u64, asleep: bool) -> Finding {
        if asleep || rounds != self.rounds {
            self.rounds = rounds;
            let looks = std::mem::take(&mut self.looks);
            return if looks >= PATIENCE_LOOKS { Finding::GoesOn(PERIOD * looks) } else { Finding::Nothing };
        }
        self.looks = self.looks.saturating_add(1);
        let is_time = self.looks.is_multiple_of(PATIENCE_LOOKS) && (self.looks / PATIENCE_LOOKS).is_power_of_two();
        if is_time { Finding::Stuck(PERIOD * self.looks) } else { Finding::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_does_not_come_round_is_told_of_ever_less_often() {
        let mut watched = Watched::default();
        assert_eq!(watched.look(5, false), Finding::Nothing);
        let told: Vec<u32> = (1..=100).filter(|_| watched.look(5, false) != Finding::Nothing).collect();
        assert_eq!(told, [10, 20, 40, 80]);
        assert_eq!(watched.look(6, false), Finding::GoesOn(PERIOD * 100));
        assert_eq!(watched.look(6, false), Finding::Nothing);
    }

    #[test]
    fn an_end_that_goes_on_has_all_the_time_it_needs() {
        let mut end = Standstill::default();
        for written in 0..3 {
            assert!((0..END_LOOKS_MAX).all(|_| end.look(Some((5, written))) < END_LOOKS_MAX));
        }
        assert!((0..END_LOOKS_MAX).all(|_| end.look(None) < END_LOOKS_MAX));
        assert_eq!(end.look(None), END_LOOKS_MAX);
    }

    #[test]
    fn a_worker_that_sleeps_is_not_stuck() {
        let mut watched = Watched::default();
        assert!((0..100).all(|_| watched.look(7, true) == Finding::Nothing));
    }
}
