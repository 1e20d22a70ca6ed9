//! The watchdog: a thread that checks whether the workers finish their rounds, and logs the command that keeps one from
//! it. It takes no lock, so a thread that hangs cannot make it hang.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::mailbox::Mailbox;
use crate::server::Server;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(500);

/// Looks at a stuck worker before the first log line; another line follows each time their number has doubled.
const PATIENCE_LOOKS: u32 = 2;

/// Starts the watchdog's thread, which ends with the process.
///
/// # Errors
/// The system cannot create a thread.
pub fn start(server: &'static Server, workers: Arc<[Arc<Mailbox>]>) -> io::Result<()> {
    std::thread::Builder::new().name("watchdog".into()).spawn(move || {
        let mut watched: Vec<Watched> = workers.iter().map(|_| Watched::default()).collect();
        loop {
            std::thread::sleep(PERIOD);
            for (thread, (worker, watched)) in workers.iter().zip(&mut watched).enumerate() {
                let rounds = server.stats.threads[thread].rounds.get();
                match watched.look(rounds, worker.is_asleep()) {
                    Finding::Nothing => {}
                    Finding::Stuck(time) => tracing::warn!(
                        "Worker {thread} has been busy with one command for {} s: {}. Its other clients wait",
                        time.as_secs_f32(),
                        command_name(server, thread)
                    ),
                    Finding::GoesOn(time) => {
                        tracing::warn!("Worker {thread} goes on after {} s", time.as_secs_f32());
                    }
                }
            }
        }
    })?;
    Ok(())
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
        let is_time = self.looks >= PATIENCE_LOOKS && self.looks.is_power_of_two();
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
        let told: Vec<u32> = (1..=20).filter(|_| watched.look(5, false) != Finding::Nothing).collect();
        assert_eq!(told, [2, 4, 8, 16]);
        assert_eq!(watched.look(6, false), Finding::GoesOn(PERIOD * 20));
        assert_eq!(watched.look(6, false), Finding::Nothing);
    }

    #[test]
    fn a_worker_that_sleeps_is_not_stuck() {
        let mut watched = Watched::default();
        assert!((0..100).all(|_| watched.look(7, true) == Finding::Nothing));
    }
}
