use super::*;

#[test]
fn all_or_nothing() {
    let config = Config::default();
    let error = set(&config, &[("hz", "20"), ("timeout", "abc")]).unwrap_err();
    assert_eq!(
        error,
        "ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer"
    );
    let change = set(&config, &[("hz", "20"), ("timeout", "0"), ("MAXMEMORY", "1gb")]).unwrap();
    assert_eq!((change.config.hz, change.config.maxmemory), (20, 1 << 30));
    assert_eq!(change.changed.iter().map(|row| row.name).collect::<Vec<_>>(), ["hz", "maxmemory"]);
    assert_eq!(config.hz, 10);
}

#[test]
fn errors_have_the_words_of_redis() {
    let config = Config::default();
    let failed =
        |name: &str, reason: &str| format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}");
    for (pairs, error) in [
        (
            &[("foo\r\nbar", "1")][..],
            "ERR Unknown option or number of arguments for CONFIG SET - 'foo  bar'".to_owned(),
        ),
        (&[("hz", "1"), ("HZ", "2"), ("foo", "3")], failed("HZ", "duplicate parameter")),
        (&[("daemonize", "no")], failed("daemonize", "can't set immutable config")),
        (&[("dir", "/")], failed("dir", "can't set protected config")),
        (&[("MaxMemory", "1x")], failed("maxmemory", "argument must be a memory value")),
        (&[("protected-mode", "1")], failed("protected-mode", "argument must be 'yes' or 'no'")),
        (&[("port", "65536")], failed("port", "argument must be between 0 and 65535 inclusive")),
        (
            &[("appendfsync", "x")],
            failed("appendfsync", "argument(s) must be one of the following: everysec, always, no"),
        ),
        (&[("save", "900")], failed("save", "Invalid save parameters")),
        (
            &[("maxmemory-clients", "101%")],
            failed("maxmemory-clients", "percentage argument must be less or equal to 100"),
        ),
    ] {
        assert_eq!(set(&config, pairs).unwrap_err(), error);
    }
}

#[test]
fn protected_directives_may_be_opened_to_this_machine() {
    let config = Config::default().with("enable-protected-configs", "local").unwrap();
    let pairs = [(b"dbfilename".as_slice(), b"x.rdb".as_slice())];
    assert!(config.set_many(&pairs, true).is_ok());
    assert!(config.set_many(&pairs, false).is_err());
}

#[test]
fn save_replaces_and_output_limits_merge() {
    let config = Config::default();
    let config = set(&config, &[("save", "900 1")]).unwrap().config;
    let config = set(&config, &[("save", "300 10 60 7"), ("client-output-buffer-limit", "pubsub 1mb 2 3")]);
    let config = config.unwrap().config;
    assert_eq!(get(&config, "save"), "300 10 60 7");
    let limits = get(&config, "client-output-buffer-limit");
    assert_eq!(limits, "normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 2 3");
    assert!(set(&config, &[("save", "")]).unwrap().config.save.is_empty());
}

#[test]
fn values_may_be_any_bytes() {
    let change = Config::default().set_many(&[(b"requirepass", b"\xff\0 x")], true).unwrap();
    assert_eq!(&change.config.requirepass[..], b"\xff\0 x");
    assert_eq!(change.config.get("requirepass").unwrap(), b"\xff\0 x");
}

#[test]
fn secrets_do_not_show() {
    let config = Config::default().with("requirepass", "hunter2").unwrap();
    assert!(!format!("{config:?} {:?}", config.requirepass).contains("hunter2"));
}

#[test]
fn maxclients_is_lowered_but_never_raised() {
    let mut config = Config::default();
    config.lower_maxclients(500);
    config.lower_maxclients(600);
    assert_eq!((config.maxclients, get(&config, "maxclients")), (500, "500".to_owned()));
}

#[test]
fn what_names_a_file_is_set_anew_by_the_same_value() {
    let config = Config::default().with("tls-cert-file", "a.crt").unwrap().with("tls-auth-clients", "no").unwrap();
    let pairs: [(&[u8], &[u8]); 2] = [(b"tls-cert-file", b"a.crt"), (b"tls-auth-clients", b"no")];
    let changed: Vec<_> = config.set_many(&pairs, true).unwrap().changed.iter().map(|row| row.name).collect();
    assert_eq!(changed, ["tls-cert-file"]);
}
