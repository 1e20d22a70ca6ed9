//! Facts about all runs of a script, proved from its text.
//!
//! The text is read as words, strings and signs, without its comments. A proof is certain but rare: text that this
//! module does not understand proves nothing.

use crate::command::flags::Flags;
use crate::command::key_spec::KeyRange;
use crate::command::table::CommandTable;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    /// The script works only on keys that it is given, and ends soon: it takes at most as many steps as its text has,
    /// calls no function of a library, whose time its arguments may decide, and makes no large tables. So its effects
    /// never have to be undone.
    pub(crate) keeps_to_keys: bool,
    /// Moreover it calls only short commands: its time is not worth measuring by itself.
    pub(crate) is_brief: bool,
    /// The script only reads the elements of KEYS and ARGV, so the next script can use the same tables.
    pub(crate) keeps_lists: bool,
}

/// Longer texts are not looked at.
const TEXT_LEN_MAX: usize = 64 * 1024;

/// Words by which a script could do more than its text says, or loop.
const STRONG: &[&[u8]] = &[
    b"while",
    b"for",
    b"repeat",
    b"function",
    b"_G",
    b"load",
    b"loadstring",
    b"dofile",
    b"loadfile",
    b"require",
    b"setfenv",
    b"getfenv",
    b"coroutine",
    b"debug",
    b"rawset",
    b"setmetatable",
    b"getmetatable",
];

/// Fields of `redis` and `server` beside the calls that a script may use.
const HARMLESS: &[&[u8]] = &[
    b"error_reply",
    b"status_reply",
    b"sha1hex",
    b"log",
    b"LOG_DEBUG",
    b"LOG_VERBOSE",
    b"LOG_NOTICE",
    b"LOG_WARNING",
    b"setresp",
];

/// Most steps whose time their operands decide: comparisons, and calls of functions and commands.
const STEPS_MAX: usize = 128;

/// Most concatenations: each can double a string.
const CONCATENATIONS_MAX: usize = 3;

/// Most calls of commands whose time the data decides.
const LONG_CALLS_MAX: usize = 4;

/// Functions that end soon, whatever their arguments are.
const QUICK: &[&[u8]] = &[b"tonumber", b"tostring", b"type"];

/// Words that a parenthesis or a string may follow without being a call.
const KEYWORDS: &[&[u8]] =
    &[b"and", b"or", b"not", b"if", b"elseif", b"then", b"else", b"do", b"return", b"local", b"in"];

/// Most elements that all tables of a text may have together once they are put into each other.
const ELEMENTS_MAX: usize = 4096;

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a [u8]),
    Number(&'a [u8]),
    /// A string: the text between the quotes.
    Text(&'a [u8]),
    Sign(u8),
}

impl Proof {
    /// The proof of a text without its shebang. `commands`: the commands that it can call. O(length).
    pub(crate) fn of(text: &[u8], commands: &CommandTable) -> Self {
        if text.len() > TEXT_LEN_MAX {
            return Self::default();
        }
        let Some(tokens) = tokens(text) else { return Self::default() };
        let is_weak = !tokens.iter().any(|token| matches!(token, Token::Word(word) if STRONG.contains(word)));
        let keeps_lists = is_weak && are_only_read(&tokens);
        let ends_soon = || calls_end_soon(&tokens) && tables_are_small(&tokens) && steps_are_few(&tokens, commands);
        let keeps_to_keys = keeps_lists && calls_are_on_keys(&tokens, commands) && ends_soon();
        let is_brief = keeps_to_keys && calls_of_long_commands(&tokens, commands) == 0;
        Self { keeps_to_keys, is_brief, keeps_lists }
    }
}

/// Whether it is a name of the table that has the calls.
fn is_server(token: Token<'_>) -> bool {
    matches!(token, Token::Word(b"redis" | b"server"))
}

/// Whether every call of a command is written with the command's name and, in place of its only key, an element of
/// KEYS or a variable that holds one.
fn calls_are_on_keys(tokens: &[Token<'_>], commands: &CommandTable) -> bool {
    let names = names_of_keys(tokens);
    tokens.iter().enumerate().filter(|(_, token)| is_server(**token)).all(|(at, _)| {
        let follows = &tokens[at + 1..];
        match follows {
            [Token::Sign(b'.'), Token::Word(b"call" | b"pcall"), Token::Sign(b'('), Token::Text(name), rest @ ..] => {
                is_on_one_key(name, commands) && is_key(rest, &names)
            }
            [Token::Sign(b'.'), Token::Word(word), ..] => HARMLESS.contains(word),
            _ => false,
        }
    })
}

/// Whether all functions that are called end soon. The functions of libraries, whose time their arguments may decide,
/// are fields of tables and of all strings; no such field is ever looked up.
fn calls_end_soon(tokens: &[Token<'_>]) -> bool {
    tokens.iter().enumerate().all(|(at, token)| {
        let before = at.checked_sub(1).map(|before| tokens[before]);
        let after = tokens.get(at + 1).copied();
        match token {
            Token::Sign(b':') => false,
            Token::Sign(b'.') if before != Some(Token::Sign(b'.')) && after != Some(Token::Sign(b'.')) => {
                before.is_some_and(is_server)
            }
            Token::Sign(b'[') => {
                let is_number = matches!(tokens.get(at + 1..at + 3), Some([Token::Number(_), Token::Sign(b']')]));
                matches!(before, Some(Token::Word(b"KEYS" | b"ARGV"))) || is_number
            }
            // Nothing else may go by these names.
            _ if is_server(*token) => after == Some(Token::Sign(b'.')),
            Token::Word(word) if QUICK.contains(word) => after == Some(Token::Sign(b'(')),
            Token::Sign(b'(') | Token::Text(_) | Token::Sign(b'{') => match before {
                Some(Token::Word(word)) => {
                    KEYWORDS.contains(&word) || *token == Token::Sign(b'(') && is_quick(tokens, at - 1, word)
                }
                Some(Token::Sign(b')' | b']') | Token::Text(_)) => false,
                _ => true,
            },
            _ => true,
        }
    })
}

/// Whether there are few steps whose time does not follow from the length of the text.
fn steps_are_few(tokens: &[Token<'_>], commands: &CommandTable) -> bool {
    let (mut steps, mut concatenations) = (0, 0);
    for (at, token) in tokens.iter().enumerate() {
        match (token, tokens.get(at + 1)) {
            (Token::Sign(b'(' | b'<' | b'>'), _) => steps += 1,
            (Token::Sign(b'.'), Some(Token::Sign(b'.'))) => concatenations += 1,
            _ => {}
        }
    }
    let long_calls = calls_of_long_commands(tokens, commands);
    steps <= STEPS_MAX && concatenations <= CONCATENATIONS_MAX && long_calls <= LONG_CALLS_MAX
}

/// How many calls are of commands whose time the data decides.
fn calls_of_long_commands(tokens: &[Token<'_>], commands: &CommandTable) -> usize {
    let is_long = |name: &[u8]| commands.resolve(&[name][..]).is_ok_and(|command| !command.is_short());
    let names = tokens.windows(2).filter_map(|pair| match pair {
        [Token::Sign(b'('), Token::Text(name)] => Some(*name),
        _ => None,
    });
    names.filter(|name| is_long(name)).count()
}

/// Whether the function with the name `word`, at `at`, ends soon. Which fields of `redis` are called is checked apart.
fn is_quick(tokens: &[Token<'_>], at: usize, word: &[u8]) -> bool {
    QUICK.contains(&word) || at > 0 && tokens[at - 1] == Token::Sign(b'.')
}

/// Whether tables have few elements, even if each of them contains all others as often as it can.
fn tables_are_small(tokens: &[Token<'_>]) -> bool {
    let (mut elements, mut open) = (1_usize, Vec::new());
    for (at, depth) in places(tokens) {
        match tokens[at] {
            // An element of a table may be set.
            Token::Sign(b']') if sets_element(tokens, at, depth) => return false,
            Token::Sign(b'{') => open.push(1_usize),
            Token::Sign(b',' | b';') => open.iter_mut().for_each(|commas| *commas += 1),
            Token::Sign(b'}') => match open.pop() {
                Some(commas) => elements = elements.saturating_mul(commas),
                None => return false,
            },
            _ => {}
        }
    }
    elements <= ELEMENTS_MAX
}

/// Whether the bracket at `at`, inside of `depth` parentheses, may end the left side of an assignment.
fn sets_element(tokens: &[Token<'_>], at: usize, depth: usize) -> bool {
    match tokens.get(at + 1) {
        Some(Token::Sign(b'=')) => tokens.get(at + 2) != Some(&Token::Sign(b'=')),
        Some(Token::Sign(b',')) => depth == 0,
        _ => false,
    }
}

/// Whether `, KEYS[1]` or one of the names, and the end of an argument, come next.
fn is_key(tokens: &[Token<'_>], names: &[&[u8]]) -> bool {
    let end = match tokens {
        [Token::Sign(b','), Token::Word(b"KEYS"), Token::Sign(b'['), Token::Number(_), Token::Sign(b']'), end, ..] => {
            end
        }
        [Token::Sign(b','), Token::Word(name), end, ..] if names.contains(name) => end,
        _ => return false,
    };
    matches!(end, Token::Sign(b',' | b')'))
}

/// The variables that hold an element of KEYS wherever they stand. Each is declared as `local name = KEYS[1]` outside of
/// any block, and after that only read.
fn names_of_keys<'a>(tokens: &[Token<'a>]) -> Vec<&'a [u8]> {
    let mut names = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match (token, &tokens[at + 1..]) {
            // From here on a declaration may be inside of a block.
            (Token::Word(b"if" | b"do"), _) => break,
            (
                Token::Word(b"local"),
                [
                    Token::Word(name),
                    Token::Sign(b'='),
                    Token::Word(b"KEYS"),
                    Token::Sign(b'['),
                    Token::Number(_),
                    Token::Sign(b']'),
                    rest @ ..,
                ],
            ) if ends_statement(rest) && !tokens[..at].contains(&Token::Word(name)) && is_only_read(rest, name) => {
                names.push(*name);
            }
            _ => {}
        }
    }
    names
}

/// Whether the tokens that come next do not go on with the expression before them.
fn ends_statement(tokens: &[Token<'_>]) -> bool {
    match tokens.first() {
        Some(Token::Word(word)) => !matches!(*word, b"and" | b"or"),
        Some(Token::Sign(b';')) | None => true,
        _ => false,
    }
}

/// Whether a variable stands only where its value is read.
fn is_only_read(tokens: &[Token<'_>], name: &[u8]) -> bool {
    places(tokens).all(|(at, depth)| tokens[at] != Token::Word(name) || is_value(tokens, at, depth))
}

/// All tokens by their places, and inside of how many parentheses and braces they are.
fn places(tokens: &[Token<'_>]) -> impl Iterator<Item = (usize, usize)> {
    let mut depth = 0_usize;
    tokens.iter().enumerate().map(move |(at, token)| {
        match token {
            Token::Sign(b'(' | b'{') => depth += 1,
            Token::Sign(b')' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        (at, depth)
    })
}

/// Whether the token at `at`, inside of `depth` parentheses or braces, begins a value: nothing can be assigned to what
/// stands inside of them, or after one of these tokens.
fn is_value(tokens: &[Token<'_>], at: usize, depth: usize) -> bool {
    let before = at.checked_sub(1).map(|before| tokens[before]);
    depth > 0
        || matches!(before, Some(Token::Sign(b'=' | b'<' | b'>' | b'+' | b'-' | b'*' | b'/' | b'.' | b'~')))
        || matches!(before, Some(Token::Word(b"return" | b"and" | b"or" | b"not" | b"if" | b"elseif")))
}

/// Whether a command's first argument is its only key.
fn is_on_one_key(name: &[u8], commands: &CommandTable) -> bool {
    let Ok(command) = commands.resolve(&[name][..]) else { return false };
    let has_others = command.flags.contains(Flags::MOVABLEKEYS) || command.spec.key_specs().len() != 1;
    command.plan == Some(KeyRange { first: 1, last: 1, step: 1 })
        && !has_others
        && command.names_all_keys
        && !command.is_container()
}

/// Whether KEYS and ARGV stand only where an element or the number of elements is read.
fn are_only_read(tokens: &[Token<'_>]) -> bool {
    places(tokens).filter(|(at, _)| matches!(tokens[*at], Token::Word(b"KEYS" | b"ARGV"))).all(|(at, depth)| {
        let is_counted = at > 0 && tokens[at - 1] == Token::Sign(b'#');
        let is_element = tokens.get(at + 1) == Some(&Token::Sign(b'['));
        is_counted || is_element && is_value(tokens, at, depth)
    })
}

/// The pieces of a text; `None` if the text ends within a piece, or has a string with an escape or a line end.
fn tokens(text: &[u8]) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let len = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => 1,
            b'-' if rest.starts_with(b"--") => comment_len(rest)?,
            b'\'' | b'"' => {
                let len = rest[1..].iter().position(|other| *other == byte)? + 2;
                let inside = &rest[1..len - 1];
                if inside.iter().any(|byte| matches!(byte, b'\\' | b'\n')) {
                    return None;
                }
                tokens.push(Token::Text(inside));
                len
            }
            b'[' if long_bracket(rest).is_some() => return None,
            b'0'..=b'9' => {
                let len = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'.').count();
                tokens.push(Token::Number(&rest[..len]));
                len
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                let len = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
                tokens.push(Token::Word(&rest[..len]));
                len
            }
            byte if byte.is_ascii_graphic() => {
                tokens.push(Token::Sign(byte));
                1
            }
            _ => return None,
        };
        rest = &rest[len..];
    }
    Some(tokens)
}

/// The length of the comment in front.
fn comment_len(text: &[u8]) -> Option<usize> {
    match long_bracket(&text[2..]) {
        Some(level) => {
            let end = [b"]".to_vec(), vec![b'='; level], b"]".to_vec()].concat();
            memchr::memmem::find(text, &end).map(|at| at + end.len())
        }
        None => Some(memchr::memchr(b'\n', text).unwrap_or(text.len())),
    }
}

/// How many equals signs the long bracket in front has, if there is one.
fn long_bracket(text: &[u8]) -> Option<usize> {
    let inside = text.strip_prefix(b"[")?;
    let level = inside.iter().take_while(|byte| **byte == b'=').count();
    (inside.get(level) == Some(&b'[')).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::FAMILIES;

    fn proof(text: &str) -> (bool, bool) {
        let proof = Proof::of(text.as_bytes(), &CommandTable::new(FAMILIES));
        (proof.keeps_to_keys, proof.keeps_lists)
    }

    #[test]
    fn plain_scripts_are_proven() {
        for text in [
            "return redis.call('INCR', KEYS[1])",
            "return redis.pcall(\"get\", KEYS[2])",
            "return server.pcall('get', KEYS[2])",
            "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n",
            "-- a comment with redis.call(x)\nlocal limit = tonumber(ARGV[1])\nif #KEYS > 1 then return redis.error_reply('one key') end\n\
             --[==[ while ]] true ]==] return { redis.call('HSET', KEYS[1], 'f', ARGV[2]), limit }",
            "local v = redis.call('HMGET', KEYS[1], 'a', 'b') if v[1] == ARGV[1] then return {v[1], v[2]} end return v[2]",
            "local key = KEYS[1] local n = redis.call('GET', key) if n == key then redis.call('SET', key, 1) end return key",
            "local limit = 5 local a = KEYS[1]; local b = KEYS[2] return {redis.call('GET', a), redis.call('GET', b)}",
            "return 1",
        ] {
            assert_eq!(proof(text), (true, true), "{text}");
        }
    }

    #[test]
    fn what_may_go_outside_is_not() {
        for text in [
            "return redis.call('INCR', ARGV[1])",
            "return server.call('INCR', ARGV[1])",
            "local server = redis return server.call('INCR', KEYS[1])",
            "return redis.call('INCR', 'name')",
            "return redis.call('INCR', KEYS[1] .. 'x')",
            "return redis.call('INCR', KEYS[ARGV[1]] or 'x')",
            "return redis.call(ARGV[2], KEYS[1])",
            "return redis.call('MGET', KEYS[1], ARGV[1])",
            "return redis.call('RENAME', KEYS[1], KEYS[2])",
            "return redis.call('DEL', KEYS[1])",
            "return redis.call('ZUNIONSTORE', KEYS[1], 1, 'x')",
            "return redis.call('GEORADIUS', KEYS[1], 0, 0, 1, 'km', 'STORE', 'x')",
            "return redis.call('SORT', KEYS[1], 'STORE', 'x')",
            "return redis.call('OBJECT', KEYS[1])",
            "return redis.call('FLUSHALL')",
            "return redis.call('nosuch', KEYS[1])",
            "return redis.call('XREAD', KEYS[1])",
            "local r = redis return r.call('INCR', 'x')",
            "local call = redis.call return call('INCR', 'x')",
            "return redis['call']('INCR', 'x')",
            "return pcall(redis.call, 'INCR', 'x')",
            "return redis.call('IN\\67R', KEYS[1])",
            "return redis.call([[INCR]], KEYS[1])",
            "local key = KEYS[1] key = 'x' return redis.call('INCR', key)",
            "local key = KEYS[1] .. 'x' return redis.call('INCR', key)",
            "local key = KEYS[1] or 'x' return redis.call('INCR', key)",
            "local key = KEYS[1], 'x' return redis.call('INCR', key)",
            "local key = ARGV[1] return redis.call('INCR', key)",
            "local key = KEYS[1] local key = 'x' return redis.call('INCR', key)",
            "local key = KEYS[1] local a, key = 1, 'x' return redis.call('INCR', key)",
            "local key = KEYS[1] local a = 1 a, key = 1, 'x' return redis.call('INCR', key)",
            "local key = KEYS[1] if true then key = 'x' end return redis.call('INCR', key)",
            "local key = KEYS[1] return redis.call('INCR', key .. 'x')",
            "do local _VERSION = KEYS[1] end return redis.call('INCR', _VERSION)",
            "if true then local _VERSION = KEYS[1] end return redis.call('INCR', _VERSION)",
            "local n = redis.call('INCR', _VERSION) local _VERSION = KEYS[1] return _VERSION",
            "local a, key = KEYS[1] return redis.call('INCR', key)",
            "local key key = KEYS[1] return redis.call('INCR', key)",
        ] {
            assert!(!proof(text).0, "{text}");
        }
    }

    #[test]
    fn what_may_take_long_without_a_loop_is_not() {
        for text in [
            "return string.find(ARGV[1], '.-b')",
            "return ARGV[1]:find('.-b')",
            "return ARGV[1].find(ARGV[1], '.-b')",
            "return ('a').rep('a', 1000000000)",
            "local s = 'x' return s['rep'](s, 1000000000)",
            "local f = ARGV[1].rep return f(ARGV[1], 1000000000)",
            "local f = ARGV[1].rep return f'x'",
            "tonumber = ARGV[1].rep return tonumber('x', 1000000000)",
            "local tonumber = ARGV[1].rep return tonumber('x', 1000000000)",
            "local redis, tonumber = redis, ARGV[1].rep return tonumber('x', 1000000000)",
            "redis.log = ARGV[1].rep return redis.log('x', 1000000000)",
            "return cjson.encode({1})",
            "return table.concat({1}, ARGV[1])",
            "local t = {1, 1} t = {t, t} t = {t, t} t = {t, t} t = {t, t} t = {t, t} t = {t, t} t = {t, t} t = {t, t} \
             t = {t, t} t = {t, t} t = {t, t} t = {t, t} t = {t, t} return t",
            "local t = {1, 2} t[1] = t t[2] = t return t",
            "local t, n = {1, 2} t[1], n = t, 1 return t",
            "local redis = {call = unpack} return redis.call('INCR', KEYS[1])",
        ] {
            assert!(!proof(text).0, "{text}");
        }
    }

    #[test]
    fn what_may_run_on_or_change_its_lists_proves_nothing() {
        for text in [
            "while true do redis.call('INCR', KEYS[1]) end",
            "for i = 1, ARGV[1] do redis.call('INCR', KEYS[1]) end",
            "local function f() return redis.call('INCR', KEYS[1]) end return f()",
            "KEYS[1] = 'x' return redis.call('INCR', KEYS[1])",
            "local a a, KEYS[1] = 1, 'x' return redis.call('INCR', KEYS[1])",
            "if true then KEYS[1] = 'x' end return redis.call('INCR', KEYS[1])",
            "KEYS = {'x'} return redis.call('INCR', KEYS[1])",
            "local k = KEYS k[1] = 'x' return redis.call('INCR', KEYS[1])",
            "table.insert(KEYS, 'x') return redis.call('INCR', KEYS[2])",
            "return setmetatable(ARGV, {})",
            "return loadstring('return 1')()",
            "return unpack(ARGV)",
            "return 'unfinished",
            "return 1 --[[ unfinished",
        ] {
            assert_eq!(proof(text), (false, false), "{text}");
        }
    }

    #[test]
    fn any_bytes_are_read() {
        for seed in 0..20_000_u32 {
            let mut state = seed;
            let text: Vec<u8> = (0..seed % 40)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    b"KEYS[]=-'\"\\\n a1.(,"[(state >> 16) as usize % 18]
                })
                .collect();
            let _ = Proof::of(&text, &CommandTable::new(&[]));
        }
    }
}
