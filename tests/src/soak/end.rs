//! The end of a soak: the state against what the append-only file holds, and the log.

use std::path::Path;
use std::time::Duration;

use crate::argv;
use crate::argv::Argv;
use crate::client::Conn;
use crate::resp::Value;
use crate::server::{Launch, Server, TempDir, wait_until};

/// Nothing may expire between two looks at the same data: all keys and fields become ones that stay.
const PERSIST: &str = "for _, key in ipairs(ARGV) do redis.call('PERSIST', key) \
                       if redis.call('TYPE', key).ok == 'hash' then for _, field in ipairs(redis.call('HKEYS', key)) do \
                       redis.call('HPERSIST', key, 'FIELDS', 1, field) end end end";

/// Compares the server with one that has loaded a copy of its append-only file; says on how much.
///
/// # Errors
/// What differs.
pub fn compare(server: &Server) -> Result<String, String> {
    let mut conn = server.connect();
    conn.set_timeout(Duration::from_secs(120));
    // With the limit of memory, setting a time to live could evict something.
    conn.run("CONFIG SET maxmemory 0");
    let busy = |conn: &mut Conn, name: &str| conn.info_number(name) != Some(0);
    while busy(&mut conn, "aof_rewrite_in_progress") || busy(&mut conn, "rdb_bgsave_in_progress") {
        std::thread::sleep(Duration::from_millis(200));
    }
    persist(&mut conn)?;
    // Connections that have vanished are served to their end.
    std::thread::sleep(Duration::from_secs(3));
    let (ours, keys) = (state(&mut conn), conn.run("INFO keyspace").text());
    let copy = TempDir::new();
    copy_folder(&server.dir().join("appendonlydir"), &copy.0.join("appendonlydir"));
    let folder = copy.0.display().to_string();
    let args = ["--appendonly", "yes", "--enable-debug-command", "local", "--dir", &folder];
    let replayed = Launch::onrush().args(&args).start();
    let mut other = replayed.connect();
    other.set_timeout(Duration::from_secs(120));
    wait_until("the copy is loaded", || !other.run("DBSIZE").is_error());
    let theirs = state(&mut other);
    if ours != theirs {
        return Err(format!("the state is {ours}, and the append-only file makes {theirs}"));
    }
    Ok(format!("digest {ours} on both sides; {}", keys.trim().replace("\r\n", ", ")))
}

fn persist(conn: &mut Conn) -> Result<(), String> {
    for database in 0..16 {
        conn.run(&format!("SELECT {database}"));
        let mut cursor = "0".to_owned();
        loop {
            let reply = conn.call(&argv!["SCAN", cursor.clone(), "COUNT", "1000"]);
            let [next, keys] = reply.items().unwrap_or_default() else { return Err(format!("SCAN says {reply}")) };
            let mut command = argv!["EVAL", PERSIST, "0"];
            command.0.extend(keys.items().unwrap_or_default().iter().filter_map(|key| Some(key.bytes()?.to_vec())));
            let done = conn.call(&command);
            if done.is_error() {
                return Err(format!("keys cannot be made to stay: {done}"));
            }
            cursor = next.text();
            if cursor == "0" {
                break;
            }
        }
    }
    conn.run("SELECT 0");
    Ok(())
}

/// The digest of all databases.
fn state(conn: &mut Conn) -> Value {
    conn.call(&Argv::new(&["DEBUG", "DIGEST"]))
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("the append-only file").flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// Lines of the log that warn, but for those about what clients did.
pub fn warnings(log: &str) -> Vec<String> {
    let is_warning = |line: &&str| line.split(' ').any(|word| word == "#");
    log.lines().filter(is_warning).map(str::to_owned).collect()
}
