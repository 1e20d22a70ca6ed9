//! `onrush-check`: tells whether RDB files and append-only files are whole, and cuts off what is damaged at their end. A drop-in for
//! redis-check-rdb and redis-check-aof when it is called by their names.
//!
//! Start at [`args`]. [`rdb`] and [`aof`] check; [`progress`] tells how far they are.

#![forbid(unsafe_code)]

mod aof;
mod args;
mod progress;
mod rdb;

use std::process::ExitCode;

use args::Task;

/// A line on standard output. Nobody has to read it: the exit code tells as much.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*)));
    }};
}
pub(crate) use say;

fn main() -> ExitCode {
    let done = match args::parse(std::env::args_os()) {
        Ok(Task::Print(text)) => {
            say!("{}", text.trim_end());
            Ok(())
        }
        Ok(Task::Rdb(file)) => rdb::check(&file),
        Ok(Task::Aof(file, repair)) => aof::check(&file, &repair),
        Err(message) => Err(message),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{message}\n"));
            ExitCode::FAILURE
        }
    }
}
