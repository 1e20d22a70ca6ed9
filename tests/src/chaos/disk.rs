//! A disk that fails: a library in front of the server's calls on files, compiled from `disk.c`, and the page of words
//! that steers it. It needs no rights and no file system of its own.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::TempDir;

/// A delay that lasts until it is changed, see [`Word::WriteDelayUs`].
pub const FOR_EVER_US: i64 = 1_000_000_000_000;

/// Words of the page, in the order of `disk.c`.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    /// Bytes that may still be written; below zero: no limit.
    Room,
    /// The errno of every write; 0: none.
    WriteErrno,
    /// The errno of every fsync and fdatasync.
    SyncErrno,
    /// The errno of making and renaming files and folders.
    NameErrno,
    /// Microseconds that each write takes longer. Those under way, too, end when it becomes shorter.
    WriteDelayUs,
    /// Microseconds that each sync takes longer; see [`Word::WriteDelayUs`].
    SyncDelayUs,
    /// Calls that were made to fail so far.
    Failures,
    /// So many syncs to come fail.
    SyncsToFail,
    /// Microseconds that each lookup of a name takes longer; see [`Word::WriteDelayUs`].
    LookupDelayUs,
    /// Whether syncs of the append-only file's next base do not return.
    BaseSyncsHang,
    /// How many calls take longer, or hang, now.
    Hanging,
}

/// The errno of an error of the device.
pub const EIO: i64 = 5;

/// The library, built.
pub struct Library {
    folder: TempDir,
}

impl Library {
    /// Compiles it with the system's C compiler.
    ///
    /// # Errors
    /// There is no compiler, or it fails.
    pub fn build() -> Result<Library, String> {
        let folder = TempDir::new();
        let source = folder.0.join("disk.c");
        fs::write(&source, include_str!("disk.c")).map_err(|error| error.to_string())?;
        let mut command = Command::new("cc");
        command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(folder.0.join("disk.so")).arg(&source).arg("-ldl");
        let output = command.output().map_err(|error| format!("cc: {error}"))?;
        match output.status.success() {
            true => Ok(Library { folder }),
            false => Err(format!("cc: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.0.join("disk.so")
    }
}

/// The disk below one folder.
pub struct Disk {
    page: File,
    page_path: PathBuf,
    library: PathBuf,
    below: PathBuf,
    _folder: TempDir,
}

impl Disk {
    /// A disk without faults for what is below `below`, a path without links.
    ///
    /// # Errors
    /// The page cannot be made.
    pub fn below(library: &Library, below: &Path) -> io::Result<Disk> {
        let folder = TempDir::new();
        let page_path = folder.0.join("page");
        let page = File::options().read(true).write(true).create(true).truncate(true).open(&page_path)?;
        page.set_len(4096)?;
        let (library, below) = (library.path(), below.to_owned());
        let disk = Disk { page, page_path, library, below, _folder: folder };
        disk.heal();
        Ok(disk)
    }

    /// Makes a process that is started use this disk.
    pub fn put_before(&self, command: &mut Command) {
        command.envs(self.variables());
    }

    /// The environment of a process that uses this disk.
    pub fn variables(&self) -> [(&'static str, &Path); 3] {
        [("LD_PRELOAD", &self.library), ("ONRUSH_DISK_CONTROL", &self.page_path), ("ONRUSH_DISK_FOLDER", &self.below)]
    }

    /// Sets a word. It takes effect with the next call of the process.
    pub fn set(&self, word: Word, value: i64) {
        self.page.write_all_at(&value.to_ne_bytes(), word as u64 * 8).expect("a page of one's own");
    }

    /// Reads a word.
    pub fn get(&self, word: Word) -> i64 {
        let mut bytes = [0; 8];
        self.page.read_exact_at(&mut bytes, word as u64 * 8).expect("a page of one's own");
        i64::from_ne_bytes(bytes)
    }

    /// Ends all faults.
    pub fn heal(&self) {
        for word in [Word::WriteErrno, Word::SyncErrno, Word::NameErrno, Word::SyncsToFail, Word::BaseSyncsHang] {
            self.set(word, 0);
        }
        self.set(Word::WriteDelayUs, 0);
        self.set(Word::SyncDelayUs, 0);
        self.set(Word::LookupDelayUs, 0);
        self.set(Word::Room, -1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes 10,000 bytes to the file that it is told, syncs it, and fails if that does.
    const WRITER: &str = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <unistd.h>
        int main(int count, char **args) {
            int file = open64(args[count - 1], O_CREAT | O_TRUNC | O_WRONLY, 0600);
            if (file < 0) return 1;
            char bytes[10000] = {0};
            for (size_t at = 0; at < sizeof bytes;) {
                ssize_t len = write(file, bytes + at, sizeof bytes - at);
                if (len <= 0) return 2;
                at += (size_t)len;
            }
            return fsync(file) ? 3 : 0;
        }"#;

    #[test]
    fn a_disk_is_full_fails_and_comes_back() {
        let (library, folder) = (Library::build().expect("a C compiler"), TempDir::new());
        let below = folder.0.canonicalize().expect("a folder");
        let (source, program) = (library.folder.0.join("writer.c"), library.folder.0.join("writer"));
        fs::write(&source, WRITER).expect("written");
        assert!(Command::new("cc").arg("-o").args([&program, &source]).status().expect("it runs").success());
        let disk = Disk::below(&library, &below).expect("a page");
        // How the program ends, and how many bytes are in the file.
        let write = |folder: &Path| {
            let path = folder.join("file");
            let mut command = Command::new(&program);
            disk.put_before(command.arg(&path));
            let status = command.status().expect("it runs");
            (status.code(), fs::metadata(&path).map_or(0, |file| file.len()))
        };
        assert_eq!(write(&below), (Some(0), 10_000));
        // The first bytes of a write that does not fit are written.
        disk.set(Word::Room, 2_500);
        assert_eq!(write(&below), (Some(2), 2_500));
        disk.heal();
        disk.set(Word::SyncsToFail, 1);
        assert_eq!(write(&below), (Some(3), 10_000));
        assert_eq!(write(&below), (Some(0), 10_000));
        disk.set(Word::WriteErrno, EIO);
        assert_eq!(write(&below), (Some(2), 0));
        assert_eq!(disk.get(Word::Failures), 3);
        disk.heal();
        disk.set(Word::NameErrno, EIO);
        assert_eq!(write(&below), (Some(1), 0));
        let elsewhere = TempDir::new();
        assert_eq!(write(&elsewhere.0.canonicalize().expect("a folder")), (Some(0), 10_000));
    }
}
