use super::*;

#[test]
fn names_and_aliases_are_unique_and_in_lower_case() {
    let mut seen = HashSet::new();
    for name in DIRECTIVES.iter().flat_map(|row| [Some(row.name), row.alias]).flatten() {
        assert!(seen.insert(name), "{name} twice");
        assert_eq!(name, name.to_ascii_lowercase());
    }
}

#[test]
fn defaults_come_back_from_what_is_written() {
    for (directive, value) in DIRECTIVES.iter().zip(DEFAULTS.iter()) {
        let words = onrush_resp::split_words(value.to_line().as_bytes()).unwrap();
        let words = if matches!(directive.kind, Kind::Primary) { vec![b"no one".to_vec()] } else { words };
        let nothing = Value::Text(Vec::new());
        assert_eq!(Value::parse(directive, &words, &nothing).as_ref(), Ok(value), "{}", directive.name);
    }
}

#[test]
fn defaults_are_those_of_redis_and_ours() {
    let config = Config::default();
    assert_eq!(config.bind, ["127.0.0.1", "-::1"]);
    assert_eq!((config.port, config.databases, config.maxclients), (6379, 16, 10_000));
    assert_eq!((config.timeout, config.tcp_keepalive, config.hz), (0, 300, 10));
    assert!(config.protected_mode && config.requirepass.is_empty() && !config.daemonize);
    assert_eq!(config.maxmemory_policy, "noeviction");
    assert_eq!((config.pipeline_reply_limit, config.pipeline_slice_us), (1 << 20, 1000));
    assert_eq!(config.proto_max_bulk_len, 512 << 20);
    assert_eq!(config.list_max_listpack_size, -2);
    assert!(config.workers >= 1);
    assert_eq!(get(&config, "save"), "3600 1 300 100 60 10000");
    assert_eq!(get(&config, "latency-tracking-info-percentiles"), "50 99 99.9");
    assert_eq!(get(&config, "proc-title-template"), "{title} {listen-addr} {server-mode}");
}

#[test]
fn what_was_once_refused_is_taken() {
    for (name, value) in
        [("cluster-enabled", "yes"), ("appendonly", "yes"), ("slaveof", "no one"), ("tls-cluster", "yes")]
    {
        assert!(Config::default().with(name, value).is_ok(), "{name}");
    }
}
