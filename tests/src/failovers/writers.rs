//! Clients that write to whatever is the primary, and know what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::group::{Group, Places};
use super::node::{Place, wait};
use crate::argv;
use crate::argv::Argv;
use crate::client::Conn;
use crate::resp::Value;

const WRITERS: usize = 3;

/// The number of the writer that stays with a primary that is cut off.
const STRANDED: usize = WRITERS;

/// Commands in a batch, and the time between batches: the load is bounded.
const BATCH_LEN: u64 = 10;
const REST: Duration = Duration::from_millis(8);

/// More keys than a stranded writer writes.
const STRANDED_KEYS: u64 = 1 << 32;

/// How long a reply may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a writer waits before it looks for the primary again.
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// What one writer knows.
#[derive(Default)]
struct Known {
    /// The numbers of keys whose SET was acknowledged.
    acknowledged: Vec<u64>,
    /// Writes without a reply, or with an error.
    unknown: u64,
}

struct Shared {
    rests: AtomicBool,
    ends: AtomicBool,
    /// The longest time without an acknowledgement of any writer, and when the last one was.
    pause: Mutex<(Duration, Option<Instant>)>,
    places: Places,
    replicas: u32,
}

/// See the module's text.
pub struct Writers {
    shared: Arc<Shared>,
    known: Vec<Arc<Mutex<Known>>>,
    threads: Vec<JoinHandle<()>>,
    stranded_next: u64,
}

impl Writers {
    /// Starts them; they rest until [`Writers::go_on`].
    pub fn start(group: &Group, replicas: u32) -> Self {
        let shared = Arc::new(Shared {
            rests: AtomicBool::new(true),
            ends: AtomicBool::new(false),
            pause: Mutex::default(),
            places: group.places(),
            replicas,
        });
        let known: Vec<Arc<Mutex<Known>>> = (0..=STRANDED).map(|_| Arc::default()).collect();
        let start = |(nth, known): (usize, &Arc<Mutex<Known>>)| {
            let (shared, known) = (Arc::clone(&shared), Arc::clone(known));
            std::thread::spawn(move || write(&shared, nth, &known))
        };
        let threads = known[..WRITERS].iter().enumerate().map(start).collect();
        Self { shared, known, threads, stranded_next: 0 }
    }

    /// They write.
    pub fn go_on(&self) {
        self.shared.rests.store(false, Relaxed);
    }

    /// They stop to write; returns when the last reply has come or is given up.
    ///
    /// # Errors
    /// One hangs.
    pub fn rest(&self, at_most: Duration) -> Result<(), String> {
        self.shared.rests.store(true, Relaxed);
        // A writer holds what it knows during a batch.
        wait("a writer rests", at_most, || {
            let hanging = self.known.iter().filter(|known| known.try_lock().is_none()).count();
            if hanging == 0 { Ok(()) } else { Err(format!("{hanging} write")) }
        })?;
        std::thread::sleep(2 * REST);
        Ok(())
    }

    /// Waits for an acknowledgement after `since`.
    ///
    /// # Errors
    /// None comes.
    pub fn wait_for_ack(&self, since: Instant, at_most: Duration) -> Result<(), String> {
        wait("a write is acknowledged", at_most, || {
            let last = self.shared.pause.lock().1;
            if last.is_some_and(|last| last > since) { Ok(()) } else { Err(format!("the last at {last:?}")) }
        })
    }

    /// Begins to write to one server whatever becomes of it, over what no network cuts. [`Writers::rest`] ends that.
    ///
    /// # Errors
    /// The server does not take writes.
    pub fn strand(&mut self, place: &Place) -> Result<(), String> {
        let mut conn = prepare(&self.shared, place.connect_beside()?).ok_or("the primary takes no writes")?;
        let (shared, known) = (Arc::clone(&self.shared), Arc::clone(&self.known[STRANDED]));
        // Every key is written once in all rounds.
        let mut next = self.stranded_next;
        self.stranded_next += STRANDED_KEYS;
        self.threads.push(std::thread::spawn(move || {
            while !shared.ends.load(Relaxed) && !shared.rests.load(Relaxed) {
                std::thread::sleep(REST);
                let numbers = next..next + BATCH_LEN;
                next = numbers.end;
                if !batch(&shared, &mut conn, STRANDED, numbers, &mut known.lock()) {
                    break;
                }
            }
        }));
        Ok(())
    }

    /// The pause is measured from here on.
    pub fn forget_pause(&self) {
        self.shared.pause.lock().0 = Duration::ZERO;
    }

    /// The longest time without an acknowledgement.
    pub fn longest_pause(&self) -> Duration {
        self.shared.pause.lock().0
    }

    /// Acknowledged writes, and those of which nobody knows.
    pub fn counts(&self) -> (u64, u64) {
        let known: Vec<_> = self.known.iter().map(|known| known.lock()).collect();
        let acknowledged = known.iter().map(|known| known.acknowledged.len() as u64).sum();
        (acknowledged, known.iter().map(|known| known.unknown).sum())
    }

    /// The keys of acknowledged writes that the primary does not have.
    ///
    /// # Errors
    /// It does not answer.
    pub fn lost(&self, group: &Group) -> Result<Vec<String>, String> {
        let mut conn = group.connect()?;
        let mut lost = Vec::new();
        for (nth, known) in self.known.iter().enumerate() {
            for numbers in known.lock().acknowledged.chunks(1000) {
                let gets: Vec<Argv> = numbers.iter().map(|number| argv!["GET", key(nth, *number)]).collect();
                let replies = conn.try_pipeline(&gets)?;
                for (number, raw) in numbers.iter().zip(replies) {
                    if Value::parse(&raw)?.text() != number.to_string() {
                        lost.push(key(nth, *number));
                    }
                }
            }
        }
        Ok(lost)
    }

    /// Forgets all writes, and empties the servers.
    ///
    /// # Errors
    /// The primary does not answer.
    pub fn begin_anew(&self, group: &Group) -> Result<(), String> {
        group.connect()?.try_call(&argv!["FLUSHALL"]).map_err(|error| error.to_string())?;
        for known in &self.known {
            let mut known = known.lock();
            known.acknowledged.clear();
            known.unknown = 0;
        }
        self.shared.pause.lock().1 = None;
        Ok(())
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.shared.ends.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // It has panicked, which is told already.
            let _ = thread.join();
        }
    }
}

fn key(writer: usize, number: u64) -> String {
    format!("w:{writer}:{number}")
}

/// Writes batch after batch, to whatever is the primary.
fn write(shared: &Shared, nth: usize, known: &Mutex<Known>) {
    let (mut conn, mut next) = (None, 0);
    while !shared.ends.load(Relaxed) {
        std::thread::sleep(REST);
        if shared.rests.load(Relaxed) {
            continue;
        }
        let mut known = known.lock();
        let Some(open) = conn.as_mut() else {
            drop(known);
            conn = connect(shared);
            if conn.is_none() {
                std::thread::sleep(RETRY_AFTER);
            }
            continue;
        };
        let numbers = next..next + BATCH_LEN;
        next = numbers.end;
        if !batch(shared, open, nth, numbers, &mut known) {
            conn = None;
        }
    }
}

/// Writes a batch; returns `false` if the connection is of no use any more.
fn batch(shared: &Shared, conn: &mut Conn, nth: usize, numbers: std::ops::Range<u64>, known: &mut Known) -> bool {
    let mut bytes = Vec::new();
    numbers.clone().for_each(|number| argv!["SET", key(nth, number), number.to_string()].encode(&mut bytes));
    if conn.send(&bytes).is_err() {
        known.unknown += BATCH_LEN;
        return false;
    }
    for number in numbers.clone() {
        match conn.read_reply() {
            Ok(reply) if reply == b"+OK\r\n" => {
                known.acknowledged.push(number);
                if nth == STRANDED {
                    continue;
                }
                let now = Instant::now();
                let mut pause = shared.pause.lock();
                if let Some(last) = pause.1.replace(now) {
                    pause.0 = pause.0.max(now.saturating_duration_since(last));
                }
            }
            Ok(_) | Err(_) => {
                known.unknown += numbers.end - number;
                return false;
            }
        }
    }
    true
}

/// A connection to the primary, as the Sentinels tell it, that is one by its own word.
fn connect(shared: &Shared) -> Option<Conn> {
    let conn = shared.places.primary()?.connect().ok()?;
    prepare(shared, conn)
}

/// Makes a connection fit for writing, if its server is a primary by its own word.
fn prepare(shared: &Shared, mut conn: Conn) -> Option<Conn> {
    conn.set_timeout(REPLY_TIMEOUT);
    let role = Value::parse(&conn.try_call(&argv!["ROLE"]).ok()?).ok()?;
    if role.items()?.first()?.text() != "master" {
        return None;
    }
    if shared.replicas > 0 {
        let count = shared.replicas.to_string();
        let reply = conn.try_call(&argv!["CLIENT", "DURABILITY", "DEFAULT", "REPLICAS", count.as_str()]).ok()?;
        if reply != b"+OK\r\n" {
            return None;
        }
    }
    Some(conn)
}
