//! The manifest: which files make up the log, in order. A text file of Redis 7's form.
//!
//! A line for each file: `file NAME seq N type T`. T is `b` for the base, the state at one moment; `i` for the commands
//! since then, in the order of the lines; `h` for history, which is to be deleted. NAME is in quotes if it has spaces
//! or similar characters. Lines that begin with `#` are comments. Pairs with other names are ignored.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use onrush_resp::{quoted_if_needed, split_words};

use super::AofError;
use crate::storage::{Storage, parent, write_all};

/// Longest line, in bytes: twice as long as a line whose name consists of escapes only.
const LINE_LEN_MAX: usize = 2048;

/// Longest file name, in bytes, of the supported file systems.
const NAME_LEN_MAX: usize = 255;

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Its name in the folder.
    pub name: String,
    /// Its number; each new file of its kind has a greater one.
    pub seq: u64,
}

/// The files of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The state on which the commands build; without it they begin with no data.
    pub base: Option<ManifestFile>,
    /// Files of commands, in order.
    pub incrs: Vec<ManifestFile>,
    /// Files that no longer belong to the log and must be deleted.
    pub history: Vec<ManifestFile>,
}

/// The name of a base file.
pub fn base_name(appendfilename: &str, seq: u64, is_rdb: bool) -> String {
    format!("{appendfilename}.{seq}.base.{}", if is_rdb { "rdb" } else { "aof" })
}

/// The name of a file of commands.
pub fn incr_name(appendfilename: &str, seq: u64) -> String {
    format!("{appendfilename}.{seq}.incr.aof")
}

/// The name of the manifest.
pub fn manifest_name(appendfilename: &str) -> String {
    format!("{appendfilename}.manifest")
}

impl Manifest {
    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// [`AofError::Manifest`] with the line and the reason.
    pub fn parse(text: &[u8]) -> Result<Manifest, AofError> {
        let mut manifest = Manifest::default();
        let mut names = BTreeSet::new();
        let lines = text.split(|byte| *byte == b'\n').enumerate();
        let mut is_empty = true;
        for (index, line) in lines {
            let refuse = |reason: String| AofError::Manifest { line: index + 1, reason };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() > LINE_LEN_MAX {
                return Err(refuse(format!("it is longer than {LINE_LEN_MAX} bytes")));
            }
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            is_empty = false;
            let (file, kind) = parse_line(line).map_err(refuse)?;
            if !names.insert(file.name.clone()) {
                return Err(refuse(format!("{} comes twice", file.name)));
            }
            match kind {
                b'b' if manifest.base.is_some() => return Err(refuse("there is a second base file".into())),
                b'b' => manifest.base = Some(file),
                b'h' => manifest.history.push(file),
                _ if manifest.incrs.last().is_some_and(|last| last.seq >= file.seq) => {
                    return Err(refuse(format!("number {} does not follow the one before", file.seq)));
                }
                _ => manifest.incrs.push(file),
            }
        }
        if is_empty {
            return Err(AofError::Manifest { line: 1, reason: "it is empty".into() });
        }
        Ok(manifest)
    }

    /// The text of the manifest.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let files = self.base.iter().map(|file| (file, 'b'));
        let files = files.chain(self.history.iter().map(|file| (file, 'h')));
        for (file, kind) in files.chain(self.incrs.iter().map(|file| (file, 'i'))) {
            text.push_str("file ");
            text.push_str(&quoted_if_needed(file.name.as_bytes()));
            let _ = writeln!(text, " seq {} type {kind}", file.seq);
        }
        text
    }

    /// Reads the manifest of a log; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not valid.
    pub fn load(storage: &dyn Storage, dir: &Path, appendfilename: &str) -> Result<Option<Manifest>, AofError> {
        Self::load_path(storage, &dir.join(manifest_name(appendfilename)))
    }

    /// As [`Manifest::load`], by the path of the manifest.
    ///
    /// # Errors
    /// It cannot be read, or is not valid.
    pub fn load_path(storage: &dyn Storage, path: &Path) -> Result<Option<Manifest>, AofError> {
        let failed = |error| AofError::io(path.display())(error);
        if storage.len(path).map_err(failed)?.is_none() {
            return Ok(None);
        }
        let mut text = Vec::new();
        storage.read(path).map_err(failed)?.read_to_end(&mut text).map_err(failed)?;
        Manifest::parse(&text).map(Some)
    }

    /// As [`Manifest::load`]. If there is no manifest, a log of one file in `old_dir`, as Redis before version 7 writes
    /// it, is moved into `dir` and becomes the base. An interrupted move is completed.
    ///
    /// # Errors
    /// An existing file cannot be read or moved.
    pub fn load_or_upgrade(
        storage: &dyn Storage,
        old_dir: &Path,
        dir: &Path,
        appendfilename: &str,
    ) -> Result<Option<Manifest>, AofError> {
        let (old, new) = (old_dir.join(appendfilename), dir.join(appendfilename));
        let io = |path: &Path| AofError::io(path.display().to_string());
        let loaded = Self::load(storage, dir, appendfilename)?;
        let has_old = storage.len(&old).map_err(io(&old))?.is_some();
        let manifest = match loaded {
            Some(manifest) => {
                let is_old_style = manifest.base.as_ref().is_some_and(|base| base.name == appendfilename);
                let is_moved = !is_old_style || storage.len(&new).map_err(io(&new))?.is_some();
                if is_moved || !has_old {
                    return Ok(Some(manifest));
                }
                manifest
            }
            None if !has_old => {
                refuse_without_manifest(storage, dir, appendfilename)?;
                return Ok(None);
            }
            None => {
                let base = ManifestFile { name: appendfilename.into(), seq: 1 };
                let manifest = Manifest { base: Some(base), ..Manifest::default() };
                make_dir(storage, dir)?;
                manifest.store(storage, dir, appendfilename)?;
                manifest
            }
        };
        storage.rename(&old, &new).map_err(io(&old))?;
        storage.sync_dir(dir).map_err(io(dir))?;
        storage.sync_dir(old_dir).map_err(io(old_dir))?;
        Ok(Some(manifest))
    }

    /// Replaces the manifest on disk: after a crash at any moment, one of the two is there.
    ///
    /// # Errors
    /// The system's. Then either of the two may be there; which one survives a loss of power is not known.
    pub fn store(&self, storage: &dyn Storage, dir: &Path, appendfilename: &str) -> Result<(), AofError> {
        let path = dir.join(manifest_name(appendfilename));
        let temp = dir.join(format!("temp-{}", manifest_name(appendfilename)));
        let store = || {
            let file = storage.create(&temp)?;
            write_all(&*file, self.text().as_bytes())?;
            file.sync()?;
            storage.rename(&temp, &path)?;
            storage.sync_dir(dir)
        };
        store().map_err(AofError::io(path.display()))
    }

    /// All files that must exist, in the order in which they are read.
    pub fn files(&self) -> impl Iterator<Item = &ManifestFile> {
        self.base.iter().chain(&self.incrs)
    }

    /// The greatest number of a base, and of a file of commands.
    pub(super) fn last_seqs(&self) -> (u64, u64) {
        let greatest = |files: &[ManifestFile]| files.iter().map(|file| file.seq).max().unwrap_or(0);
        let history = greatest(&self.history);
        (self.base.as_ref().map_or(0, |base| base.seq).max(history), greatest(&self.incrs).max(history))
    }
}

/// Makes the folder of a log durably.
pub(super) fn make_dir(storage: &dyn Storage, dir: &Path) -> Result<(), AofError> {
    let made = storage.create_dir(dir).and_then(|()| storage.sync_dir(parent(dir)));
    made.map_err(AofError::io(dir.display()))
}

/// Whether a name is that of a file in a folder, and not a path.
pub fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']) && name.len() <= NAME_LEN_MAX
}

fn parse_line(line: &[u8]) -> Result<(ManifestFile, u8), String> {
    if line.contains(&0) {
        return Err("there is a NUL in it".into());
    }
    let words = split_words(line).ok_or("its quotes do not match")?;
    if words.len() < 6 || words.len() % 2 != 0 {
        return Err("it is not of the form: file NAME seq N type b|h|i".into());
    }
    let (mut name, mut seq, mut kind) = (None, None, None);
    for pair in words.chunks_exact(2) {
        let (key, value) = (pair[0].to_ascii_lowercase(), &pair[1]);
        let text = || String::from_utf8_lossy(value);
        match &key[..] {
            b"file" => {
                let text = String::from_utf8(value.clone()).map_err(|_| "the name of the file is no text")?;
                if !is_file_name(&text) {
                    return Err(format!("\"{text}\" is no name of a file in the folder"));
                }
                name = Some(text);
            }
            b"seq" => {
                let number = text().parse::<u64>().ok().filter(|number| *number > 0);
                seq = Some(number.ok_or_else(|| format!("\"{}\" is no number of a file", text()))?);
            }
            b"type" => match &value[..] {
                [letter @ (b'b' | b'h' | b'i')] => kind = Some(*letter),
                _ => return Err(format!("\"{}\" is no type of a file (b, h or i)", text())),
            },
            _ => {}
        }
    }
    let name = name.ok_or("it names no file")?;
    let seq = seq.ok_or("it has no seq")?;
    Ok((ManifestFile { name, seq }, kind.ok_or("it has no type")?))
}
/// A log has a manifest before it has files with a number above 1, as its files get their names with its first base: files
/// with such numbers and no manifest are a log that has lost it.
fn refuse_without_manifest(storage: &dyn Storage, dir: &Path, appendfilename: &str) -> Result<(), AofError> {
    let is_later = |name: &String| {
        let rest = name.strip_prefix(appendfilename).and_then(|rest| rest.strip_prefix('.'));
        let parts = rest.and_then(|rest| rest.split_once('.'));
        let number = parts.and_then(|(number, rest)| {
            let is_part = rest.starts_with("base.") || rest.starts_with("incr.");
            is_part.then(|| number.parse::<u64>().ok()).flatten()
        });
        number.is_some_and(|number| number > 1)
    };
    // The folder may not be there yet.
    let names = storage.list(dir).unwrap_or_default();
    match names.into_iter().find(is_later) {
        Some(found) => Err(AofError::NoManifest { file: manifest_name(appendfilename), found }),
        None => Ok(()),
    }
}
