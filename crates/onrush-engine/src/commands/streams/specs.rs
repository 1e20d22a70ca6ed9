//! Rows of the command table: the stream commands.

use crate::batch::argv::Arguments;
use crate::command::key_spec::{Invalid, KeyRef, KeyRefs, key_flags};
use crate::command::spec::{BeginSearch, FindKeys, Group, KeySpec, Spec};
use crate::commands::streams::{self, deletions, groups, idempotency, pending, reads, releases};

/// The stream commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::stream("xadd", "5.0.0", -5, "write denyoom fast short", streams::xadd)
        .syntax(
            "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | IDMP producer-id idempotent-id] \
             [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
        )
        .summary("Appends an entry to a stream; the stream is made if it is not there.")
        .complexity("O(1), O(N) for N entries cut off")
        .key("RW update")
        .tips("nondeterministic_output")
        .history(&[
            ("6.2.0", "Options `NOMKSTREAM`, `MINID` and `LIMIT`."),
            ("7.0.0", "Identifiers of the form `<ms>-*`."),
            ("8.2.0", "Options `KEEPREF`, `DELREF` and `ACKED`."),
            ("8.6.0", "Options `IDMP` and `IDMPAUTO`."),
        ]),
    Spec::stream("xcfgset", "8.6.0", -2, "write fast", idempotency::xcfgset)
        .syntax("key [IDMP-DURATION idmp-duration] [IDMP-MAXSIZE idmp-maxsize]")
        .summary("Sets how long, and how many, messages of producers are remembered.")
        .complexity("O(1), O(N) for N messages forgotten")
        .key("RW update"),
    Spec::stream("xidmprecord", "8.8.0", 5, "write denyoom fast", idempotency::xidmprecord)
        .syntax("key pid iid stream-id")
        .summary("Says which entry a producer's message became; the command log has it.")
        .key("RW update"),
    Spec::stream("xrange", "5.0.0", -4, "readonly", |ctx| streams::range(ctx, false))
        .syntax("key start end [COUNT count]")
        .summary("Returns the entries within an interval.")
        .complexity("O(N) for N entries returned")
        .key("RO access"),
    Spec::stream("xrevrange", "5.0.0", -4, "readonly", |ctx| streams::range(ctx, true))
        .syntax("key end start [COUNT count]")
        .summary("Returns the entries within an interval, newest first.")
        .complexity("O(N) for N entries returned")
        .key("RO access"),
    Spec::stream("xlen", "5.0.0", 2, "readonly fast short", streams::xlen)
        .syntax("key")
        .summary("Returns the number of entries of a stream.")
        .key("RO"),
    Spec::stream("xread", "5.0.0", -4, "readonly blocking", reads::xread)
        .syntax("[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]")
        .summary("Returns the entries behind given ones of several streams, or waits for some.")
        .complexity("O(N) for N entries returned")
        .keys(&[KeySpec::new(
            "RO access",
            BeginSearch::Keyword { keyword: "STREAMS", start_from: 1 },
            FindKeys::Range { last: -1, step: 1, limit: 2 },
        )])
        .history(&[("7.4.0", "`+` stands for the last entry there is.")]),
    Spec::stream("xreadgroup", "5.0.0", -7, "write blocking", reads::xreadgroup)
        .syntax("GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]")
        .summary("Gives a consumer of a group the next entries of several streams, or waits for some.")
        .complexity("O(N) for N entries returned")
        .keys(&[KeySpec::new(
            "RO access",
            BeginSearch::Keyword { keyword: "STREAMS", start_from: 4 },
            FindKeys::Range { last: -1, step: 1, limit: 2 },
        )])
        .get_keys(xreadgroup_keys),
    Spec::container(Group::Stream, "xgroup", "5.0.0", XGROUP).summary("Manages the consumer groups of a stream."),
    Spec::stream("xsetid", "5.0.0", -3, "write denyoom fast short", streams::xsetid)
        .syntax("key last-id [ENTRIESADDED entries_added] [MAXDELETEDID max_deleted_entry_id]")
        .summary("Sets the last identifier of a stream.")
        .key("RW update"),
    Spec::stream("xack", "5.0.0", -4, "write fast short", pending::xack)
        .syntax("key group id [id ...]")
        .summary("Acknowledges entries.")
        .complexity("O(log N) for each entry")
        .key("RW update"),
    Spec::stream("xnack", "8.8.0", -7, "write fast short", releases::xnack)
        .syntax("key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]")
        .summary("Gives pending entries back to their group, for whoever claims them.")
        .complexity("O(log N) for each entry")
        .key("RW update"),
    Spec::stream("xpending", "5.0.0", -3, "readonly", pending::xpending)
        .syntax("key group [[IDLE min-idle-time] start end count [consumer]]")
        .summary("Tells which entries are pending.")
        .complexity("O(N) for N entries returned")
        .key("RO access")
        .tips("nondeterministic_output"),
    Spec::stream("xclaim", "5.0.0", -6, "write fast", pending::xclaim)
        .syntax(
            "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] \
             [FORCE] [JUSTID] [LASTID id]",
        )
        .summary("Gives pending entries to a consumer.")
        .complexity("O(log N) for each entry")
        .key("RW update")
        .tips("nondeterministic_output"),
    Spec::stream("xautoclaim", "6.2.0", -6, "write fast", pending::xautoclaim)
        .syntax("key group consumer min-idle-time start [COUNT count] [JUSTID]")
        .summary("Gives entries that are pending for long to a consumer.")
        .complexity("O(1) for a small count")
        .key("RW delete")
        .tips("nondeterministic_output"),
    Spec::container(Group::Stream, "xinfo", "5.0.0", XINFO).summary("Tells about streams and their groups."),
    Spec::stream("xdel", "5.0.0", -3, "write fast short", streams::xdel)
        .syntax("key id [id ...]")
        .summary("Deletes entries.")
        .complexity("O(log N) for each entry")
        .key("RW delete"),
    Spec::stream("xdelex", "8.2.0", -5, "write fast short", deletions::xdelex)
        .syntax("key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]")
        .summary("Deletes entries, and says what happens to references that consumer groups have to them.")
        .complexity("O(log N) for each entry, for each group where groups are asked")
        .key("RW delete"),
    Spec::stream("xackdel", "8.2.0", -6, "write fast short", deletions::xackdel)
        .syntax("key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]")
        .summary("Acknowledges entries and deletes them.")
        .complexity("O(log N) for each entry, for each group where groups are asked")
        .key("RW update delete"),
    Spec::stream("xtrim", "5.0.0", -4, "write", streams::xtrim)
        .syntax("key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]")
        .summary("Cuts a stream off at its old end.")
        .complexity("O(N) for N entries removed")
        .key("RW delete")
        .tips("nondeterministic_output")
        .history(&[("6.2.0", "Options `MINID` and `LIMIT`."), ("8.2.0", "Options `KEEPREF`, `DELREF` and `ACKED`.")]),
];

static XGROUP: &[Spec] = &[
    Spec::stream("create", "5.0.0", -5, "write denyoom", groups::create)
        .syntax("key groupname <id | $> [MKSTREAM] [ENTRIESREAD entries_read]")
        .summary("Makes a consumer group.")
        .keys(&[KeySpec::keys("RW insert", 2, 0, 1)]),
    Spec::stream("setid", "5.0.0", -5, "write", groups::setid)
        .syntax("key groupname <id | $> [ENTRIESREAD entries_read]")
        .summary("Sets the entry behind which a group goes on.")
        .keys(&[KeySpec::keys("RW update", 2, 0, 1)]),
    Spec::stream("destroy", "5.0.0", 4, "write", groups::destroy)
        .syntax("key groupname")
        .summary("Deletes a consumer group.")
        .complexity("O(N) for N pending entries")
        .keys(&[KeySpec::keys("RW delete", 2, 0, 1)]),
    Spec::stream("createconsumer", "6.2.0", 5, "write denyoom", groups::createconsumer)
        .syntax("key groupname consumername")
        .summary("Makes a consumer of a group.")
        .keys(&[KeySpec::keys("RW insert", 2, 0, 1)]),
    Spec::stream("delconsumer", "5.0.0", 5, "write", groups::delconsumer)
        .syntax("key groupname consumername")
        .summary("Deletes a consumer with what is pending for it.")
        .keys(&[KeySpec::keys("RW delete", 2, 0, 1)]),
    Spec::help(Group::Stream, "5.0.0").summary("Lists the subcommands."),
];

static XINFO: &[Spec] = &[
    Spec::stream("consumers", "5.0.0", 4, "readonly", groups::info_consumers)
        .syntax("key groupname")
        .summary("Lists the consumers of a group.")
        .keys(&[KeySpec::keys("RO access", 2, 0, 1)])
        .tips("nondeterministic_output"),
    Spec::stream("groups", "5.0.0", 3, "readonly", groups::info_groups)
        .syntax("key")
        .summary("Lists the groups of a stream.")
        .keys(&[KeySpec::keys("RO access", 2, 0, 1)]),
    Spec::stream("stream", "5.0.0", -3, "readonly", groups::info_stream)
        .syntax("key [FULL [COUNT count]]")
        .summary("Tells about a stream.")
        .keys(&[KeySpec::keys("RO access", 2, 0, 1)]),
    Spec::help(Group::Stream, "5.0.0").summary("Lists the subcommands."),
];

/// The keys behind the word that begins them: a group or a consumer may have the same name.
fn xreadgroup_keys(argv: &dyn Arguments, found: &mut KeyRefs) -> Result<(), Invalid> {
    let mut index = 1;
    loop {
        if index + 1 >= argv.len() {
            return Err(Invalid);
        }
        let is = |word: &[u8]| argv.get(index).eq_ignore_ascii_case(word);
        index += match () {
            () if is(b"STREAMS") => break,
            () if is(b"GROUP") => 3,
            () if is(b"COUNT") || is(b"BLOCK") => 2,
            () if is(b"NOACK") => 1,
            () => return Err(Invalid),
        };
    }
    let first = index + 1;
    let keys = first..first + (argv.len() - first) / 2;
    found.extend(keys.map(|index| KeyRef { index, flags: key_flags("RO access") }));
    Ok(())
}
