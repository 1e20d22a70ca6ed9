//! The writer and the reader together, on a file system that fails.

mod backlog;
mod crash;
mod reading;
mod rewriting;
mod upgrade;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::scan::{Step, step};
use super::segment::Segment;
use super::*;
use crate::effects::Effects;
use crate::storage::faulty::Faulty;
use crate::storage::{Input, Storage, write_all};

const DIR: &str = "data/appendonlydir";
const NAME: &str = "appendonly.aof";

/// A command with its database.
type Command = (u32, Vec<u8>);

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// The commands of record `lsn`: none, one or several, in one database or in several.
fn commands(lsn: u64) -> Vec<(u32, [String; 3])> {
    let count = [1, 1, 3, 1, 2, 0, 1][(lsn % 7) as usize];
    let db = |index: u64| if lsn % 7 == 4 { index as u32 } else { (lsn / 5 % 3) as u32 };
    let value = |index: u64| "v".repeat((lsn * 31 + index) as usize % 100);
    (0..count).map(|index| (db(index), ["SET".into(), format!("key:{lsn}:{index}"), value(index)])).collect()
}

fn effects(lsn: u64) -> Effects {
    let mut effects = Effects::default();
    for (db, args) in commands(lsn) {
        effects.command(db, args.iter().map(|arg| arg.as_bytes()));
    }
    effects.close(lsn);
    effects
}

/// The commands of records 1 to `lsn`.
fn expected(lsn: u64) -> Vec<Command> {
    let effects = (1..=lsn).map(effects);
    effects
        .flat_map(|effects| effects.record(0).commands().map(|(db, bytes)| (db, bytes.to_vec())).collect::<Vec<_>>())
        .collect()
}

fn hand_over(aof: &Aof, lsn: u64) {
    aof.inner.record(effects(lsn).record(0));
}

/// Options, and a cell that holds the last LSN reported as durable.
fn options(policy: FsyncPolicy) -> (AofOptions, Arc<AtomicU64>) {
    let told = Arc::new(AtomicU64::new(0));
    let last = Arc::clone(&told);
    let on_durable = move |lsn| assert!(last.swap(lsn, Ordering::Relaxed) < lsn, "told twice or out of order");
    let mut options = AofOptions::new(DIR, NAME);
    options.policy = policy;
    options.retry_every = Duration::ZERO;
    options.on_durable = Box::new(on_durable);
    (options, told)
}

/// A base of commands with the state at `lsn`, as the caller saves it.
fn save_base(storage: &dyn Storage, lsn: u64) -> std::io::Result<PathBuf> {
    let path = PathBuf::from("data/temp-base");
    let file = storage.create(&path)?;
    let mut segment = Segment::new(0, Arc::clone(&file), 0, 0);
    for lsn in 1..=lsn {
        segment.record(effects(lsn).record(0), None);
    }
    write_all(&*file, &segment.buffer)?;
    file.sync()?;
    Ok(path)
}

/// The commands in bytes of whole commands, without MULTI, EXEC and SELECT.
fn parse(mut bytes: &[u8], db: &mut u32, out: &mut Vec<Command>) {
    while !bytes.is_empty() {
        let Ok(Step::Command { len, .. }) = step(bytes) else { panic!("no command: {}", bytes.escape_ascii()) };
        let command = &bytes[..len];
        bytes = &bytes[len..];
        let words: Vec<&[u8]> = command.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end()).collect();
        match words[2] {
            b"SELECT" => *db = std::str::from_utf8(words[4]).unwrap().parse().unwrap(),
            b"MULTI" | b"EXEC" => {}
            _ => out.push((*db, command.to_vec())),
        }
    }
}

/// The commands in the files. Cuts the last file if it ends in the middle of a command.
fn recover(system: &Faulty) -> Result<Vec<Command>, AofError> {
    let Some(manifest) = Manifest::load(system, Path::new(DIR), NAME)? else { return Ok(Vec::new()) };
    let mut reader = Reader::new(Arc::new(system.clone()), Path::new(DIR), &manifest)?;
    let mut out = Vec::new();
    while let Some(file) = reader.next_file()? {
        let Content::Commands(mut commands) = file.content else { panic!("no base of ours") };
        let (mut chunk, mut db) = (Chunk::default(), 0);
        loop {
            match commands.next_chunk(&mut chunk) {
                Ok(true) => parse(chunk.bytes(), &mut db, &mut out),
                Ok(false) => break,
                Err(AofError::Truncated { valid_len, .. }) => {
                    truncate(system, &file.path, valid_len)?;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(out)
}

/// How many records the commands make up. Checks that they are the first records, all whole.
fn records(found: &[Command], handed: u64) -> u64 {
    let mut left = found;
    for lsn in 1..=handed {
        let effects = effects(lsn);
        let record = effects.record(0);
        if left.is_empty() && record.commands().len() > 0 {
            return lsn - 1;
        }
        for (db, bytes) in record.commands() {
            let Some(((found_db, found), rest)) = left.split_first() else { panic!("record {lsn} is not whole") };
            assert!((*found_db, &found[..]) == (db, bytes), "record {lsn} is another one");
            left = rest;
        }
    }
    assert!(left.is_empty(), "more than there was");
    handed
}

fn input(bytes: &Arc<[u8]>) -> Input {
    Box::new(std::io::Cursor::new(Arc::clone(bytes)))
}
