//! The tests by name, as redis-benchmark has them.

use crate::error::Error;
use crate::load::random::{KeyPattern, Keys};
use crate::load::request::{Commands, Fillings, Request, TTL_WORD};
use crate::options::Options;

/// A test: its title, and what it repeats.
#[derive(Clone, Debug)]
pub struct Test {
    pub title: String,
    pub commands: Commands,
    /// The commands of a mix by name; else empty.
    pub kinds: Vec<String>,
    /// Bytes that are shown as its payload.
    pub payload_len: usize,
}

/// The words that choose a test, its title, and its command.
type Row = (&'static [&'static str], &'static str, &'static [&'static str]);

const LRANGES: &[&str] = &["lrange", "lrange_100", "lrange_300", "lrange_500", "lrange_600"];

const ROWS: &[Row] = &[
    (&["ping_mbulk", "ping"], "PING_MBULK", &["PING"]),
    (&["set"], "SET", &["SET", "key:__rand_int__", "__data__"]),
    (&["get"], "GET", &["GET", "key:__rand_int__"]),
    (&["incr"], "INCR", &["INCR", "counter:__rand_int__"]),
    (&["lpush"], "LPUSH", &["LPUSH", "mylist", "__data__"]),
    (&["rpush"], "RPUSH", &["RPUSH", "mylist", "__data__"]),
    (&["lpop"], "LPOP", &["LPOP", "mylist"]),
    (&["rpop"], "RPOP", &["RPOP", "mylist"]),
    (&["sadd"], "SADD", &["SADD", "myset", "element:__rand_int__"]),
    (&["hset"], "HSET", &["HSET", "myhash", "element:__rand_int__", "__data__"]),
    (&["spop"], "SPOP", &["SPOP", "myset"]),
    (&["zadd"], "ZADD", &["ZADD", "myzset", "__score__", "element:__rand_int__"]),
    (&["zpopmin"], "ZPOPMIN", &["ZPOPMIN", "myzset"]),
    (LRANGES, "LPUSH (needed to benchmark LRANGE)", &["LPUSH", "mylist", "__data__"]),
    (&["lrange", "lrange_100"], "LRANGE_100 (first 100 elements)", &["LRANGE", "mylist", "0", "99"]),
    (&["lrange", "lrange_300"], "LRANGE_300 (first 300 elements)", &["LRANGE", "mylist", "0", "299"]),
    (&["lrange", "lrange_500"], "LRANGE_500 (first 500 elements)", &["LRANGE", "mylist", "0", "499"]),
    (&["lrange", "lrange_600"], "LRANGE_600 (first 600 elements)", &["LRANGE", "mylist", "0", "599"]),
];

/// Words of the tests beside [`ROWS`].
const OTHER_WORDS: &[&str] = &["ping_inline", "ping", "mset", "xadd"];

/// The tests that the options choose, in their order.
///
/// # Errors
/// [`Error::Options`] for an unknown test, and for `--ttl` if no command takes one.
pub fn tests(options: &Options) -> Result<Vec<Test>, Error> {
    let maker = Maker::new(options);
    if !options.command.is_empty() {
        maker.check_patterns(|name| options.command[0].eq_ignore_ascii_case(name.as_bytes()))?;
        return Ok(vec![maker.own_command()?]);
    }
    let words: Vec<&str> = match &options.tests {
        Some(tests) => tests.iter().map(String::as_str).collect(),
        None => options.mix.iter().map(|(word, _)| word.as_str()).collect(),
    };
    let known: Vec<&str> =
        OTHER_WORDS.iter().copied().chain(ROWS.iter().flat_map(|(words, ..)| *words).copied()).collect();
    if let Some(unknown) = words.iter().find(|word| !known.contains(word)) {
        let mut names = known.clone();
        names.sort_unstable();
        names.dedup();
        return Err(Error::Options(format!("there is no test {unknown:?}; the tests are {}", names.join(", "))));
    }
    let is_wanted = |names: &[&str]| words.is_empty() || names.iter().any(|name| words.contains(name));
    maker.check_patterns(|name| {
        let is_it = |(names, _, command): &Row| command[0].eq_ignore_ascii_case(name) && is_wanted(names);
        ROWS.iter().any(is_it) || ["mset", "xadd"].contains(&name) && is_wanted(&[name])
    })?;
    if options.items.is_some() && (words.is_empty() || words.iter().any(|word| !["set", "get"].contains(word))) {
        return Err(Error::Options("--data-import is for the tests set and get: -t set,get, or a mix of them".into()));
    }
    let chosen = if options.mix.is_empty() {
        maker.chosen(|names| options.tests.is_none() || names.iter().any(|name| words.contains(name)))
    } else {
        vec![maker.mix()?]
    };
    if options.ttl.is_some()
        && !chosen.iter().any(|test| test.title == "SET" || test.kinds.iter().any(|kind| kind == "SET"))
    {
        return Err(Error::Options("--ttl is for the test set, and for __ttl__ in a command".into()));
    }
    Ok(chosen)
}

/// Makes tests for some options.
struct Maker<'a> {
    options: &'a Options,
    fillings: Fillings,
}

impl Maker<'_> {
    fn new(options: &Options) -> Maker<'_> {
        let ms = |time: std::time::Duration| time.as_millis() as u64;
        let fillings = Fillings {
            keys: None,
            data_len: options.data_len,
            is_data_random: options.is_data_random,
            ttl_ms: options.ttl.map(|(least, most)| (ms(least), ms(most))),
        };
        Maker { options, fillings }
    }

    fn test(&self, title: &str, args: &[Vec<u8>]) -> Test {
        if let (Some(items), Some(command)) = (&self.options.items, args.first()) {
            let pattern = self.options.keys.named(command).unwrap_or(KeyPattern::Sequential);
            let keys = Keys::new(pattern, items.len() as u64);
            let request = Request::of_items(items.clone(), keys, command == b"SET", &self.fillings);
            return self.of(title, Commands::one(request));
        }
        let pattern = self.options.keys.of(args.first().map_or(&[], Vec::as_slice));
        let keys = self.options.keyspace.map(|len| Keys::new(pattern, len));
        self.of(title, Commands::one(Request::new(args, &Fillings { keys, ..self.fillings.clone() })))
    }

    fn of(&self, title: &str, commands: Commands) -> Test {
        Test { title: title.to_owned(), commands, kinds: Vec::new(), payload_len: self.options.data_len.0 }
    }

    fn own_command(&self) -> Result<Test, Error> {
        let command = &self.options.command;
        if self.options.ttl.is_some() && !command.iter().any(|arg| memchr::memmem::find(arg, TTL_WORD).is_some()) {
            return Err(Error::Options("--ttl is for __ttl__ in the command, which is not there".into()));
        }
        let title = command.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ");
        let test = self.test(&title, command);
        Ok(Test { payload_len: test.commands.command_len(), ..test })
    }

    /// Checks that each pattern of keys is for a command that is sent.
    fn check_patterns(&self, is_sent: impl Fn(&str) -> bool) -> Result<(), Error> {
        match self.options.keys.commands().find(|name| !is_sent(name)) {
            Some(name) => Err(Error::Options(format!("--key-pattern is for {name}, which is not sent"))),
            None => Ok(()),
        }
    }

    /// The tests with a name that is wanted.
    fn chosen(&self, wanted: impl Fn(&[&str]) -> bool) -> Vec<Test> {
        let mut chosen = Vec::new();
        if wanted(&["ping_inline", "ping"]) {
            chosen.push(self.of("PING_INLINE", Commands::one(Request::encoded(b"PING\r\n", &self.fillings))));
        }
        for (_, title, command) in ROWS.iter().filter(|(words, ..)| wanted(words)) {
            chosen.push(self.test(title, &self.args(command)));
        }
        if wanted(&["mset"]) {
            let pairs = vec![[self.tagged("key:__rand_int__"), b"__data__".to_vec()]; 10];
            let args: Vec<Vec<u8>> = std::iter::once(b"MSET".to_vec()).chain(pairs.into_iter().flatten()).collect();
            chosen.push(self.test("MSET (10 keys)", &args));
        }
        if wanted(&["xadd"]) {
            chosen.push(self.test("XADD", &self.args(&["XADD", "mystream", "*", "myfield", "__data__"])));
        }
        chosen
    }

    fn mix(&self) -> Result<Test, Error> {
        let (mut parts, mut kinds) = (Vec::new(), Vec::new());
        for (word, weight) in &self.options.mix {
            let mut tests = self.chosen(|names| names.contains(&word.as_str()));
            let Some(test) = tests.pop().filter(|_| tests.is_empty()) else {
                return Err(Error::Options(format!("{word} is several tests; a mix takes them one by one")));
            };
            kinds.push(test.title);
            parts.push((test.commands.into_first(), *weight));
        }
        let words: Vec<String> = self.options.mix.iter().map(|(word, weight)| format!("{word}={weight}")).collect();
        Ok(Test { kinds, ..self.of(&format!("MIX {}", words.join(",")), Commands::mix(parts)) })
    }

    fn args(&self, command: &[&str]) -> Vec<Vec<u8>> {
        // Without random keys all members have one score.
        let score = if self.options.keyspace.is_some() { "__rand_int__" } else { "0" };
        let arg = |(index, word): (usize, &&str)| match *word {
            "__score__" => score.as_bytes().to_vec(),
            key if index == 1 => self.tagged(key),
            word => word.as_bytes().to_vec(),
        };
        let mut args: Vec<Vec<u8>> = command.iter().enumerate().map(arg).collect();
        if self.options.ttl.is_some() && command[0] == "SET" {
            args.extend([b"PX".to_vec(), TTL_WORD.to_vec()]);
        }
        args
    }

    /// In a cluster, keys carry the tag of a node.
    fn tagged(&self, key: &str) -> Vec<u8> {
        match key.split_once(':') {
            Some((name, rest)) if self.options.cluster => format!("{name}:{{tag}}:{rest}"),
            None if self.options.cluster => format!("{key}:{{tag}}"),
            _ => key.to_owned(),
        }
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::random::Random;

    fn chosen(line: &str) -> Result<Vec<Test>, Error> {
        tests(&crate::args::parse(line.split_whitespace().map(Into::into)).unwrap())
    }

    fn titles(line: &str) -> Vec<String> {
        chosen(line).unwrap().into_iter().map(|test| test.title).collect()
    }

    #[test]
    fn names_choose_tests() {
        assert_eq!(titles("-t set,GET,ping"), ["PING_INLINE", "PING_MBULK", "SET", "GET"]);
        assert_eq!(titles("-t lrange_300"), ["LPUSH (needed to benchmark LRANGE)", "LRANGE_300 (first 300 elements)"]);
        assert_eq!((titles("").len(), titles("-t xadd,mset")), (21, vec!["MSET (10 keys)".into(), "XADD".into()]));
        assert_eq!(titles("lpush mylist __rand_int__"), ["lpush mylist __rand_int__"]);
    }

    #[test]
    fn a_name_that_no_test_has_is_an_error_that_lists_the_names() {
        for line in ["-t nosuch", "-t set,nosuch", "--mix set=1,nosuch=1"] {
            let text = chosen(line).unwrap_err().to_string();
            assert!(text.contains("\"nosuch\"") && text.contains("get, hset, incr, lpop"), "{line}: {text}");
        }
        assert!(chosen("--mix lrange=1").unwrap_err().to_string().contains("several tests"));
    }

    #[test]
    fn a_mix_is_one_test_of_several_commands() {
        let test = &chosen("--mix set=1,get=3 -r 10").unwrap()[0];
        assert_eq!(
            (test.title.as_str(), test.kinds.as_slice()),
            ("MIX set=1,get=3", &["SET".into(), "GET".into()][..])
        );
        assert_eq!(test.commands.len(), 2);
    }

    #[test]
    fn commands_draw_their_keys_by_their_own_patterns() {
        let test =
            &chosen("--mix set=1,get=1 -r 1000000 --key-pattern set=sequential,get=gaussian:700:0.01").unwrap()[0];
        let (mut out, mut random) = (Vec::new(), Random::new(1));
        test.commands.append(200, &mut random, &mut out, |_, _| ());
        let text = String::from_utf8(out).unwrap();
        let (mut sets, mut gets) = (0, 0);
        for command in text.split("*").skip(1) {
            if command.contains("SET") {
                assert!(command.contains(&format!("key:{sets:012}")), "{command}");
                sets += 1;
            } else {
                assert!(command.contains("key:000000000700") || command.contains("key:000000000699"), "{command}");
                gets += 1;
            }
        }
        assert!(sets > 50 && gets > 50);
        assert!(chosen("-t lrange -r 10 --key-pattern lpush=zipf,lrange=zipf").is_ok());
        for line in ["-t set", "-t get,xadd", "lpush l __rand_int__"] {
            let error = chosen(&format!("-r 10 --key-pattern incr=zipf {line}")).unwrap_err().to_string();
            assert!(error.contains("for incr, which is not sent"), "{error}");
        }
    }

    #[test]
    fn a_time_to_live_goes_with_set_only() {
        let test = &chosen("-t set --ttl 5s").unwrap()[0];
        let mut out = Vec::new();
        test.commands.append(1, &mut Random::new(1), &mut out, |_, _| ());
        assert!(out.ends_with(b"$2\r\nPX\r\n$4\r\n5000\r\n"));
        assert!(chosen("-t get --ttl 5s").is_err() && chosen("--ttl 5s set k v").is_err());
        assert!(chosen("--ttl 5s psetex k __ttl__ v").is_ok());
    }
}
