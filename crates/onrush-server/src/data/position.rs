//! Where in its history the data is that was loaded.
//!
//! An RDB file says it by itself (`repl-id`, `repl-offset`, `repl-stream-db`), an append-only file in notes between its
//! commands ([`onrush_persist::aof::Note`]).

use std::path::Path;

use onrush_engine::loading::SavedPosition;
use onrush_engine::replication::history::Position;
use onrush_persist::aof::{AofError, Chunk, CommandReader, LoadedStreams, Manifest, truncate};
use onrush_persist::storage::{Disk, Storage};

use crate::process::server::Server;

/// Where the data of loaded files is.
pub fn of_log(streams: &LoadedStreams) -> Option<SavedPosition> {
    let place = streams.place()?;
    Some(SavedPosition { position: Position { id: place.id.clone(), offset: place.offset }, db: place.db })
}

/// Cuts off what a replica has executed behind the last place that its log knows: its primary sends that again.
///
/// # Errors
/// The system's.
pub fn cut_behind(dir: &Path, manifest: &Manifest) -> Result<(), AofError> {
    let Some(last) = manifest.incrs.last() else { return Ok(()) };
    let path = dir.join(&last.name);
    let failed = |error| AofError::Io { file: path.display().to_string(), error };
    let input = Disk.read(&path).map_err(failed)?;
    let mut commands = CommandReader::new(input, Vec::new(), 0, last.name.clone(), true);
    let mut chunk = Chunk::default();
    // What is wrong with the file is told when it is loaded.
    while commands.next_chunk(&mut chunk).unwrap_or(false) {}
    let len = Disk.len(&path).map_err(failed)?;
    match commands.data_end() {
        Some(end) if len.is_some_and(|len| end < len) => {
            tracing::info!("{} is cut after byte {end}: the primary sends again what comes behind it", path.display());
            truncate(&Disk, &path, end)
        }
        _ => Ok(()),
    }
}

/// The loaded data is at this place: a replica goes on there, and replicas of a primary may have been there.
///
/// # Errors
/// The system has no thread to give.
pub fn restore(server: &'static Server, saved: SavedPosition) -> std::io::Result<()> {
    let alone = server.gate.exclusive(server.gate.take_turn());
    let replication = &server.replication;
    replication.take_over(saved.position);
    if replication.role.is_replica() {
        replication.history.keep(true);
        replication.history.set_db(Some(saved.db));
        replication.note_position(server.engine());
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
    use onrush_persist::aof::{ManifestFile, Note};

    #[test]
    fn a_replicas_log_is_cut_behind_the_last_place() {
        let dir = std::env::temp_dir().join(format!("onrush-position-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = ManifestFile { name: "log.1.incr.aof".to_owned(), seq: 1 };
        let path = dir.join(&file.name);
        let manifest = Manifest { incrs: vec![file], ..Manifest::default() };
        let set = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";
        let place = |offset| Note::Place { id: "a".repeat(40), offset, db: 0 }.line();
        let stream = Note::Stream { id: "b".repeat(40), offset: 9 }.line();
        let known = [set, &place(1), set, &place(2)].concat();
        for (behind, is_cut) in [("", false), (set, true), (&set[..9], true), (&[set, &stream, set].concat(), false)] {
            std::fs::write(&path, [&known, behind].concat()).unwrap();
            cut_behind(&dir, &manifest).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, if is_cut { known.clone() } else { [&known, behind].concat() }, "{behind}");
        }
        std::fs::write(&path, set).unwrap();
        cut_behind(&dir, &manifest).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), set);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
