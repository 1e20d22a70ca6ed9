//! What commands are made of: the command table, its syntax lines, and words.

use std::collections::HashMap;

use onrush_engine::command::argument::{Argument, Kind, arguments};
use onrush_engine::command::spec::{Group, Spec};
use onrush_engine::command::syntax;
use onrush_engine::commands::FAMILIES;

use super::format::Choices;
use super::words::{DIRECTIVE_VALUES, DIRECTIVES, LIBRARIES, SCRIPTS, WORDS};

/// Commands that end the process, or make a connection one that has no replies.
const LEFT_OUT: &[&str] = &["shutdown", "cluster", "sync", "psync", "replconf"];

/// From this choice on a word is any word, or made of the input's bytes.
const ANY_WORD_MIN: u8 = 224;
const OWN_BYTES_MIN: u8 = 240;
/// From this choice on a key is any key. Below, it is one of those that the command's family has for itself.
const ANY_KEY_MIN: u8 = 192;

/// Most bytes of a word of the input's own.
const OWN_LEN_MAX: usize = 64;

/// So many commands are chosen from that a choice has two bytes.
const COMMANDS_MIN: usize = 1 << 16;

/// Each family has this many keys.
const KEYS: usize = 3;

/// A command of the table.
struct Call {
    /// Its name, and its subcommand's.
    names: Vec<Vec<u8>>,
    group: Group,
    arguments: Vec<Argument>,
    is_config_set: bool,
}

/// See the module's text.
pub struct Vocabulary {
    calls: Vec<Call>,
    words: HashMap<&'static str, Vec<Vec<u8>>>,
    keys: Vec<Vec<u8>>,
}

impl Vocabulary {
    /// The words that are known beforehand.
    pub fn new() -> Self {
        let mut calls = Vec::new();
        for spec in FAMILIES.iter().copied().flatten().filter(|spec| !LEFT_OUT.contains(&spec.name)) {
            match spec.subcommands {
                [] => calls.push(Call::new(spec, None)),
                subcommands => calls.extend(subcommands.iter().map(|subcommand| Call::new(subcommand, Some(spec)))),
            }
        }
        let mut words: HashMap<&'static str, Vec<Vec<u8>>> = HashMap::new();
        for &(names, text) in WORDS.iter().filter(|(_, text)| !text.is_empty()) {
            names.split(' ').for_each(|name| {
                words.insert(name, split(text));
            });
        }
        words.insert("parameter", split(DIRECTIVES));
        words.insert("setting", split(DIRECTIVE_VALUES));
        let all = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        words.insert("script", all(SCRIPTS));
        words.insert("function-code", all(LIBRARIES));
        // Around the limits of encodings.
        let long = [(b'x', 64), (b'y', 65), (b'z', 130), (b'1', 250), (b'\xff', 3), (b'\0', 1), (b'\r', 2)];
        words.entry("string").or_default().extend(long.map(|(byte, len)| vec![byte; len]));
        let keys = "slhtzxbpgk".bytes().flat_map(|family| (0..KEYS).map(move |number| key(family, number)));
        Self { calls, words, keys: keys.chain([b"{s0}x".to_vec(), Vec::new()]).collect() }
    }

    /// Words for arguments of this name.
    pub fn add(&mut self, name: &'static str, words: impl IntoIterator<Item = Vec<u8>>) {
        self.words.entry(name).or_default().extend(words);
    }

    /// A command of the table.
    pub fn call(&self, choices: &mut Choices<'_>) -> Vec<Vec<u8>> {
        let call = &self.calls[choices.below(COMMANDS_MIN) % self.calls.len()];
        let mut argv = call.names.clone();
        self.sequence(call, &call.arguments, choices, &mut argv);
        self.damage(choices, &mut argv);
        argv
    }

    /// Seldom there is an argument too many, or one is missing.
    fn damage(&self, choices: &mut Choices<'_>, argv: &mut Vec<Vec<u8>>) {
        let choice = choices.byte();
        let at = 1 + usize::from(choice) % argv.len();
        match choice {
            232..=243 if at < argv.len() => drop(argv.remove(at)),
            244.. => argv.insert(at.min(argv.len()), self.any(choices)),
            _ => {}
        }
    }

    fn sequence(&self, call: &Call, arguments: &[Argument], choices: &mut Choices<'_>, argv: &mut Vec<Vec<u8>>) {
        let mut arguments = arguments.iter().peekable();
        while let Some(argument) = arguments.next() {
            let counted = match arguments.peek() {
                Some(next) if next.multiple && argument.name.starts_with("num") => arguments.next(),
                _ => None,
            };
            match counted {
                Some(counted) => self.counted(call, argument, counted, choices, argv),
                None => self.argument(call, argument, choices, argv),
            }
        }
    }

    /// A number, and as many arguments.
    fn counted(
        &self,
        call: &Call,
        number: &Argument,
        counted: &Argument,
        choices: &mut Choices<'_>,
        argv: &mut Vec<Vec<u8>>,
    ) {
        let choice = choices.byte();
        let times = usize::from(choice % 4) + usize::from(!counted.optional);
        argv.extend(number.token.as_ref().map(|token| token.as_bytes().to_vec()));
        argv.push(match choice {
            ANY_WORD_MIN.. => self.choose("integer", choices),
            _ => times.to_string().into_bytes(),
        });
        self.repeated(call, counted, times, choices, argv);
    }

    fn argument(&self, call: &Call, argument: &Argument, choices: &mut Choices<'_>, argv: &mut Vec<Vec<u8>>) {
        let times = match (argument.optional, argument.multiple) {
            (false, false) => 1,
            (true, false) => choices.below(2),
            (is_optional, true) => match choices.byte() {
                // Enough for an encoding to change.
                255 => 40,
                choice => usize::from(choice % 4) + usize::from(!is_optional),
            },
        };
        self.repeated(call, argument, times, choices, argv);
    }

    fn repeated(
        &self,
        call: &Call,
        argument: &Argument,
        times: usize,
        choices: &mut Choices<'_>,
        argv: &mut Vec<Vec<u8>>,
    ) {
        for time in 0..times {
            if time == 0 || argument.multiple_token {
                argv.extend(argument.token.as_ref().map(|token| token.as_bytes().to_vec()));
            }
            match argument.kind {
                Kind::PureToken => {}
                Kind::Block => self.sequence(call, &argument.children, choices, argv),
                Kind::OneOf if !argument.children.is_empty() => {
                    let child = &argument.children[choices.below(argument.children.len())];
                    self.argument(call, child, choices, argv);
                }
                _ => argv.push(self.word(call, argument, choices)),
            }
        }
    }

    fn word(&self, call: &Call, argument: &Argument, choices: &mut Choices<'_>) -> Vec<u8> {
        if argument.kind == Kind::Key {
            return self.key(call.group, choices);
        }
        let name = match argument.name.as_str() {
            "value" if call.is_config_set => "setting",
            "subcommand" if call.names[0] == b"debug" => "debug",
            "arg" if call.group == Group::Scripting => return self.argument_of_script(choices),
            name if self.words.contains_key(name) => name,
            _ => match argument.kind {
                Kind::Integer => "integer",
                Kind::Double => "double",
                Kind::Pattern => "pattern",
                Kind::UnixTime => "unix-time-milliseconds",
                _ => "string",
            },
        };
        self.choose(name, choices)
    }

    /// Scripts call the commands that they are given.
    fn argument_of_script(&self, choices: &mut Choices<'_>) -> Vec<u8> {
        match choices.byte() {
            0..96 => self.calls[choices.below(COMMANDS_MIN) % self.calls.len()].names[0].clone(),
            96..160 => self.key(Group::Generic, choices),
            _ => self.choose("string", choices),
        }
    }

    fn key(&self, group: Group, choices: &mut Choices<'_>) -> Vec<u8> {
        let family = match group {
            Group::String => b's',
            Group::List => b'l',
            Group::Hash => b'h',
            Group::Set => b't',
            Group::SortedSet => b'z',
            Group::Stream => b'x',
            Group::Bitmap => b'b',
            Group::Hyperloglog => b'p',
            Group::Geo => b'g',
            _ => return self.keys[choices.below(self.keys.len())].clone(),
        };
        match choices.byte() {
            OWN_BYTES_MIN.. => self.own(choices),
            ANY_KEY_MIN.. => self.keys[choices.below(self.keys.len())].clone(),
            choice => key(family, usize::from(choice) % KEYS),
        }
    }

    /// A word for arguments of this name.
    fn choose(&self, name: &str, choices: &mut Choices<'_>) -> Vec<u8> {
        match choices.byte() {
            OWN_BYTES_MIN.. => self.own(choices),
            ANY_WORD_MIN.. => self.any(choices),
            choice => {
                let words = &self.words[name];
                words[usize::from(choice) % words.len()].clone()
            }
        }
    }

    /// Any word.
    fn any(&self, choices: &mut Choices<'_>) -> Vec<u8> {
        match choices.byte() {
            choice @ 0..128 => {
                let words = &self.words[if choice < 64 { "string" } else { "integer" }];
                words[usize::from(choice) % words.len()].clone()
            }
            128..192 => self.keys[choices.below(self.keys.len())].clone(),
            _ => self.own(choices),
        }
    }

    fn own(&self, choices: &mut Choices<'_>) -> Vec<u8> {
        let len = choices.below(OWN_LEN_MAX);
        choices.bytes(len).to_vec()
    }
}

impl Call {
    fn new(spec: &'static Spec, container: Option<&'static Spec>) -> Self {
        let names = container.into_iter().chain([spec]).map(|spec| spec.name.as_bytes().to_vec()).collect();
        Self {
            names,
            group: spec.group,
            arguments: match spec.syntax {
                "" if spec.arity != container.map_or(1, |_| 2) => syntax::parse("subcommand arg [arg ...]"),
                _ => arguments(spec),
            }
            .expect("a test of the engine reads all syntax lines"),
            is_config_set: container.is_some_and(|container| container.name == "config") && spec.name == "set",
        }
    }
}

fn key(family: u8, number: usize) -> Vec<u8> {
    vec![family, b'0' + number as u8]
}

fn split(text: &str) -> Vec<Vec<u8>> {
    text.split('|').map(|word| word.as_bytes().to_vec()).collect()
}
