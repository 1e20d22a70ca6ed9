//! Rows of the command table: the commands about connections.

use crate::command::spec::{Group, Spec, flags};

/// The commands about connections.
pub static SPECS: &[Spec] = &[
    Spec {
        name: "auth",
        arity: -2,
        flags: flags("noscript loading stale fast no_auth allow_busy"),
        group: Group::Connection,
        complexity: "O(N), N the number of the user's passwords",
        summary: "Authenticates the connection.",
        syntax: "[username] password",
        history: &[("6.0.0", "User name.")],
        handler: crate::commands::connection::auth,
        ..Spec::DEFAULT
    },
    Spec {
        name: "hello",
        arity: -1,
        flags: flags("noscript loading stale fast no_auth allow_busy"),
        group: Group::Connection,
        since: "6.0.0",
        summary: "Chooses the protocol version and tells about the server; may authenticate too.",
        syntax: "[protover [AUTH username password] [SETNAME clientname]]",
        history: &[("6.2.0", "The protocol version may be left out.")],
        handler: crate::commands::connection::hello,
        ..Spec::DEFAULT
    },
    Spec {
        name: "ping",
        arity: -1,
        flags: flags("fast short"),
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        group: Group::Connection,
        summary: "Answers PONG, or the message.",
        syntax: "[message]",
        handler: crate::commands::connection::ping,
        ..Spec::DEFAULT
    },
    Spec {
        name: "echo",
        arity: 2,
        flags: flags("loading stale fast short"),
        group: Group::Connection,
        summary: "Returns the message.",
        syntax: "message",
        handler: crate::commands::connection::echo,
        ..Spec::DEFAULT
    },
    Spec {
        name: "select",
        arity: 2,
        flags: flags("loading stale fast short"),
        group: Group::Connection,
        summary: "Changes the connection's database.",
        syntax: "index",
        handler: crate::commands::connection::select,
        ..Spec::DEFAULT
    },
    Spec {
        name: "quit",
        arity: -1,
        flags: flags("noscript loading stale fast no_auth allow_busy not_queued"),
        group: Group::Connection,
        summary: "Closes the connection once earlier replies are sent.",
        handler: crate::commands::connection::quit,
        ..Spec::DEFAULT
    },
    Spec {
        name: "reset",
        arity: 1,
        flags: flags("noscript loading stale fast no_auth allow_busy not_queued"),
        group: Group::Connection,
        since: "6.2.0",
        summary: "Puts the connection back into the state it began in.",
        handler: crate::commands::connection::reset,
        ..Spec::DEFAULT
    },
    Spec {
        name: "client",
        arity: -2,
        group: Group::Connection,
        since: "2.4.0",
        complexity: "Depends on the subcommand",
        summary: "Container of commands about client connections.",
        subcommands: &[
            Spec {
                name: "id",
                arity: 2,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "5.0.0",
                summary: "Returns the connection's id.",
                handler: crate::commands::connection::client::client_id,
                ..Spec::DEFAULT
            },
            Spec {
                name: "info",
                arity: 2,
                flags: flags("noscript loading stale"),
                tips: &["nondeterministic_output"],
                group: Group::Connection,
                since: "6.2.0",
                summary: "Tells about this connection.",
                handler: crate::commands::connection::client::client_info,
                ..Spec::DEFAULT
            },
            Spec {
                name: "list",
                arity: -2,
                flags: flags("admin noscript loading stale"),
                tips: &["nondeterministic_output"],
                group: Group::Connection,
                since: "2.4.0",
                complexity: "O(N), N the number of connections",
                summary: "Lists the connected clients.",
                syntax: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
                history: &[
                    ("2.8.12", "Field `id`."),
                    ("5.0.0", "Filter `TYPE`."),
                    ("6.0.0", "Field `user`."),
                    ("6.2.0", "Fields `argv-mem`, `tot-mem`, `laddr` and `redir`; filter `ID`."),
                    ("7.0.0", "Fields `resp`, `multi-mem`, `rbs` and `rbp`."),
                    ("7.0.3", "Field `ssub`."),
                ],
                handler: crate::commands::connection::client::client_list,
                ..Spec::DEFAULT
            },
            Spec {
                name: "kill",
                arity: -3,
                flags: flags("admin noscript loading stale"),
                group: Group::Connection,
                since: "2.4.0",
                complexity: "O(N), N the number of connections",
                summary: "Closes connections of an address or that pass filters.",
                syntax: "<ip:port | <[ID client-id] | [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] | [USER username] | [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | [MAXAGE maxage]> [<[ID client-id] | [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] | [USER username] | [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | [MAXAGE maxage]> ...]>",
                history: &[
                    ("2.8.12", "Filters."),
                    ("2.8.12", "Filter `ID`."),
                    ("3.2.0", "Type `master`."),
                    ("5.0.0", "Type `replica`, as another name of `slave`."),
                    ("6.2.0", "Filter `LADDR`."),
                    ("7.4.0", "Filter `MAXAGE`."),
                ],
                handler: crate::commands::connection::client::client_kill,
                ..Spec::DEFAULT
            },
            Spec {
                name: "getname",
                arity: 2,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "2.6.9",
                summary: "Returns the connection's name.",
                handler: crate::commands::connection::client::client_getname,
                ..Spec::DEFAULT
            },
            Spec {
                name: "setname",
                arity: 3,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "2.6.9",
                summary: "Names the connection.",
                syntax: "connection-name",
                handler: crate::commands::connection::client::client_setname,
                ..Spec::DEFAULT
            },
            Spec {
                name: "setinfo",
                arity: 4,
                flags: flags("noscript loading stale"),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: Group::Connection,
                since: "7.2.0",
                summary: "Tells the server which client library the connection uses.",
                syntax: "<LIB-NAME libname | LIB-VER libver>",
                handler: crate::commands::connection::client::client_setinfo,
                ..Spec::DEFAULT
            },
            Spec {
                name: "reply",
                arity: 3,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "3.2.0",
                summary: "Turns replies to the connection off and on.",
                syntax: "<ON | OFF | SKIP>",
                handler: crate::commands::connection::client::client_reply,
                ..Spec::DEFAULT
            },
            Spec {
                name: "pause",
                arity: -3,
                flags: flags("admin noscript loading stale"),
                group: Group::Connection,
                since: "2.9.50",
                summary: "Holds back the commands of all clients for some time.",
                syntax: "timeout [WRITE | ALL]",
                history: &[("6.2.0", "Modes `WRITE` and `ALL`.")],
                handler: crate::commands::connection::client::client_pause,
                ..Spec::DEFAULT
            },
            Spec {
                name: "unpause",
                arity: 2,
                flags: flags("admin noscript loading stale"),
                group: Group::Connection,
                since: "6.2.0",
                complexity: "O(N), N the number of paused clients",
                summary: "Ends CLIENT PAUSE.",
                handler: crate::commands::connection::client::client_unpause,
                ..Spec::DEFAULT
            },
            Spec {
                name: "no-evict",
                arity: 3,
                flags: flags("admin noscript loading stale"),
                group: Group::Connection,
                since: "7.0.0",
                summary: "Protects the connection from being closed to save memory.",
                syntax: "<ON | OFF>",
                handler: crate::commands::connection::client::client_no_evict,
                ..Spec::DEFAULT
            },
            Spec {
                name: "no-touch",
                arity: 3,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "7.2.0",
                summary: "Keeps the connection's commands from changing access times of keys.",
                syntax: "<ON | OFF>",
                handler: crate::commands::connection::client::client_no_touch,
                ..Spec::DEFAULT
            },
            Spec {
                name: "durability",
                arity: 3,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "7.2.0",
                summary: "Says when this connection's writes are to be on the disk: before their replies, about a second later, or whenever.",
                syntax: "<ALWAYS | EVERYSEC | NO | DEFAULT>",
                handler: crate::commands::connection::client::client_durability,
                ..Spec::DEFAULT
            },
            Spec {
                name: "getredir",
                arity: 2,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "6.0.0",
                summary: "Returns the client that gets this connection's invalidation messages.",
                handler: crate::commands::connection::tracking::client_getredir,
                ..Spec::DEFAULT
            },
            Spec {
                name: "trackinginfo",
                arity: 2,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "6.2.0",
                summary: "Tells about the connection's client-side caching.",
                handler: crate::commands::connection::tracking::client_trackinginfo,
                ..Spec::DEFAULT
            },
            Spec {
                name: "tracking",
                arity: -3,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "6.0.0",
                complexity: "O(1). Some options may introduce additional complexity.",
                summary: "Turns messages to the connection about changes of what it has read on or off.",
                syntax: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
                handler: crate::commands::connection::tracking::client_tracking,
                ..Spec::DEFAULT
            },
            Spec {
                name: "caching",
                arity: 3,
                flags: flags("noscript loading stale"),
                group: Group::Connection,
                since: "6.0.0",
                summary: "Says whether what the next command reads is tracked.",
                syntax: "<YES | NO>",
                handler: crate::commands::connection::tracking::client_caching,
                ..Spec::DEFAULT
            },
            Spec {
                name: "unblock",
                arity: -3,
                flags: flags("admin noscript loading stale"),
                group: Group::Connection,
                since: "5.0.0",
                complexity: "O(log N), N the number of connections",
                summary: "Ends the wait of a client in a blocking command.",
                syntax: "client-id [TIMEOUT | ERROR]",
                handler: crate::commands::connection::client::client_unblock,
                ..Spec::DEFAULT
            },
            Spec {
                name: "help",
                arity: 2,
                flags: flags("loading stale"),
                group: Group::Connection,
                since: "5.0.0",
                summary: "Returns help on the subcommands.",
                handler: crate::commands::connection::client::client_help,
                ..Spec::DEFAULT
            },
        ],
        ..Spec::DEFAULT
    },
];
