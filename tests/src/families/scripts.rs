//! Scripts and functions.

use super::Family;

/// Scripts, what is known of them, and libraries of functions. What scripts can do is in `cases/scripts.txt`.
pub const SCRIPTS: Family = Family {
    name: "scripts",
    args: &[],
    pipelined: true,
    reset: &["SCRIPT FLUSH SYNC", "FUNCTION FLUSH SYNC"],
    newer_lines: &[],
    lines: &[
        (20, "EVAL script numkeys key [key] [value]..."),
        (6, "EVAL_RO script numkeys key [value]"),
        (10, "EVALSHA sha numkeys key [key] [value]..."),
        (4, "EVALSHA_RO sha numkeys key [value]"),
        (8, "SCRIPT LOAD script"),
        (4, "SCRIPT EXISTS sha..."),
        (1, "SCRIPT KILL"),
        (1, "!SCRIPT DEBUG NO"),
        (1, "SCRIPT HELP"),
        (10, "FUNCTION LOAD [REPLACE] library-code"),
        (3, "FUNCTION DELETE library"),
        (3, "FUNCTION LIST [LIBRARYNAME library] [WITHCODE]"),
        (2, "FUNCTION STATS"),
        (2, "FUNCTION DUMP"),
        (2, "FUNCTION RESTORE value [FLUSH | APPEND | REPLACE]"),
        (1, "FUNCTION KILL"),
        (1, "FUNCTION HELP"),
        (10, "FCALL function numkeys key [value]"),
        (5, "FCALL_RO function numkeys key [value]"),
        (4, "SET key value"),
        (2, "HSET key element value"),
        (2, "GET key"),
    ],
};
