//! `onrush-server [file] [--name value …]`

use std::process::ExitCode;

use onrush_server::config::{self, Invocation, StartError};
use onrush_server::log;
use onrush_server::process::lifecycle;

fn main() -> ExitCode {
    let command_line = match config::parse_arguments(std::env::args_os().skip(1)) {
        Invocation::Serve(command_line) => command_line,
        Invocation::Version => {
            println!("{}", config::version());
            return ExitCode::SUCCESS;
        }
        Invocation::Help => {
            eprintln!("{}", config::usage());
            return ExitCode::FAILURE;
        }
        Invocation::NotDone(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    match config::load(&command_line, &mut std::io::stdin()) {
        Ok(loaded) => lifecycle::run(loaded.config, loaded.config_file),
        Err(error @ StartError::Unreadable { .. }) => {
            log::tell_early(&error.to_string());
            ExitCode::FAILURE
        }
        Err(error @ StartError::Line { .. }) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
