//! Checks append-only logs, and cuts them.

use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onrush_persist::aof::{
    AofError, Chunk, CommandReader, Content, LogFile, Manifest, Reader, manifest_name, truncate,
};
use onrush_persist::storage::{Disk, Storage};

use crate::args::Repair;
use crate::progress::Progress;
use crate::{rdb, say};

/// How a line of a manifest begins.
const MANIFEST_START: &[u8] = b"file ";

/// A file of commands.
struct Commands {
    path: PathBuf,
    name: String,
    len: u64,
    is_last: bool,
    reader: CommandReader,
}

/// Checks the log at `path`, a manifest or one file, and cuts it if `repair` says so.
///
/// # Errors
/// What is wrong, for the user.
pub fn check(path: &Path, repair: &Repair) -> Result<(), String> {
    let name = path.display().to_string();
    let len = Disk.len(path).map_err(|error| format!("{name}: {error}"))?;
    let len = len.ok_or_else(|| format!("{name}: there is no such file"))?;
    let was_cut = if is_manifest(path).map_err(|error| format!("{name}: {error}"))? {
        check_manifest(path, repair)?
    } else if len == 0 {
        say!("{name} is empty");
        return Ok(());
    } else {
        let file = LogFile::open(&Disk, path.to_path_buf(), len, true, true).map_err(|error| error.to_string())?;
        check_file(file, repair)?
    };
    if repair.until_s.is_some() && !was_cut {
        say!("{name}: there is nothing later than that");
    }
    say!("{name} is whole");
    Ok(())
}

fn is_manifest(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    Disk.read(path)?.take(MANIFEST_START.len() as u64).read_to_end(&mut start)?;
    let is_named_so = path.to_string_lossy().ends_with(&manifest_name(""));
    Ok(is_named_so || start.eq_ignore_ascii_case(MANIFEST_START))
}

/// Returns whether something was cut.
fn check_manifest(path: &Path, repair: &Repair) -> Result<bool, String> {
    let name = path.display().to_string();
    let manifest = Manifest::load_path(&Disk, path).map_err(|error| format!("{name}: {error}"))?;
    let manifest = manifest.unwrap_or_default();
    let dir = path.parent().unwrap_or(Path::new("."));
    say!("{name}: {} base, {} files of commands", usize::from(manifest.base.is_some()), manifest.incrs.len());
    let mut reader = Reader::new(Arc::new(Disk), dir, &manifest).map_err(|error| error.to_string())?;
    let mut was_cut = false;
    while let Some(file) = reader.next_file().map_err(|error| error.to_string())? {
        was_cut |= check_file(file, repair)?;
    }
    Ok(was_cut)
}

/// Returns whether something was cut.
fn check_file(file: LogFile, repair: &Repair) -> Result<bool, String> {
    let LogFile { name, path, len, is_last, content, .. } = file;
    let reader = match content {
        Content::Commands(reader) => reader,
        Content::Rdb(mut rdb) => {
            rdb::check_reader(&mut rdb, &name, len)?;
            if rdb.offset() == len {
                return Ok(false);
            }
            LogFile::behind(name.clone(), is_last, rdb)
        }
    };
    Commands { path, name, len, is_last, reader }.check(repair)
}

impl Commands {
    fn check(mut self, repair: &Repair) -> Result<bool, String> {
        let (mut chunk, mut commands) = (Chunk::default(), 0);
        let mut progress = Progress::new(&self.name, self.len);
        loop {
            match self.reader.next_chunk(&mut chunk) {
                Ok(true) => commands += chunk.commands(),
                Ok(false) => break,
                Err(error) => return self.repair(&error, repair),
            }
            let late = chunk.annotations().iter().find(|note| repair.until_s.is_some_and(|until| note.unix_s > until));
            if let Some(late) = late {
                if late.at == 0 {
                    return Err(format!("{} has nothing before that time", self.name));
                }
                self.cut(late.at, repair)?;
                return Ok(true);
            }
            progress.at(self.reader.offset());
        }
        say!("{}: {commands} commands in {} bytes", self.name, self.len);
        Ok(false)
    }

    fn repair(&self, error: &AofError, repair: &Repair) -> Result<bool, String> {
        let (AofError::Truncated { valid_len, .. } | AofError::Corrupt { valid_len, .. }) = error else {
            return Err(error.to_string());
        };
        let lost = self.len.saturating_sub(*valid_len);
        if !repair.fix {
            return Err(format!(
                "{error}\n{} is whole up to byte {valid_len}; --fix cuts off the {lost} bytes behind it",
                self.name
            ));
        }
        say!("{error}");
        self.cut(*valid_len, repair)?;
        Ok(true)
    }

    /// Cuts the file, if the rest is a beginning of the log and the user agrees.
    fn cut(&self, len: u64, repair: &Repair) -> Result<(), String> {
        let Commands { name, is_last, .. } = self;
        if !is_last {
            return Err(format!("{name} cannot be cut: other files of the log follow it"));
        }
        let lost = self.len.saturating_sub(len);
        // A user who names a time has already decided.
        let is_decided = repair.yes || repair.until_s.is_some();
        if !is_decided && !is_agreed(&format!("Cut {name} from {} bytes to {len}, {lost} less?", self.len)) {
            return Err("nothing has been changed".to_owned());
        }
        truncate(&Disk, &self.path, len).map_err(|error| error.to_string())?;
        say!("{name} has been cut from {} bytes to {len}", self.len);
        Ok(())
    }
}

/// Asks on standard output; only a yes is one.
fn is_agreed(question: &str) -> bool {
    let mut out = std::io::stdout();
    let asked = write!(out, "{question} [y/N]: ").and_then(|()| out.flush());
    let mut answer = String::new();
    asked.is_ok()
        && std::io::stdin().lock().read_line(&mut answer).is_ok()
        && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
