//! RDB files and DUMP's payloads in both directions: our reader reads a redis-server's files, and a redis-server loads
//! ours. Each time the server's data must equal the file's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use onrush_persist::rdb::{
    Batch, Collected, CollectedConsumer, CollectedGroup, CollectedStream, Collector, Encoder, FileReader, FileWriter,
    Item, KeyRecord, Scratch, StreamHistory, StreamId, StreamPending, StreamState, Text, decode_payload, open_payload,
    seal_payload,
};
use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Launch, Oracle, Server, skips_on_stand_in, wait_until};

/// Settings that make the server choose other encodings.
const SETTINGS: [&[&str]; 4] = [
    &[],
    &[
        "--hash-max-listpack-entries",
        "0",
        "--zset-max-listpack-entries",
        "0",
        "--set-max-intset-entries",
        "0",
        "--list-max-listpack-size",
        "1",
        "--stream-node-max-entries",
        "3",
        "--rdbcompression",
        "no",
        "--maxmemory-policy",
        "allkeys-lfu",
    ],
    &[
        "--hash-max-listpack-entries",
        "1000",
        "--hash-max-listpack-value",
        "100000",
        "--zset-max-listpack-entries",
        "1000",
        "--zset-max-listpack-value",
        "100000",
        "--list-max-listpack-size",
        "-5",
        "--list-compress-depth",
        "1",
        "--stream-node-max-entries",
        "0",
        "--stream-node-max-bytes",
        "0",
        "--rdbchecksum",
        "no",
        "--maxmemory-policy",
        "allkeys-lru",
    ],
    &["--list-max-listpack-size", "-1", "--stream-node-max-bytes", "100", "--set-max-intset-entries", "1000"],
];

const LIBRARY: &str = "#!lua name=lib\nredis.register_function('seven', function() return 7 end)";

fn start(oracle: Oracle, settings: &[&str]) -> Server {
    // It checks in depth what it loads, too.
    let launch =
        Launch::redis_of(oracle.bin()).args(&["--enable-debug-command", "yes", "--sanitize-dump-payload", "yes"]);
    launch.args(settings).start()
}

fn element(rng: &mut Rng) -> Vec<u8> {
    match rng.below(9) {
        0 => rng.next_u64().to_string().into_bytes(),
        1 => (rng.next_u64() as i64).to_string().into_bytes(),
        2 => rng.between(-40_000, 40_000).to_string().into_bytes(),
        3 => rng.between(-130, 130).to_string().into_bytes(),
        4 => vec![b'a' + rng.below(4) as u8; rng.below(300)],
        // Around where the length behind an element of a listpack takes another byte.
        5 => vec![b'q'; 120 + rng.below(12)],
        6 if rng.percent(10) => vec![b'r'; 16_370 + rng.below(16)],
        7 if rng.percent(10) => (0..rng.below(20_000)).map(|_| rng.next_u64() as u8).collect(),
        _ => (0..rng.below(20)).map(|_| rng.next_u64() as u8).collect(),
    }
}

fn elements(rng: &mut Rng) -> Vec<Vec<u8>> {
    let len = if rng.percent(20) { 200 + rng.below(200) } else { 1 + rng.below(30) };
    if rng.percent(30) {
        let bits = 1 + rng.below(62);
        return (0..len)
            .map(|_| ((rng.next_u64() >> (63 - bits)) as i64 - (1 << (bits - 1))).to_string().into_bytes())
            .collect();
    }
    (0..len).map(|_| element(rng)).collect()
}

fn score(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => rng.between(-10, 10).to_string(),
        1 => (rng.next_u64() as i64).to_string(),
        2 => format!("{}", rng.between(-1000, 1000) as f64 / 7.0),
        3 => format!("{:e}", f64::from_bits(rng.next_u64() >> 2)),
        4 => rng.pick(&["inf", "-inf", "-0"]).to_string(),
        _ => "1.5".to_string(),
    }
}

/// The commands that make a key of a random type.
fn commands(rng: &mut Rng, oracle: Oracle, key: &[u8]) -> Vec<Argv> {
    let with = |name: &str, args: Vec<Vec<u8>>| Argv([vec![name.as_bytes().to_vec(), key.to_vec()], args].concat());
    let mut made = match rng.below(6) {
        0 => vec![with("SET", vec![element(rng)])],
        1 => vec![with("RPUSH", elements(rng))],
        2 => vec![with("SADD", elements(rng))],
        3 => {
            let pairs = elements(rng).into_iter().flat_map(|member| [score(rng).into_bytes(), member]).collect();
            vec![with("ZADD", pairs)]
        }
        4 => {
            let names = elements(rng);
            let pairs = names.iter().flat_map(|name| [name.clone(), element(rng)]).collect();
            let mut made = vec![with("HSET", pairs)];
            if oracle == Oracle::Newer && rng.percent(50) {
                for name in &names[..rng.below(names.len() + 1)] {
                    let at = (1_900_000_000_000 + rng.below(1 << 30) as u64).to_string();
                    made.push(argv!["HPEXPIREAT", key, at, "FIELDS", "1", name]);
                }
            }
            made
        }
        _ => stream_commands(rng, key),
    };
    if rng.percent(30) {
        made.push(argv!["PEXPIREAT", key, (1_900_000_000_000 + rng.below(1 << 30) as u64).to_string()]);
    }
    made
}

fn stream_commands(rng: &mut Rng, key: &[u8]) -> Vec<Argv> {
    let (mut made, mut ms, mut ids) = (Vec::new(), rng.next_u64() >> 25, Vec::new());
    for _ in 0..1 + rng.below(250) {
        ms += rng.below(3) as u64 * 1000 + 1;
        let id = format!("{ms}-{}", rng.below(4));
        let mut add = argv!["XADD", key, id, "name", element(rng)];
        if rng.percent(10) {
            add.0.extend([element(rng), element(rng)]);
        }
        made.push(add);
        ids.push(id);
    }
    made.extend(ids.iter().filter(|_| rng.percent(10)).map(|id| argv!["XDEL", key, id]));
    for group in 0..rng.below(3) {
        let group = format!("group{group}");
        made.push(argv![
            "XGROUP",
            "CREATE",
            key,
            group,
            rng.pick(&ids.iter().map(|id| id.as_str()).collect::<Vec<_>>())
        ]);
        for _ in 0..rng.below(4) {
            let consumer = element(rng);
            made.push(argv!["XREADGROUP", "GROUP", group, consumer, "COUNT", "9", "STREAMS", key, ">"]);
        }
        made.push(argv!["XGROUP", "CREATECONSUMER", key, group, "idle"]);
        made.push(argv!["XACK", key, group, ids[ids.len() / 2]]);
    }
    if rng.percent(10) {
        made.push(argv!["XTRIM", key, "MAXLEN", "0"]);
    }
    made
}

fn bulks(value: &Value) -> Vec<Vec<u8>> {
    let items = value.items().unwrap_or_else(|| panic!("no array: {value}"));
    items.iter().map(|item| item.bytes().expect("a string").to_vec()).collect()
}

/// What a server says that a key holds, and when it expires.
fn ask(conn: &mut Conn, key: &[u8]) -> (Collected, Option<i64>) {
    let ty = conn.call(&argv!["TYPE", key]).text();
    let value = match ty.as_str() {
        "string" => Collected::String(conn.call(&argv!["GET", key]).bytes().unwrap().to_vec()),
        "list" => Collected::List(bulks(&conn.call(&argv!["LRANGE", key, "0", "-1"]))),
        "set" => Collected::Set(bulks(&conn.call(&argv!["SMEMBERS", key])).into_iter().collect()),
        "zset" => {
            let flat = bulks(&conn.call(&argv!["ZRANGE", key, "0", "-1", "WITHSCORES"]));
            let number = |text: &[u8]| String::from_utf8_lossy(text).parse().unwrap();
            Collected::SortedSet(flat.chunks(2).map(|pair| (pair[0].clone(), number(&pair[1]))).collect())
        }
        "hash" => {
            let flat = bulks(&conn.call(&argv!["HGETALL", key]));
            let field = |pair: &[Vec<u8>]| {
                let reply = conn.call(&argv!["HPEXPIRETIME", key, "FIELDS", "1", pair[0]]);
                let expiry = match reply.items() {
                    Some([Value::Int(at)]) if *at > 0 => Some(*at),
                    _ => None,
                };
                (pair[0].clone(), (pair[1].clone(), expiry))
            };
            Collected::Hash(flat.chunks(2).map(field).collect())
        }
        "stream" => Collected::Stream(stream(&conn.call(&argv!["XINFO", "STREAM", key, "FULL", "COUNT", "0"]))),
        other => panic!("{} is {other}", key.escape_ascii()),
    };
    let Value::Int(expiry) = conn.call(&argv!["PEXPIRETIME", key]) else { panic!("no time") };
    (value, (expiry > 0).then_some(expiry))
}

/// The fields of a reply of XINFO.
struct Fields(Vec<(Value, Value)>);

impl Fields {
    fn of(value: &Value) -> Fields {
        Fields(value.pairs().expect("pairs"))
    }

    fn find(&self, names: &[&str]) -> Option<&Value> {
        self.0.iter().find(|(name, _)| names.contains(&name.text().as_str())).map(|(_, value)| value)
    }

    fn get(&self, name: &str) -> &Value {
        self.find(&[name]).unwrap_or_else(|| panic!("no {name}"))
    }

    fn number(&self, name: &str) -> i64 {
        if let Value::Int(number) = self.get(name) { *number } else { panic!("{name} is no number") }
    }

    fn id(&self, name: &str) -> StreamId {
        id(self.get(name))
    }

    fn pending(&self) -> &[Value] {
        self.find(&["pel", "pending"]).and_then(Value::items).expect("pending entries")
    }
}

fn id(value: &Value) -> StreamId {
    let text = value.text();
    let (ms, seq) = text.split_once('-').expect("an identifier");
    StreamId { ms: ms.parse().unwrap(), seq: seq.parse().unwrap() }
}

fn int(value: &Value) -> i64 {
    if let Value::Int(number) = value { *number } else { panic!("no number: {value}") }
}

fn stream(reply: &Value) -> CollectedStream {
    let info = Fields::of(reply);
    let entry = |entry: &Value| {
        let parts = entry.items().unwrap();
        let fields = bulks(&parts[1]);
        (id(&parts[0]), fields.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
    };
    let history = StreamHistory {
        first_id: info.id("recorded-first-entry-id"),
        max_deleted_id: info.id("max-deleted-entry-id"),
        entries_added: info.number("entries-added") as u64,
    };
    let (len, last_id) = (info.number("length") as u64, info.id("last-generated-id"));
    CollectedStream {
        entries: info.get("entries").items().unwrap().iter().map(entry).collect(),
        state: StreamState { len, last_id, history: Some(history) },
        groups: info.get("groups").items().unwrap().iter().map(group).collect(),
    }
}

fn group(reply: &Value) -> (Vec<u8>, CollectedGroup) {
    let info = Fields::of(reply);
    let pending = |pending: &Value| {
        let parts = pending.items().unwrap();
        let (delivered_ms, count) = (int(&parts[2]), int(&parts[3]) as u64);
        (id(&parts[0]), StreamPending { id: id(&parts[0]), delivered_ms, count })
    };
    let consumer = |consumer: &Value| {
        let info = Fields::of(consumer);
        let active_ms = info.find(&["active-time"]).map(int);
        let pending = info.pending().iter().map(|pending| id(&pending.items().unwrap()[0])).collect();
        let name = info.get("name").bytes().unwrap().to_vec();
        (name, CollectedConsumer { seen_ms: info.number("seen-time"), active_ms, pending })
    };
    let entries_read = info.get("entries-read");
    let collected = CollectedGroup {
        last_id: info.id("last-delivered-id"),
        entries_read: matches!(entries_read, Value::Int(_)).then(|| int(entries_read) as u64),
        pending: info.pending().iter().map(pending).collect(),
        consumers: info.get("consumers").items().unwrap().iter().map(consumer).collect(),
    };
    (info.get("name").bytes().unwrap().to_vec(), collected)
}

/// What a file holds: keys by database and name, with values and expiries.
#[derive(Default)]
struct Contents {
    keys: BTreeMap<(u64, Vec<u8>), (Collected, Option<i64>)>,
    aux: Vec<Vec<u8>>,
    functions: Vec<Vec<u8>>,
    with_idle: usize,
    with_freq: usize,
}

fn read(file: &[u8]) -> Contents {
    let (mut reader, mut batch) = (FileReader::new(file).unwrap(), Batch::default());
    let mut contents = Contents::default();
    while reader.next_batch(&mut batch).unwrap() {
        let mut items = batch.items();
        while let Some(item) = items.next().unwrap() {
            match item {
                Item::Key(key) => {
                    let mut collector = Collector::default();
                    items.value(&mut collector).unwrap_or_else(|e| panic!("{}: {e}", key.name.escape_ascii()));
                    let value = (collector.into_value().unwrap(), key.expires_at_ms);
                    assert!(contents.keys.insert((key.db, key.name.to_vec()), value).is_none());
                    contents.with_idle += usize::from(key.idle_s.is_some());
                    contents.with_freq += usize::from(key.freq.is_some());
                }
                Item::Aux { name, .. } => contents.aux.push(name.to_vec()),
                Item::Function(text) => contents.functions.push(text.to_vec()),
                _ => {}
            }
        }
    }
    assert_eq!(reader.offset(), file.len() as u64);
    contents
}

fn write(contents: &Contents, compress: bool, small: bool) -> Vec<u8> {
    let mut encoder = Encoder::new(compress);
    encoder.aux(b"redis-ver", Text::Bytes(b"7.0.15"));
    encoder.aux(b"ctime", Text::Int(1_700_000_000));
    contents.functions.iter().for_each(|text| encoder.function(text));
    let mut db = None;
    for ((key_db, name), (value, expires_at_ms)) in &contents.keys {
        if db != Some(*key_db) {
            encoder.select_db(*key_db);
            encoder.sizes(contents.keys.len() as u64, 0);
            db = Some(*key_db);
        }
        let key = KeyRecord { name, expires_at_ms: *expires_at_ms, ..KeyRecord::default() };
        value.encode(encoder.key(&key), small);
    }
    let mut writer = FileWriter::new(Vec::new(), encoder.version(), true).unwrap();
    writer.write(encoder.bytes()).unwrap();
    writer.finish().unwrap()
}

/// Without what files of version 10 do not keep.
fn as_kept(mut value: Collected) -> Collected {
    if let Collected::Stream(stream) = &mut value {
        let consumers = stream.groups.values_mut().flat_map(|group| group.consumers.values_mut());
        consumers.for_each(|consumer| consumer.active_ms = None);
    }
    value
}

fn select(conn: &mut Conn, db: u64) {
    conn.call(&argv!["SELECT", db.to_string()]);
}

fn compare(conn: &mut Conn, contents: &Contents) {
    for ((db, name), (value, expiry)) in &contents.keys {
        select(conn, *db);
        let (answered, answered_expiry) = ask(conn, name);
        let name = name.escape_ascii();
        assert!(as_kept(answered.clone()) == as_kept(value.clone()), "{name}: {value:?}\nthe server: {answered:?}");
        assert_eq!(answered_expiry, *expiry, "{name}");
    }
}

fn populate(conn: &mut Conn, rng: &mut Rng, oracle: Oracle) {
    conn.call(&argv!["FUNCTION", "LOAD", LIBRARY]);
    for index in 0..150 {
        select(conn, if index % 5 == 0 { 7 } else { 0 });
        let key = if index % 10 == 0 { index.to_string().into_bytes() } else { format!("key:{index}").into_bytes() };
        for command in commands(rng, oracle, &key) {
            let reply = conn.call(&command);
            assert!(!reply.is_error(), "{command}: {reply}");
        }
    }
}

/// Returns the types of encodings that the server has used.
fn check_payloads(conn: &mut Conn, contents: &Contents) -> BTreeSet<u8> {
    let mut kinds = BTreeSet::new();
    for ((db, name), (value, _)) in &contents.keys {
        select(conn, *db);
        let dumped = conn.call(&argv!["DUMP", name]);
        let mut collector = Collector::default();
        let body = open_payload(dumped.bytes().unwrap()).expect("a good footer");
        kinds.insert(body[0]);
        decode_payload(body, &mut collector, &mut Scratch::default()).unwrap();
        assert!(collector.into_value().as_ref() == Some(value), "{}", name.escape_ascii());
        for small in [true, false] {
            let mut encoder = Encoder::new(small);
            value.encode(encoder.payload(), small);
            let version = encoder.version();
            let mut payload = encoder.take();
            seal_payload(&mut payload, version);
            let reply = conn.call(&argv!["RESTORE", "restored", "0", payload, "REPLACE"]);
            assert_eq!(reply.text(), "OK", "{}", name.escape_ascii());
            assert!(as_kept(ask(conn, b"restored").0) == as_kept(value.clone()), "{}", name.escape_ascii());
        }
        conn.call(&argv!["DEL", "restored"]);
    }
    kinds
}

fn there_and_back(oracle: Oracle, settings: &[&str], seed: u64) -> BTreeSet<u8> {
    let server = start(oracle, settings);
    let mut conn = server.connect();
    populate(&mut conn, &mut Rng::new(seed), oracle);
    assert_eq!(conn.call(&argv!["SAVE"]).text(), "OK");
    let path = server.dir().join("dump.rdb");
    let contents = read(&fs::read(&path).unwrap());
    assert_eq!(contents.keys.len(), 150);
    assert_eq!(contents.functions, [LIBRARY.as_bytes()]);
    assert!(contents.aux.contains(&b"redis-ver".to_vec()));
    let policy = |name: &str| settings.contains(&name);
    assert_eq!(contents.with_freq, if policy("allkeys-lfu") { 150 } else { 0 });
    assert_eq!(contents.with_idle, if policy("allkeys-lru") { 150 } else { 0 });
    compare(&mut conn, &contents);
    let kinds = check_payloads(&mut conn, &contents);
    for (compress, small) in [(true, true), (false, false)] {
        let file = write(&contents, compress, small);
        let version = if oracle == Oracle::Older { "0010" } else { "0012" };
        assert_eq!(&file[5..9], version.as_bytes());
        assert!(read(&file).keys.len() == 150);
        fs::write(&path, &file).unwrap();
        if oracle == Oracle::Older {
            let checked = Command::new("redis-check-rdb").arg(&path).output().expect("redis-check-rdb runs");
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        }
        assert_eq!(conn.call(&argv!["DEBUG", "RELOAD", "NOSAVE"]).text(), "OK");
        let keys: i64 = [0, 7].map(|db| (select(&mut conn, db), int(&conn.call(&argv!["DBSIZE"]))).1).iter().sum();
        assert_eq!(keys, 150);
        compare(&mut conn, &contents);
        assert_eq!(int(&conn.call(&argv!["FCALL", "seven", "0"])), 7);
    }
    kinds
}

/// All settings, whose servers together must have used these encodings.
fn with_all_settings(oracle: Oracle, kinds: &[u8]) {
    let seeds = 100..;
    let used = SETTINGS.iter().zip(seeds).flat_map(|(settings, seed)| there_and_back(oracle, settings, seed));
    assert_eq!(used.collect::<BTreeSet<u8>>(), kinds.iter().copied().collect());
}

#[test]
fn files_and_payloads_go_to_redis_7_0_and_back() {
    with_all_settings(Oracle::Older, &[0, 2, 4, 5, 11, 16, 17, 18, 19]);
}

#[test]
fn files_and_payloads_go_to_redis_8_2_and_back() {
    with_all_settings(Oracle::Newer, &[0, 2, 4, 5, 11, 16, 17, 18, 20, 21, 24, 25]);
}

/// Both servers give their values to each other.
fn exchange(oracle: Oracle, seed: u64) {
    if skips_on_stand_in() {
        return;
    }
    let (theirs, ours) = (start(oracle, &[]), Server::start_onrush(&[]));
    let (mut theirs, mut ours) = (theirs.connect(), ours.connect());
    populate(&mut theirs, &mut Rng::new(seed), oracle);
    for db in [0, 7] {
        select(&mut theirs, db);
        select(&mut ours, db);
        for key in bulks(&theirs.run("KEYS *")) {
            let name = key.escape_ascii();
            let (value, _) = ask(&mut theirs, &key);
            let dumped = theirs.call(&argv!["DUMP", key]);
            let reply = ours.call(&argv!["RESTORE", key, "0", dumped.bytes().unwrap()]);
            assert_eq!(reply.text(), "OK", "{name}");
            let (restored, _) = ask(&mut ours, &key);
            assert!(as_kept(restored.clone()) == as_kept(value.clone()), "{name}: {value:?}\nours: {restored:?}");
            let dumped = ours.call(&argv!["DUMP", key]);
            let reply = theirs.call(&argv!["RESTORE", key, "0", dumped.bytes().unwrap(), "REPLACE"]);
            assert_eq!(reply.text(), "OK", "{name}");
            assert!(as_kept(ask(&mut theirs, &key).0) == as_kept(value), "{name}");
        }
    }
}

#[test]
fn values_go_from_redis_7_0_to_onrush_and_back() {
    exchange(Oracle::Older, 300);
}

#[test]
fn values_go_from_redis_8_2_to_onrush_and_back() {
    exchange(Oracle::Newer, 301);
}

fn sealed(body: &[u8]) -> Vec<u8> {
    let mut payload = body.to_vec();
    seal_payload(&mut payload, 10);
    payload
}

#[test]
fn restore_answers_as_redis_does() {
    let (good, list) = (sealed(b"\x00\x01v"), sealed(b"\x12\x01\x01\x01e"));
    let mut newer = b"\x00\x01v".to_vec();
    seal_payload(&mut newer, 99);
    let bad: [&[u8]; 8] = [
        b"",
        b"garbage",
        &newer,
        &sealed(b""),
        &sealed(b"\x01\x00"),
        &sealed(b"\x02\x02\x01a\x01a"),
        &sealed(b"\x63\x01a"),
        &sealed(b"\x06\x01a"),
    ];
    let mut commands: Vec<Argv> = bad.iter().map(|payload| argv!["RESTORE", "k", "0", payload]).collect();
    let with = |options: &str| Argv([argv!["RESTORE", "k", "0", good].0, Argv::parse(options).unwrap().0].concat());
    commands.extend([argv!["DUMP", "k"], argv!["RESTORE", "k", "x", good], argv!["RESTORE", "k", "-1", good]]);
    commands
        .extend(["FOO", "IDLETIME", "IDLETIME -1", "IDLETIME x", "FREQ 256", "FREQ -1", "FREQ 1 IDLETIME 1"].map(with));
    commands.extend([with(""), argv!["GET", "k"], argv!["PTTL", "k"], with(""), argv!["RESTORE", "k", "x", bad[1]]]);
    commands.extend([with("replace idletime 1000"), argv!["OBJECT", "IDLETIME", "k"], with("REPLACE FREQ 7 FREQ 9")]);
    commands.extend([argv!["RESTORE", "k", "0", bad[1], "REPLACE"], argv!["GET", "k"]]);
    commands.extend([argv!["RESTORE", "k", "5", good, "REPLACE", "ABSTTL"], argv!["EXISTS", "k"]]);
    commands.extend([argv!["RESTORE", "k", "9223372036854775807", good], argv!["EXISTS", "k"]]);
    commands.extend([argv!["RESTORE", "k", "1900000000000", list, "ABSTTL"], argv!["PEXPIRETIME", "k"]]);
    commands.extend([
        argv!["LRANGE", "k", "0", "-1"],
        argv!["RESTORE", "k", "100000", good, "REPLACE"],
        argv!["TTL", "k"],
    ]);
    commands.extend([argv!["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"], with("REPLACE FREQ 7")]);
    commands.extend([argv!["OBJECT", "FREQ", "k"], argv!["DUMP"], argv!["RESTORE", "k", "0"]]);
    let (theirs, ours) = (start(Oracle::Older, &[]), Server::start_onrush(&[]));
    let (mut theirs, mut ours) = (theirs.connect(), ours.connect());
    for command in &commands {
        assert_eq!(ours.call(command), theirs.call(command), "{command}");
    }
}

#[test]
fn dump_compresses_as_rdbcompression_says() {
    let (theirs, ours) = (start(Oracle::Older, &[]), Server::start_onrush(&[]));
    let lens = [theirs, ours].map(|server| {
        let mut conn = server.connect();
        for make in [argv!["SET", "string", vec![b'a'; 1000]], argv!["RPUSH", "list", vec![b'b'; 300]]] {
            conn.call(&make);
        }
        ["yes", "no", "yes"].map(|compresses| {
            conn.call(&argv!["CONFIG", "SET", "rdbcompression", compresses]);
            ["string", "list"].map(|key| conn.call(&argv!["DUMP", key]).bytes().expect("a payload").len())
        })
    });
    for lens in &lens {
        assert!(lens[0][0] < 100 && lens[1][0] > 1000 && lens[0][1] < 100 && lens[1][1] > 300, "{lens:?}");
        assert_eq!(lens[0], lens[2]);
    }
}

#[test]
fn a_restored_list_serves_who_waits_for_it() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let (mut waiting, mut conn) = (server.connect(), server.connect());
    waiting.send_command(&argv!["BLPOP", "k", "0"]).unwrap();
    wait_until("the client waits", || conn.info_number("blocked_clients") == Some(1));
    let payload = sealed(b"\x12\x01\x01\x01e");
    assert_eq!(conn.call(&argv!["RESTORE", "k", "0", payload]).text(), "OK");
    assert_eq!(waiting.read_reply().unwrap(), b"*2\r\n$1\r\nk\r\n$1\r\ne\r\n");
    assert_eq!(conn.call(&argv!["EXISTS", "k"]), Value::Int(0));
}

/// A library with a long text.
fn long_library() -> String {
    let line = "local function helper(keys, args) return redis.call('GET', keys[1]) end\n";
    format!("#!lua name=long\n{}redis.register_function('seven', function() return 7 end)", line.repeat(30))
}

/// A payload of FUNCTION RESTORE with libraries of these names and functions, and with these bytes behind them.
fn libraries(libraries: &[(&str, &str)], behind: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, function) in libraries {
        let text = format!("#!lua name={name}\nredis.register_function('{function}', redis.call)");
        payload.extend_from_slice(&[0xf5, 0x40, text.len() as u8]);
        payload.extend_from_slice(text.as_bytes());
    }
    payload.extend_from_slice(behind);
    seal_payload(&mut payload, 10);
    payload
}

#[test]
fn function_restore_refuses_as_the_oracles_do() {
    let mut conns =
        [Server::start_onrush(&[]), Server::start_oracle(Oracle::Older, &[]), Server::start_oracle(Oracle::Newer, &[])]
            .map(|server| (server.connect(), server));
    let payloads = [
        libraries(&[("a", "f")], b""),
        libraries(&[("b", "f")], b""),
        libraries(&[("b", "g"), ("a", "h")], b""),
        libraries(&[("b", "g"), ("b", "h")], b""),
        libraries(&[("b", "g"), ("c", "g")], b""),
        libraries(&[("a", "g"), ("a", "h")], b""),
        libraries(&[("a", "g"), ("b", "f")], b""),
        libraries(&[("b", "f"), ("a", "g")], b""),
        libraries(&[("b-", "f")], b"\x00"),
        libraries(&[("b", "g")], b"\x00\x01a\x01b"),
        libraries(&[("b", "g")], b"\xf5"),
        libraries(&[], b"\xf5\xc3\x02\x05\x40\x00"),
        libraries(&[], b"\xfa\x01a\x01b"),
        libraries(&[], b"\xff"),
        libraries(&[], b""),
    ];
    for payload in &payloads {
        for policy in [None, Some("APPEND"), Some("REPLACE"), Some("FLUSH")] {
            let mut command = argv!["FUNCTION", "RESTORE", payload];
            command.0.extend(policy.map(|policy| policy.into()));
            let [ours, older, newer] = conns.each_mut().map(|(conn, _)| {
                conn.run("FUNCTION FLUSH");
                conn.call(&argv!["FUNCTION", "RESTORE", libraries(&[("a", "f")], b"")]);
                let reply = conn.call(&command);
                let mut left = conn.run("FUNCTION LIST").to_string().lines().map(str::to_owned).collect::<Vec<_>>();
                left.sort();
                (reply, left)
            });
            assert_eq!(ours, older, "{command:?}");
            assert_eq!(ours, newer, "{command:?}");
        }
    }
    // The form of the release candidates of 7.0, of which only the newer oracle says what it is.
    let command = argv!["FUNCTION", "RESTORE", libraries(&[("b", "g")], b"\xf6\x01a")];
    let [ours, _, newer] = conns.each_mut().map(|(conn, _)| conn.call(&command));
    assert_eq!(ours, newer);
}

#[test]
fn dumps_of_functions_are_compressed_as_configured() {
    let text = long_library();
    let restored = |conn: &mut Conn, payload: &[u8]| {
        assert_eq!(conn.call(&argv!["FUNCTION", "FLUSH"]).text(), "OK");
        assert_eq!(conn.call(&argv!["FUNCTION", "RESTORE", payload]).text(), "OK");
        assert_eq!(int(&conn.call(&argv!["FCALL", "seven", "0"])), 7);
    };
    for compresses in ["no", "yes"] {
        let settings = ["--rdbcompression", compresses];
        let ours = Launch::onrush().args(&settings).start();
        let mut conn = ours.connect();
        let load = argv!["FUNCTION", "LOAD", &text];
        assert_eq!(conn.call(&load).text(), "long");
        let payload = conn.call(&argv!["FUNCTION", "DUMP"]).bytes().expect("a payload").to_vec();
        assert_eq!(payload.len() < text.len() / 2, compresses == "yes", "{}", payload.len());
        for oracle in [Oracle::Older, Oracle::Newer] {
            let redis = start(oracle, &settings);
            let mut other = redis.connect();
            assert_eq!(other.call(&load).text(), "long");
            let theirs = other.call(&argv!["FUNCTION", "DUMP"]).bytes().expect("a payload").to_vec();
            if compresses == "no" {
                let body = open_payload(&payload).expect("a payload");
                assert!(open_payload(&theirs) == Some(body), "the payload of {oracle:?} is another one");
                assert_eq!(payload == theirs, oracle == Oracle::Older);
            }
            restored(&mut other, &payload);
            restored(&mut conn, &theirs);
        }
        assert_eq!(conn.call(&argv!["SAVE"]).text(), "OK");
        let file = fs::read(ours.dir().join("dump.rdb")).expect("a file");
        assert_eq!(file.len() < text.len() / 2, compresses == "yes", "{}", file.len());
        assert_eq!(read(&file).functions, [text.as_bytes()]);
    }
}

#[test]
fn snapshots_have_the_newer_version_only_while_fields_expire() {
    let server = Launch::onrush().start();
    let mut conn = server.connect();
    let version = |conn: &mut Conn| {
        assert_eq!(conn.run("SAVE").text(), "OK");
        let file = fs::read(server.dir().join("dump.rdb")).expect("a file");
        String::from_utf8_lossy(&file[..9]).into_owned()
    };
    let many: Vec<String> = (0..1_000).flat_map(|n| [format!("f{n}"), "v".to_owned()]).collect();
    for gone in ["DEL h", "HPERSIST h FIELDS 2 f1 f2", "HDEL h f1 f2"] {
        conn.call(&Argv(["HSET", "h"].into_iter().chain(many.iter().map(String::as_str)).map(Into::into).collect()));
        assert_eq!(version(&mut conn), "REDIS0010", "{gone}");
        conn.run("HEXPIRE h 1000 FIELDS 2 f1 f2");
        assert_eq!(version(&mut conn), "REDIS0012", "{gone}");
        conn.run(gone);
        wait_until("the older servers can read it", || version(&mut conn) == "REDIS0010");
    }
}
