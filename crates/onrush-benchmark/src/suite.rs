//! The tests by name, as redis-benchmark has them.

use crate::args::Options;
use crate::request::Request;

/// A test: its title, and the command it repeats.
#[derive(Clone, Debug)]
pub struct Test {
    pub title: String,
    pub request: Request,
    /// Bytes that are told as its payload.
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

/// The tests that the options choose, in their order.
pub fn tests(options: &Options) -> Vec<Test> {
    let data = vec![b'x'; options.data_len];
    let test = |title: &str, args: &[Vec<u8>], payload_len: usize| Test {
        title: title.to_owned(),
        request: Request::new(args, options.keyspace, &data),
        payload_len,
    };
    if !options.command.is_empty() {
        let title = options.command.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ");
        let request = Request::new(&options.command, options.keyspace, &data);
        let payload_len = request.command_len();
        return vec![Test { title, request, payload_len }];
    }
    let wanted = |words: &[&str]| match &options.tests {
        Some(tests) => words.iter().any(|word| tests.iter().any(|test| test == word)),
        None => true,
    };
    // In a cluster, keys carry the tag of a node.
    let tagged = |key: &str| {
        let (name, rest) = key.split_once(':').map_or((key, String::new()), |(name, rest)| (name, format!(":{rest}")));
        if options.cluster { format!("{name}:{{tag}}{rest}") } else { key.to_owned() }.into_bytes()
    };
    let mut chosen = Vec::new();
    if wanted(&["ping_inline", "ping"]) {
        let request = Request::encoded(b"PING\r\n".to_vec(), options.keyspace);
        chosen.push(Test { title: "PING_INLINE".into(), request, payload_len: data.len() });
    }
    for (_, title, command) in ROWS.iter().filter(|(words, ..)| wanted(words)) {
        // Without random keys all members have one score.
        let score = if options.keyspace.is_some() { "__rand_int__" } else { "0" };
        let args: Vec<Vec<u8>> = command
            .iter()
            .enumerate()
            .map(|(index, word)| match *word {
                "__score__" => score.as_bytes().to_vec(),
                key if index == 1 => tagged(key),
                word => word.as_bytes().to_vec(),
            })
            .collect();
        chosen.push(test(title, &args, data.len()));
    }
    if wanted(&["mset"]) {
        let pairs = vec![[tagged("key:__rand_int__"), b"__data__".to_vec()]; 10];
        let args: Vec<Vec<u8>> = std::iter::once(b"MSET".to_vec()).chain(pairs.into_iter().flatten()).collect();
        chosen.push(test("MSET (10 keys)", &args, data.len()));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(line: &str) -> Vec<String> {
        let options = Options::parse(line.split_whitespace().map(str::to_owned)).unwrap();
        tests(&options).into_iter().map(|test| test.title).collect()
    }

    #[test]
    fn names_choose_tests() {
        assert_eq!(titles("-t set,GET,ping"), ["PING_INLINE", "PING_MBULK", "SET", "GET"]);
        assert_eq!(titles("-t lrange_300"), ["LPUSH (needed to benchmark LRANGE)", "LRANGE_300 (first 300 elements)"]);
        assert_eq!(titles("").len(), 20);
        assert_eq!(titles("lpush mylist __rand_int__"), ["lpush mylist __rand_int__"]);
    }
}
