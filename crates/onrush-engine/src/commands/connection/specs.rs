//! Rows of the command table: the commands about connections.

use crate::command::spec::{Group, Spec};
use crate::commands::connection::{self, client, tracking};

/// The flags of a command that is executed at once, whatever state the connection is in.
const AT_ANY_TIME: &str = "noscript loading stale fast no_auth allow_busy not_queued for_subscribers";

/// The commands about connections.
pub(crate) static SPECS: &[Spec] = &[
    Spec::connection("auth", "1.0.0", -2, "noscript loading stale fast no_auth allow_busy", connection::auth)
        .syntax("[username] password")
        .summary("Authenticates the connection.")
        .complexity("O(N), N the number of the user's passwords")
        .history(&[("6.0.0", "User name.")]),
    Spec::connection("hello", "6.0.0", -1, "noscript loading stale fast no_auth allow_busy", connection::hello)
        .syntax("[protover [AUTH username password] [SETNAME clientname]]")
        .summary("Chooses the protocol version and tells about the server; may authenticate too.")
        .history(&[("6.2.0", "The protocol version may be left out.")]),
    Spec::connection("ping", "1.0.0", -1, "fast short for_subscribers", connection::ping)
        .syntax("[message]")
        .summary("Answers PONG, or the message.")
        .tips("request_policy:all_shards response_policy:all_succeeded"),
    Spec::connection("echo", "1.0.0", 2, "loading stale fast short", connection::echo)
        .syntax("message")
        .summary("Returns the message."),
    Spec::connection("select", "1.0.0", 2, "loading stale fast short", connection::select)
        .syntax("index")
        .summary("Changes the connection's database."),
    Spec::connection("quit", "1.0.0", -1, AT_ANY_TIME, connection::quit)
        .summary("Closes the connection once earlier replies are sent."),
    Spec::connection("reset", "6.2.0", 1, AT_ANY_TIME, connection::reset)
        .summary("Puts the connection back into the state it began in."),
    Spec::container(Group::Connection, "client", "2.4.0", CLIENT)
        .summary("Container of commands about client connections."),
];

static CLIENT: &[Spec] = &[
    Spec::connection("id", "5.0.0", 2, "noscript loading stale", client::client_id)
        .summary("Returns the connection's id."),
    Spec::connection("info", "6.2.0", 2, "noscript loading stale", client::client_info)
        .summary("Tells about this connection.")
        .tips("nondeterministic_output"),
    Spec::connection("list", "2.4.0", -2, "admin noscript loading stale", client::client_list)
        .syntax("[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]")
        .summary("Lists the connected clients.")
        .complexity("O(N), N the number of connections")
        .tips("nondeterministic_output")
        .history(&[
            ("2.8.12", "Field `id`."),
            ("5.0.0", "Filter `TYPE`."),
            ("6.0.0", "Field `user`."),
            ("6.2.0", "Fields `argv-mem`, `tot-mem`, `laddr` and `redir`; filter `ID`."),
            ("7.0.0", "Fields `resp`, `multi-mem`, `rbs` and `rbp`."),
            ("7.0.3", "Field `ssub`."),
        ]),
    Spec::connection("kill", "2.4.0", -3, "admin noscript loading stale", client::client_kill)
        .syntax(
            "<ip:port | <[ID client-id] | [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] | [USER username] | \
             [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | [MAXAGE maxage]> \
             [<[ID client-id] | [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] | [USER username] | \
             [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | [MAXAGE maxage]> ...]>",
        )
        .summary("Closes connections of an address or that pass filters.")
        .complexity("O(N), N the number of connections")
        .history(&[
            ("2.8.12", "Filters."),
            ("2.8.12", "Filter `ID`."),
            ("3.2.0", "Type `master`."),
            ("5.0.0", "Type `replica`, as another name of `slave`."),
            ("6.2.0", "Filter `LADDR`."),
            ("7.4.0", "Filter `MAXAGE`."),
        ]),
    Spec::connection("getname", "2.6.9", 2, "noscript loading stale", client::client_getname)
        .summary("Returns the connection's name."),
    Spec::connection("setname", "2.6.9", 3, "noscript loading stale", client::client_setname)
        .syntax("connection-name")
        .summary("Names the connection."),
    Spec::connection("setinfo", "7.2.0", 4, "noscript loading stale", client::client_setinfo)
        .syntax("<LIB-NAME libname | LIB-VER libver>")
        .summary("Tells the server which client library the connection uses.")
        .tips("request_policy:all_nodes response_policy:all_succeeded"),
    Spec::connection("reply", "3.2.0", 3, "noscript loading stale", client::client_reply)
        .syntax("<ON | OFF | SKIP>")
        .summary("Turns replies to the connection off and on."),
    Spec::connection("pause", "2.9.50", -3, "admin noscript loading stale", client::client_pause)
        .syntax("timeout [WRITE | ALL]")
        .summary("Holds back the commands of all clients for some time.")
        .history(&[("6.2.0", "Modes `WRITE` and `ALL`.")]),
    Spec::connection("unpause", "6.2.0", 2, "admin noscript loading stale", client::client_unpause)
        .summary("Ends CLIENT PAUSE.")
        .complexity("O(N), N the number of paused clients"),
    Spec::connection("no-evict", "7.0.0", 3, "admin noscript loading stale", client::client_no_evict)
        .syntax("<ON | OFF>")
        .summary("Protects the connection from being closed to save memory."),
    Spec::connection("no-touch", "7.2.0", 3, "noscript loading stale", client::client_no_touch)
        .syntax("<ON | OFF>")
        .summary("Keeps the connection's commands from changing access times of keys."),
    Spec::connection("durability", "7.2.0", -3, "noscript loading stale", client::client_durability)
        .syntax("<ALWAYS | EVERYSEC | NO | DEFAULT> [REPLICAS <number | DEFAULT>]")
        .summary(
            "Says when this connection's writes are to be on the disk: before their replies, about a second later, or \
             whenever; and how many replicas must have them before their replies.",
        ),
    Spec::connection("getredir", "6.0.0", 2, "noscript loading stale", tracking::client_getredir)
        .summary("Returns the client that gets this connection's invalidation messages."),
    Spec::connection("trackinginfo", "6.2.0", 2, "noscript loading stale", tracking::client_trackinginfo)
        .summary("Tells about the connection's client-side caching."),
    Spec::connection("tracking", "6.0.0", -3, "noscript loading stale", tracking::client_tracking)
        .syntax("<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]")
        .summary("Turns messages to the connection about changes of what it has read on or off.")
        .complexity("O(1). Some options may introduce additional complexity."),
    Spec::connection("caching", "6.0.0", 3, "noscript loading stale", tracking::client_caching)
        .syntax("<YES | NO>")
        .summary("Says whether what the next command reads is tracked."),
    Spec::connection("unblock", "5.0.0", -3, "admin noscript loading stale", client::client_unblock)
        .syntax("client-id [TIMEOUT | ERROR]")
        .summary("Ends the wait of a client in a blocking command.")
        .complexity("O(log N), N the number of connections"),
    Spec::help(Group::Connection, "5.0.0"),
];
