//! `onrush-cli`: a command line for Redis-compatible servers, a drop-in for redis-cli.
//!
//! Start at [`args`], which reads the command line, and [`run`], which chooses what to do. [`session`] sends commands
//! and shows replies for the command line ([`oneshot`]) and for people ([`repl`]); [`mod@format`] lays replies out;
//! [`connection`] and [`reply`] handle the protocol. Each other mode has a module. Everything blocks: there is one
//! thread, and a second one only where sending and reading must run at the same time.

#![forbid(unsafe_code)]

#[macro_use]
mod fail;

mod args;
mod askpass;
mod cluster;
mod connection;
mod debugger;
mod docs;
mod flags;
mod format;
mod key_stats;
mod keys_report;
mod latency;
mod lru;
mod oneshot;
mod pipe;
mod repl;
mod replacement;
mod replica;
mod reply;
mod scan;
mod session;
mod stat;
mod target;
#[cfg(feature = "tls")]
mod tls;

use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use args::{Environment, Mode, Options};
use fail::Fail;
use keys_report::Measure;

fn main() -> ExitCode {
    let environment = Environment {
        password: std::env::var_os("REDISCLI_AUTH").map(OsStringExt::into_vec),
        terminal: std::io::stdout().is_terminal() || std::env::var_os("FAKETTY").is_some(),
    };
    let done = args::parse(std::env::args_os().skip(1), &environment).and_then(run);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            ExitCode::FAILURE
        }
    }
}

fn run(mut options: Options) -> Result<(), Fail> {
    if options.ask_password {
        options.target.password = Some(askpass::read()?);
    }
    match options.mode.clone() {
        Mode::Help => session::print(flags::command().render_help().to_string()),
        Mode::Man => {
            let mut page = Vec::new();
            let made = clap_mangen::Man::new(flags::command()).render(&mut page);
            made.map_err(|error| Fail::new(fail::system_message(&error)))?;
            session::print(page);
        }
        Mode::Completions(shell) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut flags::command(), "onrush-cli", &mut script);
            session::print(script);
        }
        Mode::Version => session::print(concat!("onrush-cli ", env!("CARGO_PKG_VERSION"), "\n")),
        Mode::Cluster => return cluster::run(&options),
        Mode::Pipe => return pipe::run(&options),
        Mode::Scan => return scan::run(&options),
        Mode::BigKeys => return keys_report::biggest(&options, Measure::Elements),
        Mode::MemKeys(samples) => return keys_report::biggest(&options, Measure::Memory(samples)),
        Mode::KeyStats(samples) => return key_stats::run(&options, samples),
        Mode::HotKeys => return keys_report::hottest(&options),
        Mode::Stat => return stat::run(&options),
        Mode::Latency { history } => return latency::run(&options, history),
        Mode::LatencyDist => return latency::distribution(&options),
        Mode::IntrinsicLatency(seconds) => return latency::intrinsic(seconds),
        Mode::LruTest(keys) => return lru::run(&options, keys),
        Mode::Rdb { file, functions_only } => return replica::save(&options.target, &file, functions_only),
        Mode::Replica => return replica::run(&options),
        Mode::Eval(file) => return oneshot::eval(options, &file),
        Mode::Debug { file, in_place } => return debugger::run(&options, &file, in_place),
        Mode::DocsTable => {
            let mut connection = connection::Connection::open_logged_in(&options.target)?;
            let docs =
                docs::Docs::fetch(&mut connection).ok_or_else(|| Fail::new("The server has no COMMAND DOCS."))?;
            session::print(docs.table());
        }
        _ if !options.words.is_empty() || options.stdin_last => return oneshot::run(options),
        _ => return repl::run(options),
    }
    Ok(())
}
