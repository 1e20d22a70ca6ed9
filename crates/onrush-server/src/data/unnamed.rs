//! Files without a name.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Makes a file in a folder that is gone when it is closed, whatever ends the process.
///
/// # Errors
/// The system's.
pub fn unnamed_file(dir: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    // A moment later it has no name; the one that it has until then is that of a snapshot under way.
    let path = dir.join(format!("temp-{}.{number}.rdb", std::process::id()));
    // One of an earlier process with this number.
    let _ = std::fs::remove_file(&path);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
