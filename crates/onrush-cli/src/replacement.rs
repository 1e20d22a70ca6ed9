//! Files that take the place of others only when they are whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// The longest name of a file, in bytes.
const NAME_LEN_MAX: usize = 255;
/// How many names are tried for a file.
const NAMES_MAX: u32 = 100;

/// A file for output: a replacement, or, where there can be none, the place itself.
pub enum OutputFile {
    Replacement(Replacement),
    /// A device, a fifo, or a file in a folder that takes no new ones.
    InPlace(File),
}

impl OutputFile {
    /// Opens it. A file that is there already stays as it is until [`OutputFile::finish`], which gives the new one its
    /// owner and rights; of a symbolic link the file it leads to is meant.
    ///
    /// # Errors
    /// When the place cannot be written.
    pub fn open(path: &Path) -> io::Result<OutputFile> {
        match fs::metadata(path) {
            Ok(old) if old.is_file() => {
                let in_place = OpenOptions::new().write(true).open(path)?;
                match Replacement::of(&fs::canonicalize(path)?, &old) {
                    Ok(replacement) => Ok(OutputFile::Replacement(replacement)),
                    Err(_) => in_place.set_len(0).map(|()| OutputFile::InPlace(in_place)),
                }
            }
            Err(_) if is_free(path) => Replacement::create(path, 0o666).map(OutputFile::Replacement),
            _ => File::create(path).map(OutputFile::InPlace),
        }
    }

    /// Puts all on disk, in its place.
    ///
    /// # Errors
    /// When the disk or the folder refuses.
    pub fn finish(self) -> io::Result<()> {
        match self {
            OutputFile::Replacement(replacement) => replacement.take_place(),
            OutputFile::InPlace(file) if file.metadata()?.is_file() => file.sync_all(),
            OutputFile::InPlace(_) => Ok(()),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OutputFile::Replacement(replacement) => replacement.write(bytes),
            OutputFile::InPlace(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether it is the name of a file that is not there.
fn is_free(path: &Path) -> bool {
    let is_name = !path.as_os_str().is_empty() && !path.as_os_str().as_bytes().ends_with(b"/");
    is_name && fs::symlink_metadata(path).is_err()
}

/// Bytes for a file, kept beside it. They are thrown away unless they [take its place](Replacement::take_place).
pub struct Replacement {
    file: File,
    beside: PathBuf,
    path: PathBuf,
    is_done: bool,
}

impl Replacement {
    /// Makes a file with these rights, less those the umask withholds, beside `path`. No other file is touched.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path, mode: u32) -> io::Result<Replacement> {
        let mut number = 0;
        loop {
            let beside = beside(path, number);
            number += 1;
            match OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside) {
                Ok(file) => return Ok(Replacement { file, beside, path: path.to_owned(), is_done: false }),
                // What was left by an earlier process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The same for a file that is there, with its owner, if this process may give files away, and its rights.
    fn of(path: &Path, old: &fs::Metadata) -> io::Result<Replacement> {
        let replacement = Replacement::create(path, 0o600)?;
        let _ = fchown(&replacement.file, Some(old.uid()), Some(old.gid()));
        replacement.file.set_permissions(old.permissions())?;
        Ok(replacement)
    }

    /// Puts the bytes on disk and gives them the name.
    ///
    /// # Errors
    /// When the disk or the folder refuses.
    pub fn take_place(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.beside, &self.path)?;
        self.is_done = true;
        // Some file systems cannot sync folders; the file is whole without it, too.
        let _ = File::open(folder_of(&self.path)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_file(&self.beside);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The whole name, shortened if it must be, with an end that no other process uses.
fn beside(path: &Path, number: u32) -> PathBuf {
    let number = if number == 0 { String::new() } else { format!(".{number}") };
    let end = format!(".new.{}{number}", std::process::id());
    let mut name = path.file_name().unwrap_or_default().as_bytes().to_vec();
    name.truncate(NAME_LEN_MAX - end.len());
    name.extend_from_slice(end.as_bytes());
    path.with_file_name(OsString::from_vec(name))
}

/// An empty folder for a test of this name.
#[cfg(test)]
pub fn test_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("onrush-cli-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn the_old_bytes_stay_until_the_new_ones_are_whole() {
        let folder = test_folder("whole");
        let path = folder.join("dump.rdb");
        fs::write(&path, "old").unwrap();
        let mut output = OutputFile::open(&path).unwrap();
        output.write_all(b"ne").unwrap();
        assert_eq!((fs::read(&path).unwrap(), files(&folder)), (b"old".to_vec(), 2));
        drop(output);
        assert_eq!((fs::read(&path).unwrap(), files(&folder)), (b"old".to_vec(), 1));
        let mut output = OutputFile::open(&path).unwrap();
        output.write_all(b"new").unwrap();
        output.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), files(&folder)), (b"new".to_vec(), 1));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn rights_and_links_stay() {
        let folder = test_folder("rights");
        let (path, link) = (folder.join("dump.rdb"), folder.join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("dump.rdb", &link).unwrap();
        let mut output = OutputFile::open(&link).unwrap();
        output.write_all(b"new").unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_file_is_written_in_place() {
        let folder = test_folder("devices");
        let mut output = OutputFile::open(Path::new("/dev/null")).unwrap();
        output.write_all(b"new").unwrap();
        output.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        symlink("nowhere", folder.join("link")).unwrap();
        let mut output = OutputFile::open(&folder.join("link")).unwrap();
        output.write_all(b"new").unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(folder.join("nowhere")).unwrap(), b"new");
        for wrong in [folder.clone(), folder.join("none/"), PathBuf::new()] {
            assert!(OutputFile::open(&wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(files(&folder), 2);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_that_are_long_or_taken_are_possible() {
        let folder = test_folder("names");
        let path = folder.join("x".repeat(NAME_LEN_MAX));
        let (one, other) = (Replacement::create(&path, 0o644).unwrap(), Replacement::create(&path, 0o644).unwrap());
        assert_ne!(one.beside, other.beside);
        one.take_place().unwrap();
        drop(other);
        assert!(path.is_file() && files(&folder) == 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
