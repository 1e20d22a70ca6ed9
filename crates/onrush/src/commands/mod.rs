//! Typed methods for commands: over connections, in pipelines, and blocking.
//!
//! The tables in this folder's other files have for each command its name, its arguments and what goes over the wire. A
//! macro that needs all of them calls [`all_commands`].

mod collections;
pub mod geo;
mod keys;
pub(crate) mod options;
mod ordered;
pub(crate) mod scan;
pub(crate) mod script;
mod server;
pub(crate) mod sorted_sets;
pub(crate) mod typed;

pub(crate) use collections::collection_commands;
pub(crate) use keys::key_commands;
pub(crate) use ordered::ordered_commands;
pub(crate) use server::{scan_commands, server_commands};

use crate::commands::options::ScanOptions;
use crate::commands::scan::Scan;
use crate::connection::ConnectionLike;
use crate::error::RedisResult;
use crate::values::args::ToRedisArgs;
use crate::values::cmd::{Cmd, cmd};
use crate::values::from_value::FromRedisValue;
use crate::values::pipeline::Pipeline;

/// Adds a table to those gathered so far; the last table passes all of them to the macro that needs them.
macro_rules! chain {
    ([$then:ident { $($got:tt)* }] $($table:tt)*) => {
        $then! { $($got)* $($table)* }
    };
    ([$then:ident { $($got:tt)* } $next:ident $($more:ident)*] $($table:tt)*) => {
        $crate::commands::$next! { $then { $($got)* $($table)* } $($more)* }
    };
}

/// Calls a macro with the rows of all tables.
macro_rules! all_commands {
    ($then:ident) => {
        $crate::commands::key_commands! { $then {} collection_commands ordered_commands server_commands }
    };
}

/// Calls a macro with the methods that scan.
macro_rules! scan_methods {
    ($then:ident) => {
        $then! {
            /// All keys, page by page.
            fn scan() = "SCAN", (), ScanOptions::new();
            /// The keys that match a pattern.
            fn scan_match(pattern: impl ToRedisArgs) = "SCAN", (), ScanOptions::new().with_pattern(pattern);
            /// The keys that the options select.
            fn scan_options(options: ScanOptions) = "SCAN", (), options;
            /// All fields of a hash with their values: `T` is a pair.
            fn hscan(key: impl ToRedisArgs) = "HSCAN", key, ScanOptions::new();
            /// The fields of a hash that the options select; without values with [`ScanOptions::novalues`].
            fn hscan_options(key: impl ToRedisArgs, options: ScanOptions) = "HSCAN", key, options;
            /// All members of a set.
            fn sscan(key: impl ToRedisArgs) = "SSCAN", key, ScanOptions::new();
            /// The members of a set that the options select.
            fn sscan_options(key: impl ToRedisArgs, options: ScanOptions) = "SSCAN", key, options;
            /// All members of a sorted set with their scores: `T` is a pair.
            fn zscan(key: impl ToRedisArgs) = "ZSCAN", key, ScanOptions::new();
            /// The members of a sorted set that the options select, with their scores.
            fn zscan_options(key: impl ToRedisArgs, options: ScanOptions) = "ZSCAN", key, options;
        }
    };
}

pub(crate) use {all_commands, chain, scan_methods};

macro_rules! async_scans {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) = $word:literal, $key:expr, $options:expr;)*) => {$(
        $(#[$doc])*
        fn $name<T: FromRedisValue>(&self, $($arg: $type),*) -> Scan<'_, Self, T> {
            Scan::new(self, $word, $key, $options)
        }
    )*};
}

macro_rules! async_commands {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident),*) = $word:literal $(, $part:expr)*;)*) => {
        /// Commands as methods of every kind of connection. The names are those of the `redis` crate, where it has the
        /// command.
        ///
        /// An argument is any value that gives command arguments: a key or several, a member or a list of them,
        /// options, a tuple. The reply is converted to the requested type. The futures are `Send`: any task may run
        /// them.
        ///
        /// # Errors
        /// All of them fail as [`Cmd::query_async`] does.
        pub trait AsyncCommands: ConnectionLike + Sized {
            $(
                $(#[$doc])*
                #[allow(non_camel_case_types, clippy::too_many_arguments)]
                fn $name<$($arg: ToRedisArgs,)* RV: FromRedisValue>(
                    &self,
                    $($arg: $arg),*
                ) -> impl Future<Output = RedisResult<RV>> + Send {
                    #[allow(unused_mut)]
                    let mut command = cmd($word);
                    $(command.arg($part);)*
                    send(self, command)
                }
            )*

            scan_methods! { async_scans }
            async_scans! {
                /// The fields of a hash that match a pattern, with their values.
                fn hscan_match(key: impl ToRedisArgs, pattern: impl ToRedisArgs) = "HSCAN", key, ScanOptions::new().with_pattern(pattern);
                /// The members of a set that match a pattern.
                fn sscan_match(key: impl ToRedisArgs, pattern: impl ToRedisArgs) = "SSCAN", key, ScanOptions::new().with_pattern(pattern);
                /// The members of a sorted set that match a pattern, with their scores.
                fn zscan_match(key: impl ToRedisArgs, pattern: impl ToRedisArgs) = "ZSCAN", key, ScanOptions::new().with_pattern(pattern);
            }
        }
    };
}

macro_rules! pipeline_commands {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident),*) = $word:literal $(, $part:expr)*;)*) => {
        /// Commands under the names that they have as methods of a connection.
        impl Pipeline {
            $(
                $(#[$doc])*
                #[allow(non_camel_case_types, clippy::too_many_arguments)]
                pub fn $name<$($arg: ToRedisArgs),*>(&mut self, $($arg: $arg),*) -> &mut Pipeline {
                    self.cmd($word)$(.arg($part))*
                }
            )*
        }
    };
}

all_commands! { async_commands }
all_commands! { pipeline_commands }
scan_commands! { pipeline_commands {} }

impl<T: ConnectionLike> AsyncCommands for T {}

async fn send<RV: FromRedisValue>(con: &impl ConnectionLike, command: Cmd) -> RedisResult<RV> {
    RV::from_redis_value(con.send_command(&command).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::value::Value;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use tokio::task::JoinHandle;

    /// Answers every command with its arguments.
    #[derive(Clone)]
    struct Mirror;

    impl ConnectionLike for Mirror {
        async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
            // The reply comes later, so that the future stops in the middle.
            tokio::task::yield_now().await;
            Ok(Value::Array(cmd.args_iter().map(|arg| Value::BulkString(arg.to_vec())).collect()))
        }

        async fn send_pipeline(&self, _: &Pipeline) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
            Ok(None)
        }
    }

    type Tasks = Vec<(&'static str, JoinHandle<RedisResult<Vec<String>>>)>;

    macro_rules! spawn_every_command {
        ($($(#[$doc:meta])* fn $name:ident($($arg:ident),*) = $word:literal $(, $part:expr)*;)*) => {
            /// Runs each method in a task of its own, with a shared connection and borrowed arguments.
            fn spawn_all(con: &Arc<Mirror>) -> Tasks {
                vec![$({
                    let con = con.clone();
                    let task = async move {
                        $(let $arg = stringify!($arg).to_owned();)*
                        con.$name($(&$arg),*).await
                    };
                    (stringify!($name), tokio::spawn(task))
                }),*]
            }

            /// The same commands, added by the methods of a pipeline.
            fn pipeline_of_all() -> Pipeline {
                let mut pipeline = Pipeline::new();
                $(pipeline.$name($(stringify!($arg)),*);)*
                pipeline
            }
        };
    }

    all_commands! { spawn_every_command }

    #[test]
    fn every_command_runs_in_a_task_of_its_own_and_says_the_same_in_a_pipeline() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let pipeline = pipeline_of_all();
        runtime.block_on(async {
            let tasks = spawn_all(&Arc::new(Mirror));
            let names: BTreeSet<_> = tasks.iter().map(|(name, _)| *name).collect();
            assert_eq!(names.len(), tasks.len());
            assert_eq!(pipeline.len(), tasks.len());
            for (index, (name, task)) in tasks.into_iter().enumerate() {
                let args = task.await.unwrap().unwrap();
                let in_pipeline = crate::values::encode::args_of(pipeline.command(index));
                assert!(in_pipeline.eq(args.iter().map(String::as_bytes)), "{name}: {args:?}");
            }
        });
    }

    #[test]
    fn counts_of_keys_and_fields_are_made_from_the_arguments() {
        let mut pipeline = Pipeline::new();
        pipeline.eval("return 1", ["a", "b"], 5).lmpop(("x", "y", "z"), "LEFT", 2);
        pipeline.hset_ex("h", (), [("f", 1), ("g", 2)]).hexpire("h", 9, (), ["f", "g"]).eval("return 1", (), ());
        let line = |index| {
            let args = crate::values::encode::args_of(pipeline.command(index)).map(|arg| String::from_utf8_lossy(arg));
            args.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(0), "EVAL return 1 2 a b 5");
        assert_eq!(line(1), "LMPOP 3 x y z LEFT COUNT 2");
        assert_eq!(line(2), "HSETEX h FIELDS 2 f 1 g 2");
        assert_eq!(line(3), "HEXPIRE h 9 FIELDS 2 f g");
        assert_eq!(line(4), "EVAL return 1 0");
    }
}
