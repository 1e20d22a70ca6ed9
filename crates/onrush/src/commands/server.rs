//! The tables of the commands for scripts, functions, messages and the server itself, and of the SCAN family, which
//! only pipelines have as single commands.

macro_rules! server_commands {
    ($($link:tt)*) => { $crate::commands::chain! { [$($link)*]
        /// Runs a Lua script; [`Script`](crate::Script) sends its code only once.
        fn eval(script, keys, args) = "EVAL", script, keys.num_of_args(), keys, args;
        /// Runs a Lua script that may not write.
        fn eval_ro(script, keys, args) = "EVAL_RO", script, keys.num_of_args(), keys, args;
        /// Runs a loaded Lua script by its digest.
        fn evalsha(digest, keys, args) = "EVALSHA", digest, keys.num_of_args(), keys, args;
        /// The same for a script that may not write.
        fn evalsha_ro(digest, keys, args) = "EVALSHA_RO", digest, keys.num_of_args(), keys, args;
        /// Loads a script and returns its digest.
        fn script_load(code) = "SCRIPT", "LOAD", code;
        /// Which of the digests are loaded.
        fn script_exists(digests) = "SCRIPT", "EXISTS", digests;
        /// Forgets all scripts.
        fn script_flush() = "SCRIPT", "FLUSH";
        /// Ends a script that runs and has not written yet.
        fn script_kill() = "SCRIPT", "KILL";
        /// Calls a function.
        fn fcall(function, keys, args) = "FCALL", function, keys.num_of_args(), keys, args;
        /// Calls a function that may not write.
        fn fcall_ro(function, keys, args) = "FCALL_RO", function, keys.num_of_args(), keys, args;
        /// Loads a library of functions and returns its name.
        fn function_load(code) = "FUNCTION", "LOAD", code;
        /// Loads a library of functions; replaces the one of its name.
        fn function_load_replace(code) = "FUNCTION", "LOAD", "REPLACE", code;
        /// The libraries; `options` are `()`, `"WITHCODE"`, `("LIBRARYNAME", pattern)`.
        fn function_list(options) = "FUNCTION", "LIST", options;
        /// Deletes a library.
        fn function_delete(library) = "FUNCTION", "DELETE", library;
        /// Deletes all libraries.
        fn function_flush() = "FUNCTION", "FLUSH";
        /// All libraries, serialized.
        fn function_dump() = "FUNCTION", "DUMP";
        /// Makes libraries from the result of [`function_dump`](Self::function_dump); `policy` is `()`, `"FLUSH"`,
        /// `"APPEND"` or `"REPLACE"`.
        fn function_restore(serialized, policy) = "FUNCTION", "RESTORE", serialized, policy;
        /// The function that runs, and the number of libraries and functions.
        fn function_stats() = "FUNCTION", "STATS";
        /// Ends a function that runs and has not written yet.
        fn function_kill() = "FUNCTION", "KILL";

        /// Publishes a message and returns the number of receivers.
        fn publish(channel, message) = "PUBLISH", channel, message;
        /// Publishes a message to a shard channel and returns the number of receivers.
        fn spublish(channel, message) = "SPUBLISH", channel, message;
        /// The channels with subscribers.
        fn pubsub_channels() = "PUBSUB", "CHANNELS";
        /// The number of subscribers of each of the channels.
        fn pubsub_numsub(channels) = "PUBSUB", "NUMSUB", channels;
        /// The number of patterns with subscribers.
        fn pubsub_numpat() = "PUBSUB", "NUMPAT";

        /// Answers PONG.
        fn ping() = "PING";
        /// Answers the message.
        fn ping_message(message) = "PING", message;
        /// Answers the message.
        fn echo(message) = "ECHO", message;
        /// The number of keys.
        fn dbsize() = "DBSIZE";
        /// Deletes all keys of the database.
        fn flushdb() = "FLUSHDB";
        /// The same by [`FlushOptions`](crate::FlushOptions).
        fn flushdb_options(options) = "FLUSHDB", options;
        /// Deletes all keys of all databases.
        fn flushall() = "FLUSHALL";
        /// The same by [`FlushOptions`](crate::FlushOptions).
        fn flushall_options(options) = "FLUSHALL", options;
        /// Swaps two databases.
        fn swapdb(one, other) = "SWAPDB", one, other;
        /// The server's INFO, as an [`InfoDict`](crate::InfoDict) or a `String`; `sections` may be `()`.
        fn info(sections) = "INFO", sections;
        /// The server's time: seconds and microseconds.
        fn time() = "TIME";
        /// The server's role in replication, and its offset.
        fn role() = "ROLE";
        /// The options that match, and their values.
        fn config_get(patterns) = "CONFIG", "GET", patterns;
        /// Sets options, from pairs.
        fn config_set(pairs) = "CONFIG", "SET", pairs;
        /// Writes the configuration file.
        fn config_rewrite() = "CONFIG", "REWRITE";
        /// Sets the server's counters to 0.
        fn config_resetstat() = "CONFIG", "RESETSTAT";
        /// Saves a snapshot; the server executes nothing else meanwhile.
        fn save() = "SAVE";
        /// Saves a snapshot in the background.
        fn bgsave() = "BGSAVE";
        /// Rewrites the append-only file in the background.
        fn bgrewriteaof() = "BGREWRITEAOF";
        /// The Unix time in seconds of the last snapshot.
        fn lastsave() = "LASTSAVE";
        /// This connection's number.
        fn client_id() = "CLIENT", "ID";
        /// This connection's name.
        fn client_getname() = "CLIENT", "GETNAME";
        /// Names this connection.
        fn client_setname(name) = "CLIENT", "SETNAME", name;
        /// A line about this connection.
        fn client_info() = "CLIENT", "INFO";
        /// A line about each connection.
        fn client_list() = "CLIENT", "LIST";
        /// Closes connections by filters such as `("ID", 7)`.
        fn client_kill(filters) = "CLIENT", "KILL", filters;
        /// Holds back other clients' commands for `milliseconds`.
        fn client_pause(milliseconds) = "CLIENT", "PAUSE", milliseconds;
        /// Ends a pause.
        fn client_unpause() = "CLIENT", "UNPAUSE";
        /// Unblocks a connection by its number.
        fn client_unblock(id) = "CLIENT", "UNBLOCK", id;
        /// The number of commands the server has.
        fn command_count() = "COMMAND", "COUNT";
        /// The names of the commands the server has.
        fn command_list() = "COMMAND", "LIST";
        /// Facts about commands.
        fn command_info(names) = "COMMAND", "INFO", names;
        /// The keys of a command line.
        fn command_getkeys(line) = "COMMAND", "GETKEYS", line;
        /// The latest slow commands.
        fn slowlog_get(count) = "SLOWLOG", "GET", count;
        /// The number of slow commands that are kept.
        fn slowlog_len() = "SLOWLOG", "LEN";
        /// Forgets the slow commands.
        fn slowlog_reset() = "SLOWLOG", "RESET";
        /// How the server's memory is used.
        fn memory_stats() = "MEMORY", "STATS";
        /// Makes the server return free memory to the system.
        fn memory_purge() = "MEMORY", "PURGE";
        /// The latest slow events.
        fn latency_latest() = "LATENCY", "LATEST";
        /// Forgets slow events.
        fn latency_reset() = "LATENCY", "RESET";
        /// The user this connection is logged in as.
        fn acl_whoami() = "ACL", "WHOAMI";
    }};
}

macro_rules! scan_commands {
    ($($link:tt)*) => { $crate::commands::chain! { [$($link)*]
        /// A part of the keys, with [`ScanOptions`](crate::ScanOptions) or `()`.
        fn scan(cursor, options) = "SCAN", cursor, options;
        /// A part of the fields and values, with [`ScanOptions`](crate::ScanOptions) or `()`.
        fn hscan(key, cursor, options) = "HSCAN", key, cursor, options;
        /// A part of the members, with [`ScanOptions`](crate::ScanOptions) or `()`.
        fn sscan(key, cursor, options) = "SSCAN", key, cursor, options;
        /// A part of the members with their scores, with [`ScanOptions`](crate::ScanOptions) or `()`.
        fn zscan(key, cursor, options) = "ZSCAN", key, cursor, options;
    }};
}

pub(crate) use {scan_commands, server_commands};
