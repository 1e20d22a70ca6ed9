//! `onrush-check`: checks whether RDB files and append-only files are whole, and cuts off damage at the end of logs. A
//! drop-in for redis-check-rdb and redis-check-aof when it is called by their names.
//!
//! Start at [`args`]. [`rdb`] and [`aof`] check; [`progress`] shows how far they are.

#![forbid(unsafe_code)]

mod aof;
mod args;
mod progress;
mod rdb;

use std::process::ExitCode;

use args::Task;

/// Prints a line on standard output. Errors are ignored: the exit code has the result, too.
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
