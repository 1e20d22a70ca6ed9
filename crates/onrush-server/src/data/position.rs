//! Where in its history the data was when the process ended.
//!
//! An RDB file says it by itself (`repl-id`, `repl-offset`, `repl-stream-db`). Of an append-only file a comment in the
//! manifest says it, with the length of all its files: once anything else was written to them, it is not true any more.

use std::path::Path;

use onrush_engine::loading::SavedPosition;
use onrush_engine::replication::history::Position;
use onrush_persist::aof::{Manifest, manifest_name};
use onrush_persist::storage::{Disk, Storage};

use crate::config::replace_file;
use crate::process::server::Server;

/// How the comment begins.
const COMMENT: &str = "# replication ";

/// The position of the data, if it has one that a replica or its primary may know.
fn present(server: &Server) -> Option<SavedPosition> {
    let replication = &server.replication;
    let has_one = replication.history.is_kept() && !replication.role.is_executing();
    has_one
        .then(|| SavedPosition { position: replication.history.position(), db: replication.history.db().unwrap_or(0) })
}

/// Bytes of all files of a log; `None` if one is not there.
fn len_bytes(dir: &Path, manifest: &Manifest) -> Option<u64> {
    manifest.files().map(|file| Disk.len(&dir.join(&file.name)).ok().flatten()).sum()
}

/// Notes where the data is, in the manifest of a log that has ended. No thread is in the keyspace.
pub fn note(server: &Server, dir: &Path, name: &str) {
    let Some(SavedPosition { position, db }) = present(server) else { return };
    let path = dir.join(manifest_name(name));
    let Ok(Some(manifest)) = Manifest::load(&Disk, dir, name) else { return };
    let Some(len) = len_bytes(dir, &manifest) else { return };
    let Position { id, offset } = position;
    let text = format!("{}{COMMENT}{id} {offset} {db} {len}\n", manifest.text());
    if let Err(error) = replace_file(&path, text.as_bytes()) {
        tracing::warn!("Can't note the position of the data in {}: {error}", path.display());
    }
}

/// Where the data of a log is, if its manifest says so.
pub fn find(dir: &Path, name: &str) -> Option<SavedPosition> {
    let text = std::fs::read_to_string(dir.join(manifest_name(name))).ok()?;
    let manifest = Manifest::parse(text.as_bytes()).ok()?;
    let words: Vec<&str> = text.lines().find_map(|line| line.strip_prefix(COMMENT))?.split(' ').collect();
    let [id, offset, db, len] = words[..] else { return None };
    let position = Position { id: id.to_owned(), offset: offset.parse().ok()? };
    let is_true = id.len() == 40 && len.parse().ok() == len_bytes(dir, &manifest);
    is_true.then_some(SavedPosition { position, db: db.parse().ok()? })
}

/// The loaded data is at this place: a replica goes on there, and replicas of a primary may have been there.
///
/// # Errors
/// The system has no thread to give.
pub fn restore(server: &'static Server, saved: SavedPosition) -> std::io::Result<()> {
    let alone = server.gate.exclusive(server.gate.take_turn());
    let replication = &server.replication;
    replication.history.take_over(saved.position);
    if replication.role.is_replica() {
        replication.history.keep(true);
        replication.history.set_db(Some(saved.db));
    } else {
        replication.history.rename(server.new_replid());
        replication.begin_stream(server.engine())?;
    }
    drop(alone);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrush_persist::aof::ManifestFile;

    #[test]
    fn a_position_is_true_as_long_as_nothing_was_written_since() {
        let dir = std::env::temp_dir().join(format!("onrush-position-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let incr = dir.join("log.1.incr.aof");
        std::fs::write(&incr, b"12345").unwrap();
        let file = ManifestFile { name: "log.1.incr.aof".to_owned(), seq: 1 };
        let manifest = Manifest { incrs: vec![file], ..Manifest::default() };
        manifest.store(&Disk, &dir, "log").unwrap();
        assert_eq!(find(&dir, "log"), None);
        let id = "a".repeat(40);
        let write = |comment: &str| std::fs::write(dir.join("log.manifest"), manifest.text() + comment).unwrap();
        write(&format!("{COMMENT}{id} 77 3 5\n"));
        let saved = SavedPosition { position: Position { id: id.clone(), offset: 77 }, db: 3 };
        assert_eq!(find(&dir, "log"), Some(saved));
        for wrong in [format!("{id} 77 3 4"), format!("{id} 77 3"), "short 77 3 5".to_owned(), format!("{id} x 3 5")] {
            write(&format!("{COMMENT}{wrong}\n"));
            assert_eq!(find(&dir, "log"), None, "{wrong}");
        }
        write(&format!("{COMMENT}{id} 77 3 5\n"));
        std::fs::write(&incr, b"123456").unwrap();
        assert_eq!(find(&dir, "log"), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
