//! The files that results are written to.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::Error;
use crate::options::{Files, Options};
use crate::outcome::{Cell, Ratio};
use crate::report::{self, Circumstances, Plot};
use crate::{args, server, shown};

/// Checks that all files can be written, and changes none.
///
/// # Errors
/// With the first that cannot, or that is no plot by its name.
pub fn check(files: &Files) -> Result<(), Error> {
    for plot in [&files.plot, &files.latency_plot].into_iter().flatten() {
        Plot::is_png(plot)?;
    }
    let all = [&files.json, &files.csv_file, &files.plot, &files.latency_plot, &files.report, &files.hdr];
    all.into_iter().flatten().try_for_each(|path| check_one(path).map_err(|error| Error::file(path, error)))
}

fn check_one(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(known) if known.is_file() || known.is_dir() => OpenOptions::new().write(true).open(path).map(drop),
        // To open a fifo would wait for its reader.
        Ok(_) => Ok(()),
        // A link to a file that is not there yet.
        Err(_) if fs::symlink_metadata(path).is_ok() => Ok(()),
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(path)?;
            fs::remove_file(path)
        }
    }
}

/// Writes all files that are asked for.
///
/// # Errors
/// With all that could not be written; the others are.
pub fn write(options: &Options, cells: &[Cell], ratios: &[Ratio], swept: Option<&str>) -> Result<(), Error> {
    let files = &options.files;
    let circumstances = (files.json.is_some() || files.report.is_some()).then(|| {
        let targets = options.targets().chain(&options.versus);
        let described = targets.map(|target| (target.to_string(), server::description(options, target)));
        Circumstances::now(described.collect())
    });
    let mut done = Vec::new();
    if let (Some(path), Some(circumstances)) = (&files.json, &circumstances) {
        done.push(text(path, &report::json(cells, ratios, swept, circumstances)));
    }
    if let Some(path) = &files.csv_file {
        done.push(text(path, &report::table_csv(cells)));
    }
    if let Some(path) = &files.plot {
        let plot = match swept {
            Some(swept) => report::throughput_plot(cells, swept),
            None => report::latency_plot(cells),
        };
        done.push(plot.write(path));
    }
    if let (Some(path), Some(swept)) = (&files.latency_plot, swept) {
        done.push(report::percentiles_plot(cells, swept).write(path));
    }
    if let (Some(path), Some(circumstances)) = (&files.report, &circumstances) {
        let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
        let command_line = shown::command_line(&args::command(), args);
        let page = report::page(cells, ratios, swept, &command_line, circumstances);
        done.push(page.and_then(|page| text(path, &page)));
    }
    if let (Some(path), Some(cell)) = (&files.hdr, cells.last()) {
        done.push(text(path, &report::hdr(cell.median())));
    }
    Error::all(done)
}

fn text(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::file(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_changes_no_file_and_leaves_none() {
        let folder = std::env::temp_dir().join(format!("onrush-benchmark-check-{}", std::process::id()));
        _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let (old, new) = (folder.join("old.json"), folder.join("new.csv"));
        fs::write(&old, "old").unwrap();
        let files = Files {
            json: Some(old.clone()),
            csv_file: Some(new),
            report: Some("/dev/null".into()),
            ..Files::default()
        };
        check(&files).unwrap();
        assert_eq!((fs::read(&old).unwrap(), fs::read_dir(&folder).unwrap().count()), (b"old".to_vec(), 1));
        for wrong in [folder.clone(), folder.join("none/new.json")] {
            let files = Files { hdr: Some(wrong.clone()), ..Files::default() };
            let said = check(&files).unwrap_err().to_string();
            assert!(said.starts_with(&wrong.display().to_string()), "{said}");
        }
        assert!(check(&Files { plot: Some(folder.join("plot.gif")), ..Files::default() }).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
