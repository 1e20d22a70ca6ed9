//! Replies of the COMMAND family, and HELP of every container, all made from the table's specs.

use onrush_resp::Reply;

use super::argument::{self, Argument};
use super::find_keys;
use super::key_spec::KeyRange;
use super::spec::{
    BeginSearch, CATEGORY_NAMES, Categories, FLAG_NAMES, FindKeys, Flags, KEY_FLAG_NAMES, KeyFlags, KeySpec, Spec,
};
use super::table::{Command, CommandTable};
use crate::batch::argv::Arguments;
use crate::error::{self, CommandError};
use crate::formats::glob::glob_match;

/// COMMAND: details of all commands.
pub fn command(table: &CommandTable, out: &mut Reply) {
    out.array(table.top_level().count());
    for command in table.top_level() {
        details(table, command, out);
    }
}

/// COMMAND COUNT: how many commands there are, subcommands not counted.
pub fn count(table: &CommandTable, out: &mut Reply) {
    out.int(table.top_level().count() as i64);
}

/// COMMAND INFO: details of the commands named from argument 2 on, null for those unknown; of all without names.
pub fn info<A: Arguments + ?Sized>(table: &CommandTable, argv: &A, out: &mut Reply) {
    if argv.len() <= 2 {
        return command(table, out);
    }
    out.array(argv.len() - 2);
    for index in 2..argv.len() {
        match table.lookup_full(argv.get(index)) {
            Some(command) => details(table, command, out),
            None => out.null(),
        }
    }
}

/// COMMAND DOCS: documentation of the commands named from argument 2 on, unknown ones left out; of all without names.
pub fn docs<A: Arguments + ?Sized>(table: &CommandTable, argv: &A, out: &mut Reply) {
    let commands: Vec<&Command> = if argv.len() <= 2 {
        table.top_level().collect()
    } else {
        (2..argv.len()).filter_map(|index| table.lookup_full(argv.get(index))).collect()
    };
    out.map(commands.len());
    for command in commands {
        document(table, command, out);
    }
}

/// COMMAND LIST: names of all commands and subcommands, or of those that pass a filter.
///
/// # Errors
/// `ERR syntax error`
pub fn list<A: Arguments + ?Sized>(table: &CommandTable, argv: &A, out: &mut Reply) -> Result<(), CommandError> {
    let filter = match argv.len() {
        2 => Filter::All,
        5 if argv.get(2).eq_ignore_ascii_case(b"filterby") => Filter::new(argv.get(3), argv.get(4))?,
        _ => return Err(error::SYNTAX),
    };
    let names: Vec<&str> =
        table.all().filter(|command| filter.passes(command)).map(|command| command.full_name.as_ref()).collect();
    out.array(names.len());
    for name in names {
        out.bulk(name.as_bytes());
    }
    Ok(())
}

/// FILTERBY of COMMAND LIST.
enum Filter<'a> {
    All,
    Categories(Categories),
    Pattern(&'a [u8]),
    /// No command belongs to a module or to an unknown category.
    Nothing,
}

impl<'a> Filter<'a> {
    fn new(by: &[u8], value: &'a [u8]) -> Result<Self, CommandError> {
        if by.eq_ignore_ascii_case(b"module") {
            Ok(Self::Nothing)
        } else if by.eq_ignore_ascii_case(b"aclcat") {
            let named = CATEGORY_NAMES.iter().find(|(_, name)| value.eq_ignore_ascii_case(name.as_bytes()));
            Ok(named.map_or(Self::Nothing, |&(category, _)| Self::Categories(category)))
        } else if by.eq_ignore_ascii_case(b"pattern") {
            Ok(Self::Pattern(value))
        } else {
            Err(error::SYNTAX)
        }
    }

    fn passes(&self, command: &Command) -> bool {
        match self {
            Self::All => true,
            Self::Categories(category) => command.categories.contains(*category),
            Self::Pattern(pattern) => glob_match(pattern, command.full_name.as_bytes(), true),
            Self::Nothing => false,
        }
    }
}

/// COMMAND GETKEYS: the keys of the call that stands from argument 2 on.
///
/// # Errors
/// See [`find_keys::keys_of_call`].
pub(crate) fn getkeys<A: Arguments + ?Sized>(
    table: &CommandTable,
    argv: &A,
    out: &mut Reply,
) -> Result<(), CommandError> {
    tell_keys(table, argv, out, |key, _, out| out.bulk(key))
}

/// COMMAND GETKEYSANDFLAGS: as GETKEYS, with what happens to each key.
///
/// # Errors
/// See [`find_keys::keys_of_call`].
pub(crate) fn getkeysandflags<A: Arguments + ?Sized>(
    table: &CommandTable,
    argv: &A,
    out: &mut Reply,
) -> Result<(), CommandError> {
    tell_keys(table, argv, out, |key, flags, out| {
        out.array(2);
        out.bulk(key);
        key_flags(flags, out);
    })
}

fn tell_keys<A: Arguments + ?Sized>(
    table: &CommandTable,
    argv: &A,
    out: &mut Reply,
    tell: impl Fn(&[u8], KeyFlags, &mut Reply),
) -> Result<(), CommandError> {
    let call = Call(argv);
    let keys = find_keys::keys_of_call(table, &call)?;
    out.array(keys.len());
    keys.into_iter().for_each(|key| tell(call.get(key.index), key.flags, out));
    Ok(())
}

/// The call inside COMMAND GETKEYS.
struct Call<'a, A: ?Sized>(&'a A);

/// Arguments in front of the call.
const CALL_FIRST: usize = 2;

impl<A: Arguments + ?Sized> Arguments for Call<'_, A> {
    fn len(&self) -> usize {
        self.0.len().saturating_sub(CALL_FIRST)
    }

    fn get(&self, index: usize) -> &[u8] {
        self.0.get(index + CALL_FIRST)
    }
}

/// HELP of the container that `command` is, or is a subcommand of: each subcommand's syntax and summary.
pub fn help(table: &CommandTable, command: &Command, out: &mut Reply) {
    let container = command.parent.map_or(command, |id| table.command(id));
    let mut lines = Vec::new();
    let title = container.spec.name.to_ascii_uppercase();
    lines.push(format!("{title} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    if container.accepts(1) {
        lines.push("(no subcommand)".to_owned());
        lines.push(format!("    {}", container.spec.summary));
    }
    for id in container.subcommands() {
        let spec = table.command(id).spec;
        lines.push(format!("{} {}", spec.name.to_ascii_uppercase(), spec.syntax).trim_end().to_owned());
        lines.push(format!("    {}", spec.summary));
    }
    out.array(lines.len());
    for line in lines {
        out.simple(&line);
    }
}

/// What COMMAND and COMMAND INFO show of a command, its subcommands included.
fn details(table: &CommandTable, command: &Command, out: &mut Reply) {
    out.array(10);
    out.bulk(command.full_name.as_bytes());
    out.int(command.arity.into());
    let shown = command.flags & Flags::SHOWN;
    simple_set(names_of(FLAG_NAMES, |flag| shown.contains(flag)), out);
    let numbers = command.plan.map_or([0; 3], |KeyRange { first, last, step }| [first, last, step]);
    for number in numbers {
        out.int(number.into());
    }
    let categories = names_of(CATEGORY_NAMES, |category| command.categories.contains(category));
    set(categories, out, |name, out| out.simple(&format!("@{name}")));
    set(command.spec.tips.split_ascii_whitespace(), out, |tip, out| out.bulk(tip.as_bytes()));
    set(command.spec.key_specs().iter(), out, key_spec);
    // Redis returns an empty set if there are no subcommands, and otherwise an array.
    if command.is_container() {
        out.array(command.subcommands().len())
    } else {
        out.set(0)
    }
    for id in command.subcommands() {
        details(table, table.command(id), out);
    }
}

fn set<T>(items: impl Iterator<Item = T> + Clone, out: &mut Reply, tell: impl Fn(T, &mut Reply)) {
    out.set(items.clone().count());
    items.for_each(|item| tell(item, out));
}

fn simple_set(names: impl Iterator<Item = &'static str> + Clone, out: &mut Reply) {
    set(names, out, |name, out| out.simple(name));
}

/// The names of the flags that are there, from a table of names.
fn names_of<F: Copy>(
    names: &'static [(F, &'static str)],
    is_there: impl Fn(F) -> bool + Clone,
) -> impl Iterator<Item = &'static str> + Clone {
    names.iter().filter(move |(flag, _)| is_there(*flag)).map(|(_, name)| *name)
}

/// The names of which it is true that they apply.
fn applying(names: &[(bool, &'static str)]) -> impl Iterator<Item = &'static str> + Clone {
    names.iter().filter(|(applies, _)| *applies).map(|(_, name)| *name)
}

fn key_flags(flags: KeyFlags, out: &mut Reply) {
    simple_set(names_of(KEY_FLAG_NAMES, |flag| flags.contains(flag)), out);
}

fn key_spec(spec: &KeySpec, out: &mut Reply) {
    let has_notes = !spec.notes.is_empty();
    out.map(3 + usize::from(has_notes));
    if has_notes {
        text("notes", spec.notes, out);
    }
    out.bulk(b"flags");
    key_flags(spec.flags, out);
    out.bulk(b"begin_search");
    match spec.begin {
        BeginSearch::Unknown => search("unknown", &[], out),
        BeginSearch::Index(index) => search("index", &[("index", index.into())], out),
        BeginSearch::Keyword { keyword, start_from } => {
            out.map(2);
            text("type", "keyword", out);
            out.bulk(b"spec");
            out.map(2);
            text("keyword", keyword, out);
            number("startfrom", start_from.into(), out);
        }
    }
    out.bulk(b"find_keys");
    match spec.find {
        FindKeys::Unknown => search("unknown", &[], out),
        FindKeys::Range { last, step, limit } => {
            search("range", &[("lastkey", last.into()), ("keystep", step.into()), ("limit", limit.into())], out);
        }
        FindKeys::KeyNum { num_index, first, step } => {
            let numbers = [("keynumidx", num_index.into()), ("firstkey", first.into()), ("keystep", step.into())];
            search("keynum", &numbers, out);
        }
    }
}

/// One half of a key spec, if its parts are numbers.
fn search(kind: &str, numbers: &[(&str, i64)], out: &mut Reply) {
    out.map(2);
    text("type", kind, out);
    out.bulk(b"spec");
    out.map(numbers.len());
    for (name, value) in numbers {
        number(name, *value, out);
    }
}

/// A pair of a map.
fn text(name: &str, value: &str, out: &mut Reply) {
    out.bulk(name.as_bytes());
    out.bulk(value.as_bytes());
}

/// A pair of a map.
fn number(name: &str, value: i64, out: &mut Reply) {
    out.bulk(name.as_bytes());
    out.int(value);
}

/// A command's name and documentation: a pair of a map.
fn document(table: &CommandTable, command: &Command, out: &mut Reply) {
    let spec = command.spec;
    // A line that does not parse is left out; a test parses all of them.
    let arguments = argument::arguments(spec).unwrap_or_default();
    let optional = [
        !spec.complexity.is_empty(),
        spec.deprecated.is_some() || spec.syscmd,
        !spec.history.is_empty(),
        !arguments.is_empty(),
        command.is_container(),
    ];
    let deprecated_len = if spec.deprecated.is_some() { 2 } else { 0 };
    out.bulk(command.full_name.as_bytes());
    out.map(3 + optional.into_iter().filter(|&present| present).count() + deprecated_len);
    text("summary", spec.summary, out);
    text("since", spec.since, out);
    text("group", spec.group.name(), out);
    if !spec.complexity.is_empty() {
        text("complexity", spec.complexity, out);
    }
    standing(spec, out);
    if !spec.history.is_empty() {
        out.bulk(b"history");
        set(spec.history.iter(), out, |(version, change), out| {
            out.array(2);
            text(version, change, out);
        });
    }
    if !arguments.is_empty() {
        document_arguments(&arguments, out);
    }
    if command.is_container() {
        out.bulk(b"subcommands");
        out.map(command.subcommands().len());
        for id in command.subcommands() {
            document(table, table.command(id), out);
        }
    }
}

/// Whether and since when a command is out of use, or not for applications.
fn standing(spec: &Spec, out: &mut Reply) {
    if spec.deprecated.is_some() || spec.syscmd {
        out.bulk(b"doc_flags");
        simple_set(applying(&[(spec.deprecated.is_some(), "deprecated"), (spec.syscmd, "syscmd")]), out);
    }
    if let Some(deprecated) = spec.deprecated {
        text("deprecated_since", deprecated.since, out);
        text("replaced_by", deprecated.replaced_by, out);
    }
}

/// A pair of a map.
fn document_arguments(arguments: &[Argument], out: &mut Reply) {
    out.bulk(b"arguments");
    out.array(arguments.len());
    for argument in arguments {
        let flags = [
            (argument.optional, "optional"),
            (argument.multiple, "multiple"),
            (argument.multiple_token, "multiple_token"),
        ];
        let flags = applying(&flags);
        let has_flags = flags.clone().count() > 0;
        let optional = [argument.key_spec_index.is_some(), argument.token.is_some(), has_flags];
        // Also: the children of a group, or the display text of any other argument.
        out.map(3 + optional.into_iter().filter(|&present| present).count());
        text("name", &argument.name, out);
        text("type", argument.kind.name(), out);
        if !argument.is_group() {
            text("display_text", &argument.name, out);
        }
        if let Some(index) = argument.key_spec_index {
            number("key_spec_index", index as i64, out);
        }
        if let Some(token) = &argument.token {
            text("token", token, out);
        }
        if has_flags {
            out.bulk(b"flags");
            simple_set(flags, out);
        }
        if argument.is_group() {
            document_arguments(&argument.children, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::spec::{Group, unreached};

    static SPECS: &[Spec] = &[
        Spec::string("get", "1.0.0", 2, "readonly fast short", unreached)
            .syntax("key")
            .summary("Sum.")
            .key("RO access")
            .deprecated("9.0.0", "`X`"),
        Spec::container(Group::Server, "config", "1.0.0", CONFIG),
    ];

    static CONFIG: &[Spec] = &[
        Spec::server("get", "1.0.0", -3, "", unreached).syntax("parameter").summary("Gets."),
        Spec::server("help", "1.0.0", 2, "", unreached).summary("Helps."),
    ];

    fn encoded(write: impl Fn(&CommandTable, &mut Reply)) -> String {
        let mut out = Reply::new();
        write(&CommandTable::new(&[SPECS]), &mut out);
        String::from_utf8(out.as_single_slice().unwrap().to_vec()).unwrap().replace("\r\n", " ")
    }

    fn argv(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    #[test]
    fn info_tells_rows_and_null_for_unknown_names() {
        assert_eq!(
            encoded(|table, out| info(table, argv("command info GET nope").as_slice(), out)),
            "*2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *3 +@read +@string +@fast *0 \
             *1 *6 $5 flags *2 +RO +access $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 \
             $9 find_keys *4 $4 type $5 range $4 spec *6 $7 lastkey :0 $7 keystep :1 $5 limit :0 *0 $-1 "
        );
    }

    #[test]
    fn docs_tell_what_is_there_and_leave_out_unknown_names() {
        assert_eq!(
            encoded(|table, out| docs(table, argv("command docs get nope").as_slice(), out)),
            "*2 $3 get *16 $7 summary $4 Sum. $5 since $5 1.0.0 $5 group $6 string $10 complexity $4 O(1) \
             $9 doc_flags *1 +deprecated $16 deprecated_since $5 9.0.0 $11 replaced_by $3 `X` \
             $9 arguments *1 *8 $4 name $3 key $4 type $3 key $12 display_text $3 key $14 key_spec_index :0 "
        );
    }

    #[test]
    fn list_filters_names_of_commands_and_subcommands() {
        let list = |line: &str| encoded(|table, out| list(table, argv(line).as_slice(), out).unwrap());
        assert_eq!(list("command list"), "*4 $3 get $6 config $10 config|get $11 config|help ");
        assert_eq!(list("command list FILTERBY aclcat STRING"), "*1 $3 get ");
        assert_eq!(list("command list filterby pattern *GET"), "*2 $3 get $10 config|get ");
        assert_eq!(list("command list filterby module x"), "*0 ");
        let table = CommandTable::new(&[SPECS]);
        for wrong in ["command list filterby", "command list filterby foo x", "command list foo module x"] {
            let result = super::list(&table, argv(wrong).as_slice(), &mut Reply::new());
            assert_eq!(result, Err(error::SYNTAX));
        }
    }

    #[test]
    fn getkeysandflags_tells_what_happens_to_keys() {
        let reply = encoded(|table, out| {
            getkeysandflags(table, argv("command getkeysandflags get k").as_slice(), out).unwrap();
        });
        assert_eq!(reply, "*1 *2 $1 k *2 +RO +access ");
    }

    #[test]
    fn help_tells_syntax_and_summary_of_each_subcommand() {
        assert_eq!(
            encoded(|table, out| help(table, table.lookup_full(b"config|help").unwrap(), out)),
            "*5 +CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are: \
             +GET parameter +    Gets. +HELP +    Helps. "
        );
    }
}
