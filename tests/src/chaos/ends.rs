//! How a life of a server ends, and what the next one has to find.

use std::fs;

use super::clients::{self, Kept};
use super::disk::Word;
use super::host::threads;
use super::options::{Options, Plant};
use super::round::Round;
use super::settings::Fsync;
use crate::argv;

/// An end: ends the process and starts it again; returns whether the round goes on.
type End = fn(&mut Round<'_>) -> bool;

/// All ends by name.
pub const ALL: [(&str, End); 8] = [
    ("kill", kill),
    ("kill-at-rest", kill_at_rest),
    ("term", term),
    ("term-at-rest", term_at_rest),
    ("nosave", nosave),
    ("term-on-full-disk", term_on_full_disk),
    ("kill-on-full-disk", kill_on_full_disk),
    ("foreign-log", foreign_log),
];

/// Draws an end and plays it; returns whether the round goes on.
pub fn play(round: &mut Round<'_>) -> bool {
    if !round.lives_on() {
        return false;
    }
    let names = ALL.map(|end| end.0);
    let Some(name) = round.draw(&names, Options::has_fault) else { return kill(round) };
    round.told(name);
    round.scene.report.count(name, 1);
    let end = ALL.iter().find(|(other, _)| *other == name).expect("drawn from them").1;
    end(round)
}

impl Round<'_> {
    /// What is there after a kill. The process must still run.
    pub fn kept_at_kill(&self) -> Kept {
        match self.scene.settings.log {
            Some(Fsync::Always) => Kept::All,
            Some(_) => Kept::ButLast(self.scene.stretched(self.scene.bounds.loss_max, self.scene.load().at_start())),
            None => Kept::Nothing,
        }
    }

    /// Lets all clients rest and takes the digest; `None` if that fails.
    fn digest_at_rest(&mut self) -> Option<String> {
        if !clients::rest(self.scene) {
            if self.lives_on() {
                let clients = self.ask(&argv!["CLIENT", "LIST"]).map_or_else(|reason| reason, |list| list.text());
                let got = format!("{}\n{clients}", threads(self.host.pid()));
                self.scene.lose("all replies come when no fault is there", got);
            }
            return None;
        }
        if self.scene.settings.logs()
            && let Err(reason) = self.ask(&argv!["WAITAOF", "1", "0", "5000"])
        {
            self.scene.lose("the log reaches the disk", reason);
            return None;
        }
        self.ask(&argv!["DEBUG", "DIGEST"]).ok().map(|digest| digest.text())
    }

    /// Takes back what was acknowledged, if that is planted.
    fn plant_at_rest(&mut self) {
        let command = match self.options.plant {
            Some(Plant::LostWrite) => argv!["DECRBY", "counter:0", "1"],
            Some(Plant::LostHalf) => argv!["DECRBY", "account:0", "1"],
            _ => return,
        };
        let _ = self.ask(&command);
        let _ = self.ask(&argv!["WAITAOF", "1", "0", "5000"]);
    }

    /// Damages the log, if that is planted.
    fn plant_in_log(&mut self) {
        let Some((path, bytes)) = self.host.log_file() else { return };
        let damaged = match self.options.plant {
            Some(Plant::CutLog) => bytes[..bytes.len() / 2].to_vec(),
            Some(Plant::DamagedLog) => {
                // The begin of a command, not a part of a value: what is in values no format can know.
                let mut bytes = bytes;
                let begins: Vec<usize> = (2..bytes.len()).filter(|&at| bytes[at - 2..].starts_with(b"\r\n*")).collect();
                if let Some(&begin) = begins.get(begins.len() / 2) {
                    bytes[begin] ^= 0x55;
                }
                bytes
            }
            _ => return,
        };
        fs::write(path, damaged).expect("a file of one's own");
    }
}

/// SIGKILL under load.
fn kill(round: &mut Round<'_>) -> bool {
    let kept = round.kept_at_kill();
    round.leave();
    round.host.kill();
    round.plant_in_log();
    round.start(kept, None)
}

/// SIGKILL when the log has all.
fn kill_at_rest(round: &mut Round<'_>) -> bool {
    let Some(digest) = round.digest_at_rest() else { return false };
    round.plant_at_rest();
    let has_plant = round.options.plant.is_some();
    round.leave();
    round.host.kill();
    round.plant_in_log();
    let logs = round.scene.settings.logs();
    round.start(if logs { Kept::All } else { Kept::Nothing }, (logs && !has_plant).then_some(digest))
}

/// SIGTERM under load: what it ends with 0 keeps all that was acknowledged.
fn term(round: &mut Round<'_>) -> bool {
    let kept = round.kept_at_kill();
    match ended_by_term(round) {
        Some(true) if round.scene.settings.keeps() => round.start(Kept::All, None),
        Some(_) => round.start(kept, None),
        None => false,
    }
}

/// SIGTERM when nobody writes: the next start has the same data.
fn term_at_rest(round: &mut Round<'_>) -> bool {
    let Some(digest) = round.digest_at_rest() else { return false };
    match ended_by_term(round) {
        Some(true) if round.scene.settings.keeps() => round.start(Kept::All, Some(digest)),
        Some(true) => round.start(Kept::Nothing, None),
        Some(false) => {
            round.scene.fail("SIGTERM on a disk that works ends with 0", round.host.log_tail());
            round.start(Kept::Nothing, None)
        }
        None => false,
    }
}

/// Whether the process ended with 0 after SIGTERM; `None`: it did not end.
fn ended_by_term(round: &mut Round<'_>) -> Option<bool> {
    if round.options.plant == Some(Plant::Stopped) {
        round.host.signal("STOP");
    }
    let load = round.scene.load();
    round.leave();
    round.host.signal("TERM");
    let time = round.scene.bounds.end_max;
    let mut status = round.host.wait_exit(time);
    if status.is_none() {
        let more = round.scene.stretched(time, load).saturating_sub(time);
        status = round.host.wait_exit(more);
    }
    let Some(status) = status else {
        let got = format!("{}\n{}", threads(round.host.pid()), round.host.log_tail());
        round.scene.lose("SIGTERM ends the server", got);
        return None;
    };
    if status.code().is_none() {
        round.scene.fail("the server lives", format!("SIGTERM: {status}\n{}", round.host.log_tail()));
    }
    Some(status.success())
}

/// SHUTDOWN NOSAVE under load.
fn nosave(round: &mut Round<'_>) -> bool {
    let kept = round.kept_at_kill();
    round.leave();
    // The reply is the end of the connection.
    let _ = round.ask(&argv!["SHUTDOWN", "NOSAVE"]);
    if round.host.wait_exit(round.scene.bounds.end_max).is_none() {
        round.scene.lose("SHUTDOWN NOSAVE ends the server", threads(round.host.pid()));
        return false;
    }
    round.start(kept, None)
}

/// SIGTERM while the disk is full. The server says by its status whether it has kept what it acknowledged.
fn term_on_full_disk(round: &mut Round<'_>) -> bool {
    round.host.disk.set(Word::Room, 30_000);
    if !round.pass(std::time::Duration::from_millis(1300)) {
        return false;
    }
    let writes_to_log = round.scene.settings.logs();
    match ended_by_term_or_refused(round) {
        Some(true) if round.scene.settings.keeps() => round.start(Kept::All, None),
        Some(_) if round.scene.settings.log == Some(Fsync::Always) => round.start(Kept::All, None),
        Some(_) => round.start(Kept::Nothing, None),
        None if writes_to_log => false,
        // It goes on, since its snapshot would be lost, and ends when there is room.
        None => {
            round.host.disk.heal();
            term(round)
        }
    }
}

/// As [`ended_by_term`], but a server that cannot save may go on, if it answers.
fn ended_by_term_or_refused(round: &mut Round<'_>) -> Option<bool> {
    let refuses = round.scene.settings.saves;
    if !refuses {
        return ended_by_term(round);
    }
    round.leave();
    round.host.signal("TERM");
    match round.host.wait_exit(round.scene.bounds.end_max / 2) {
        Some(status) => Some(status.success()),
        None => {
            if let Err(reason) = round.ask(&argv!["INFO", "server"]) {
                let got = format!("{reason}\n{}", threads(round.host.pid()));
                round.scene.lose("a server that cannot save at SIGTERM answers", got);
            }
            // The second one ends it at once.
            round.host.kill();
            Some(false)
        }
    }
}

/// SIGKILL while the disk is full.
fn kill_on_full_disk(round: &mut Round<'_>) -> bool {
    round.host.disk.set(Word::Room, 30_000);
    if !round.pass(std::time::Duration::from_millis(700)) {
        return false;
    }
    round.leave();
    round.host.kill();
    let always = round.scene.settings.log == Some(Fsync::Always);
    round.start(if always { Kept::All } else { Kept::Nothing }, None)
}

/// A command in the log that the server does not know: it does not start without that command.
fn foreign_log(round: &mut Round<'_>) -> bool {
    if !round.scene.settings.logs() {
        return kill(round);
    }
    if round.digest_at_rest().is_none() {
        return false;
    }
    round.leave();
    round.host.kill();
    let Some((path, bytes)) = round.host.log_file() else { return round.start(Kept::All, None) };
    let foreign = b"*3\r\n$6\r\nNOSUCH\r\n$1\r\nk\r\n$1\r\nv\r\n";
    fs::write(&path, [&bytes[..], foreign].concat()).expect("a file of one's own");
    if round.host.start(&round.scene.settings).is_ok() {
        let got = format!("it started\n{}", round.host.log_tail());
        round.scene.fail("a server does not start from a log with a command it does not know", got);
    }
    round.host.kill();
    fs::write(path, bytes).expect("a file of one's own");
    round.start(Kept::All, None)
}
