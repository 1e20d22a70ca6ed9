//! The command table: from a name to its command, and what is derived from specs once at start.

use super::flags::{Categories, Flags};
use super::key_spec::{self, KeyFlags, KeyRange, KeySpec};
use super::name_index::{CommandId, NO_ID, NO_PARENT, NameIndex};
use super::spec::{Group, Spec};
use crate::batch::argv::Arguments;
use crate::ctx::{Handler, RunHandler};
use crate::error::{self, CommandError};

/// A command ready to be dispatched.
#[derive(Clone)]
pub struct Command {
    /// Runs it.
    pub handler: Handler,
    /// As in the spec.
    pub run: Option<RunHandler>,
    /// As in the spec.
    pub arity: i32,
    /// The spec's flags and [`Flags::MOVABLEKEYS`] where it applies.
    pub flags: Flags,
    /// Its number.
    pub id: CommandId,
    /// The argument that is the first key, 0 if there is none at a fixed place.
    pub first_key: u8,
    /// The keys at fixed places, for the planner. Of a command with [`Flags::MOVABLEKEYS`] there may be more.
    pub(crate) plan: Option<KeyRange>,
    /// Whether it works only on the keys that its key specs name, and on nothing else of the keyspace.
    pub names_all_keys: bool,
    /// Whether it is short, works only on keys at fixed places, and is allowed in any transaction.
    pub is_simple: bool,
    /// ACL categories, implied ones included.
    pub(crate) categories: Categories,
    /// The container of a subcommand.
    pub parent: Option<CommandId>,
    /// Subcommands have consecutive numbers.
    first_subcommand: CommandId,
    subcommand_count: u16,
    /// Lower-case; `container|subcommand` of subcommands.
    pub full_name: Box<str>,
    /// Its name in this table, in lower case and without its container's name; `None` if `rename-command` removed it.
    pub(super) name: Option<Box<[u8]>>,
    /// The spec.
    pub(crate) spec: &'static Spec,
}

impl Command {
    fn new(spec: &'static Spec, id: CommandId, parent: Option<&Command>) -> Self {
        let plan = key_spec::fixed_range(spec.key_specs());
        let movable = key_spec::are_movable(spec.key_specs());
        Self {
            handler: spec.handler,
            run: spec.run,
            arity: spec.arity,
            flags: if movable { spec.flags | Flags::MOVABLEKEYS } else { spec.flags },
            id,
            first_key: plan.map_or(0, |keys| u8::try_from(keys.first).unwrap_or(0)),
            plan,
            names_all_keys: names_all_keys(spec),
            is_simple: plan.is_some()
                && !movable
                && spec.flags.contains(Flags::SHORT)
                && !spec.flags.intersects(SPECIAL),
            categories: spec.all_categories(),
            parent: parent.map(|parent| parent.id),
            first_subcommand: 0,
            subcommand_count: 0,
            name: Some(spec.name.as_bytes().into()),
            full_name: parent
                .map_or_else(|| spec.name.into(), |parent| format!("{}|{}", parent.full_name, spec.name).into()),
            spec,
        }
    }

    /// Whether `argc` arguments, the name included, are a number it accepts.
    #[inline]
    pub fn accepts(&self, argc: usize) -> bool {
        let arity = self.arity as isize;
        if arity >= 0 { argc as isize == arity } else { argc as isize >= -arity }
    }

    /// Whether it is refused while memory is over its limit.
    #[inline]
    pub(crate) fn is_denied_oom(&self) -> bool {
        self.flags.contains(Flags::DENYOOM)
    }

    /// Whether its run time is too short to be timed individually.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.flags.contains(Flags::SHORT)
    }

    /// Whether it names keys, and all of them are at fixed places: the planner finds and hashes them.
    #[inline]
    pub(crate) fn has_only_fixed_keys(&self) -> bool {
        self.plan.is_some() && !self.flags.contains(Flags::MOVABLEKEYS)
    }

    /// Whether its reply may report data that a failing disk can still take back: keys, or libraries of functions. Not so
    /// commands about the server, the connection, its messages and the script that runs: their replies never wait for the
    /// disk.
    pub fn may_report_data(&self) -> bool {
        self.has_keys() || self.flags.intersects(Flags::WRITE | Flags::READONLY | Flags::REPORTS_DATA)
    }

    /// Whether it names keys in its arguments.
    pub(crate) fn has_keys(&self) -> bool {
        has_keys(self.spec)
    }

    /// Whether it runs a script or a function.
    pub(crate) fn runs_program(&self) -> bool {
        self.spec.group == Group::Scripting && self.has_keys()
    }

    /// Whether it is the ASKING before another command.
    pub(crate) fn is_asking(&self) -> bool {
        self.parent.is_none() && self.spec.name == "asking"
    }

    /// Whether it executes a transaction.
    pub(crate) fn is_exec(&self) -> bool {
        self.flags.contains(Flags::EXEC)
    }

    /// Whether it has subcommands.
    #[inline]
    pub(crate) fn is_container(&self) -> bool {
        self.subcommand_count > 0
    }

    /// Numbers of its subcommands, in the order of their specs.
    pub fn subcommands(&self) -> std::ops::Range<CommandId> {
        self.first_subcommand..self.first_subcommand + self.subcommand_count
    }

    /// The error for a number of arguments it does not accept.
    #[cold]
    pub(crate) fn wrong_arity(&self) -> CommandError {
        CommandError::text(format!("ERR wrong number of arguments for '{}' command", self.full_name))
    }
}

/// Flags that keep a command from being simple.
const SPECIAL: Flags =
    Flags::OTHER_KEYS.union(Flags::NO_MULTI).union(Flags::NOT_QUEUED).union(Flags::BLOCKING).union(Flags::REMOTE);

fn has_keys(spec: &Spec) -> bool {
    let finds_keys = |spec: &KeySpec| !spec.flags.contains(KeyFlags::NOT_KEY);
    spec.get_keys.is_some() || spec.key_specs().iter().any(finds_keys)
}

fn names_all_keys(spec: &Spec) -> bool {
    !spec.flags.intersects(Flags::OTHER_KEYS | Flags::REMOTE)
        && (has_keys(spec) || spec.flags.intersects(Flags::SHORT | Flags::NO_KEYS))
}

/// All commands, found by name in one hash and usually one comparison.
pub struct CommandTable {
    commands: Box<[Command]>,
    names: NameIndex,
    /// The table before its commands were renamed.
    original: Option<Box<CommandTable>>,
}

impl CommandTable {
    /// The table of all specs in `families`. Commands are numbered in the order given, the commands first and all
    /// subcommands behind them.
    ///
    /// # Panics
    /// On two commands of one name, and on 65,535 or more commands.
    pub fn new(families: &[&'static [Spec]]) -> Self {
        let mut commands: Vec<Command> = Vec::new();
        for spec in families.iter().copied().flatten() {
            commands.push(Command::new(spec, next_id(&commands), None));
        }
        for container in 0..commands.len() {
            let spec = commands[container].spec;
            commands[container].first_subcommand = next_id(&commands);
            commands[container].subcommand_count = spec.subcommands.len() as u16;
            for subcommand in spec.subcommands {
                let command = Command::new(subcommand, next_id(&commands), Some(&commands[container]));
                commands.push(command);
            }
        }
        Self { names: NameIndex::new(&commands), commands: commands.into(), original: None }
    }

    /// The same commands under their original names, which the command log has.
    #[inline]
    pub fn original(&self) -> &CommandTable {
        self.original.as_deref().unwrap_or(self)
    }

    /// Whether any command has another name than its original one.
    #[inline]
    pub(crate) fn is_renamed(&self) -> bool {
        self.original.is_some()
    }

    /// The same commands under other names. Each pair is a command's present name and its new name; an empty new name
    /// removes the command. Descriptions of a command keep its original name, and so does the command log.
    ///
    /// # Errors
    /// A name has no command, or the new name already has one.
    pub fn renamed(mut self, renames: &[(Vec<u8>, Vec<u8>)]) -> Result<Self, &'static str> {
        if !renames.is_empty() && self.original.is_none() {
            let (commands, names) = (self.commands.clone(), NameIndex::new(&self.commands));
            self.original = Some(Box::new(Self { commands, names, original: None }));
        }
        for (from, to) in renames {
            let Some(id) = self.lookup(from).map(|command| command.id) else {
                return Err("No such command in rename-command");
            };
            if !to.is_empty() && self.lookup(to).is_some_and(|other| other.id != id) {
                return Err("Target command name already exists");
            }
            self.commands[id as usize].name = (!to.is_empty()).then(|| to.to_ascii_lowercase().into());
            self.names = NameIndex::new(&self.commands);
        }
        Ok(self)
    }

    /// Number of commands, subcommands included: one more than the highest id.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The command with a number.
    ///
    /// # Panics
    /// If the number is not from this table.
    #[inline]
    pub fn command(&self, id: CommandId) -> &Command {
        &self.commands[id as usize]
    }

    /// All commands by ascending number, subcommands included.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &Command> {
        self.commands.iter()
    }

    /// Commands that are no subcommands, by ascending number.
    pub(crate) fn top_level(&self) -> impl Iterator<Item = &Command> + Clone {
        self.commands.iter().take_while(|command| command.parent.is_none())
    }

    /// A command by its name, in any case. Constant time, no allocation.
    #[inline]
    pub fn lookup(&self, name: &[u8]) -> Option<&Command> {
        self.names.find(&self.commands, name, NO_PARENT).map(|id| self.command(id))
    }

    /// A container's subcommand by its name, in any case. Constant time, no allocation.
    #[inline]
    pub(crate) fn lookup_subcommand(&self, container: &Command, name: &[u8]) -> Option<&Command> {
        self.names.find(&self.commands, name, container.id).map(|id| self.command(id))
    }

    /// A command or subcommand by its full name, as in `config|get`.
    pub(crate) fn lookup_full(&self, name: &[u8]) -> Option<&Command> {
        match memchr::memchr(b'|', name) {
            None => self.lookup(name),
            Some(bar) => self.lookup_subcommand(self.lookup(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// The command or subcommand that `argv` calls, whatever the number of its arguments: [`Command::accepts`] checks
    /// that.
    ///
    /// # Errors
    /// The error to answer when the command or its subcommand is unknown.
    #[inline]
    pub fn resolve<A: Arguments + ?Sized>(&self, argv: &A) -> Result<&Command, CommandError> {
        if argv.is_empty() {
            return Err(unknown_command(argv));
        }
        let Some(command) = self.lookup(argv.get(0)) else {
            return Err(unknown_command(argv));
        };
        if !command.is_container() || argv.len() == 1 {
            return Ok(command);
        }
        self.lookup_subcommand(command, argv.get(1)).ok_or_else(|| unknown_subcommand(command, argv.get(1)))
    }
}

fn next_id(commands: &[Command]) -> CommandId {
    CommandId::try_from(commands.len()).ok().filter(|&id| id != NO_ID).expect("fewer than 65,535 commands")
}

/// Bytes of a client's text that errors quote.
const QUOTED_LEN_MAX: usize = 128;

/// The part of `text` that an error quotes: as in Redis, it ends at a NUL.
fn quoted(text: &[u8], len_max: usize) -> &[u8] {
    let text = &text[..text.len().min(len_max)];
    error::quoted(text)
}

#[cold]
fn unknown_command<A: Arguments + ?Sized>(argv: &A) -> CommandError {
    let mut args = Vec::new();
    for index in 1..argv.len() {
        if args.len() >= QUOTED_LEN_MAX {
            break;
        }
        let room = QUOTED_LEN_MAX - args.len();
        args.push(b'\'');
        args.extend_from_slice(quoted(argv.get(index), room));
        args.extend_from_slice(b"' ");
    }
    let name = if argv.is_empty() { &[][..] } else { argv.get(0) };
    let parts = [&b"ERR unknown command '"[..], quoted(name, QUOTED_LEN_MAX), b"', with args beginning with: ", &args];
    CommandError::bytes(parts.concat())
}

#[cold]
fn unknown_subcommand(container: &Command, name: &[u8]) -> CommandError {
    let help = format!("'. Try {} HELP.", container.spec.name.to_ascii_uppercase());
    let parts = [b"ERR unknown subcommand '", quoted(name, QUOTED_LEN_MAX), help.as_bytes()];
    CommandError::bytes(parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::spec::unreached;

    static SPECS: &[Spec] = &[
        Spec::string("get", "1.0.0", 2, "", unreached).key("RO access"),
        Spec::string("mset", "1.0.1", -3, "", unreached).keys(&[KeySpec::keys("OW update", 1, -1, 2)]),
        Spec::geo("georadiusbymember_ro", "3.2.10", -5, "", unreached),
        Spec::geo("georadiusbymember", "3.2.0", -5, "", unreached),
        Spec::container(Group::Server, "config", "2.0.0", CONFIG),
    ];

    static CONFIG: &[Spec] =
        &[Spec::server("get", "2.0.0", -3, "admin", unreached), Spec::server("resetstat", "2.0.0", 2, "", unreached)];

    fn table() -> CommandTable {
        CommandTable::new(&[SPECS])
    }

    fn error(argv: &[&[u8]]) -> String {
        let table = table();
        let error = table.resolve(argv).map_or_else(|error| error, Command::wrong_arity);
        String::from_utf8(error.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn names_are_found_in_any_case_and_told_apart_by_container() {
        let table = table();
        assert_eq!(table.lookup(b"GeT").unwrap().full_name.as_ref(), "get");
        assert_eq!(table.lookup(b"GEORADIUSBYMEMBER_RO").unwrap().full_name.as_ref(), "georadiusbymember_ro");
        assert_eq!(table.lookup_full(b"config|GET").unwrap().full_name.as_ref(), "config|get");
        assert_eq!(table.resolve(&[b"CONFIG".as_slice(), b"Get", b"*"][..]).unwrap().full_name.as_ref(), "config|get");
        for unknown in [&b""[..], b"g", b"gets", b"resetstat", b"get\0", b"georadiusbymembex_ro", b"'get"] {
            assert!(table.lookup(unknown).is_none());
        }
    }

    #[test]
    fn every_command_is_found_by_its_full_name_under_its_dense_id() {
        let table = table();
        for (id, command) in table.all().enumerate() {
            assert_eq!(command.id as usize, id);
            assert_eq!(table.lookup_full(command.full_name.as_bytes()).unwrap().id, command.id);
        }
        let config = table.lookup(b"config").unwrap();
        let names: Vec<_> = config.subcommands().map(|id| table.command(id).spec.name).collect();
        assert_eq!(names, ["get", "resetstat"]);
    }

    #[test]
    fn a_renamed_command_answers_to_its_new_name_only() {
        let rename = |from: &str, to: &str| (from.as_bytes().to_vec(), to.as_bytes().to_vec());
        let table = CommandTable::new(&[SPECS]);
        let name = table.command(0).full_name.clone();
        let table = table.renamed(&[rename(&name.to_uppercase(), "A-Much-Longer-Name-Than-Before")]).expect("renamed");
        assert!(table.lookup(name.as_bytes()).is_none());
        assert_eq!(table.lookup(b"a-much-longer-name-than-before").map(|command| command.id), Some(0));
        let table = table.renamed(&[rename("a-much-longer-name-than-before", "")]).expect("taken away");
        assert!(table.lookup(b"a-much-longer-name-than-before").is_none());
        assert!(table.lookup(b"").is_none());
        assert!(table.renamed(&[rename("nosuch", "x")]).is_err());
    }

    #[test]
    fn unknown_names_and_wrong_arities_are_answered_as_redis_does() {
        assert_eq!(error(&[b"FOO", b"a", b"b"]), "ERR unknown command 'FOO', with args beginning with: 'a' 'b' ");
        assert_eq!(error(&[b"foo"]), "ERR unknown command 'foo', with args beginning with: ");
        assert_eq!(error(&[b"GET"]), "ERR wrong number of arguments for 'get' command");
        assert_eq!(error(&[b"CONFIG"]), "ERR wrong number of arguments for 'config' command");
        assert_eq!(error(&[b"CONFIG", b"GET"]), "ERR wrong number of arguments for 'config|get' command");
        assert_eq!(error(&[b"conFig", b"Foo", b"x"]), "ERR unknown subcommand 'Foo'. Try CONFIG HELP.");
    }

    #[test]
    fn errors_quote_at_most_128_bytes() {
        let long = [b'x'; 200];
        let quoted = "x".repeat(128);
        assert_eq!(
            error(&[&long, &long[..100], &long, b"more"]),
            format!(
                "ERR unknown command '{quoted}', with args beginning with: '{}' '{}' ",
                "x".repeat(100),
                "x".repeat(25)
            )
        );
        assert_eq!(error(&[b"a\0b", b"c\0d"]), "ERR unknown command 'a', with args beginning with: 'c' ");
    }

    #[test]
    fn the_planner_gets_keys_at_fixed_places() {
        let table = table();
        let get = table.lookup(b"get").unwrap();
        assert_eq!((get.first_key, get.plan), (1, Some(KeyRange { first: 1, last: 1, step: 1 })));
        assert_eq!(table.lookup(b"mset").unwrap().plan, Some(KeyRange { first: 1, last: -1, step: 2 }));
        assert_eq!(table.lookup(b"config").unwrap().plan, None);
    }
}
