use super::*;

#[test]
fn a_file_then_standard_input_then_options() {
    let scratch = Scratch::new("order");
    let file = scratch.file("a.conf", "# comment\n\n  hz 20  \nTIMEOUT '7'\nmaxclients 9\r\n");
    let words = [file.into_os_string(), "--hz".into(), "30".into(), "-".into()];
    let loaded = load_arguments(words, "maxclients 8\nhz 40").unwrap();
    assert_eq!((loaded.config.hz, loaded.config.timeout, loaded.config.maxclients), (30, 7, 8));
    assert_eq!(loaded.config_file, Some(scratch.0.join("a.conf")));
}

#[test]
fn lines_of_save_add_up_and_the_first_replaces_the_default() {
    let save = |text: &str| get(&load_stdin(text).unwrap().config, "save");
    assert_eq!(save("save 900 1\nsave 300 10 60 2"), "900 1 300 10 60 2");
    assert_eq!(save("save 900 1\nsave \"\"\nsave 5 5"), "5 5");
    assert_eq!(save("save"), "");
    assert_eq!(save("save \"900 1\""), "900 1");
    let config = load_options(&["--save", "900", "1", "--save", "300", "10"]).unwrap().config;
    assert_eq!(get(&config, "save"), "900 1 300 10");
}

#[test]
fn includes_may_be_patterns_and_begin_at_dir() {
    let scratch = Scratch::new("include");
    scratch.file("one.inc", "hz 20\ntimeout 1");
    scratch.file("two.inc", "hz 30");
    scratch.file(".hidden.inc", "hz 40");
    let dir = scratch.0.display();
    let config = load_stdin(&format!("dir {dir}\ninclude *.inc\ninclude none*\n")).unwrap().config;
    assert_eq!((config.hz, config.timeout), (30, 1));
    assert_eq!(Path::new(&config.dir), scratch.0);
    let error = load_stdin(&format!("include {dir}/none")).unwrap_err();
    assert_eq!(error, format!("Fatal error, can't open config file '{dir}/none': No such file or directory"));
}

#[test]
fn files_that_include_themselves_are_an_error() {
    let scratch = Scratch::new("cycle");
    let file = scratch.file("a.conf", &format!("include {}/a.conf", scratch.0.display()));
    assert!(load_file(&file, &[]).unwrap_err().contains("\nfiles include one another too deeply\n"));
}

#[test]
fn a_bad_line_is_shown_as_redis_shows_it() {
    let scratch = Scratch::new("bad");
    let shown = |number: usize, line: &str| {
        format!(
            "\n*** FATAL CONFIG FILE ERROR (Redis {}) ***\nReading the configuration file, at line {number}\n\
             >>> '{line}'\nargument couldn't be parsed into an integer",
            onrush_resp::REDIS_VERSION
        )
    };
    let bad = scratch.file("bad.conf", "hz 10\n\n#x\n  port  abc \n");
    assert_eq!(load_file(&bad, &[]).unwrap_err(), shown(4, "port  abc"));
    assert_eq!(load_options(&["--timeout", "5", "--hz", "abc"]).unwrap_err(), shown(3, "hz \"abc\""));

    let good = scratch.file("good.conf", "hz 10\n\n");
    assert_eq!(load_file(&good, &["--hz", "abc"]).unwrap_err(), shown(4, "hz \"abc\""));
    let words = [good.into_os_string(), "-".into()];
    assert_eq!(load_arguments(words, "hz 20\nhz abc\n").unwrap_err(), shown(4, "hz abc"));

    let file = scratch.file("a.conf", &format!("hz 10\n\n\n\ninclude {}\n", bad.display()));
    let place = format!("\nThe line is in the included file '{}'", bad.display());
    assert_eq!(load_file(&file, &[]).unwrap_err(), shown(4, "port  abc") + &place);
}

#[test]
fn lines_behind_an_included_file_are_counted_in_their_own() {
    let scratch = Scratch::new("behind");
    let included = scratch.file("x.inc", "hz 20\n\n\n");
    let error = load_stdin(&format!("include {}\nhz abc", included.display())).unwrap_err();
    assert!(error.contains("at line 2\n>>> 'hz abc'") && !error.contains("x.inc"), "{error}");
}

#[test]
fn reasons_have_the_words_of_redis() {
    for (line, reason) in [
        ("foo 1", "Bad directive or wrong number of arguments"),
        ("include a b", "Bad directive or wrong number of arguments"),
        ("user", "Bad directive or wrong number of arguments"),
        ("rename-command GET", "Bad directive or wrong number of arguments"),
        ("rename-command NOSUCH x", "No such command in rename-command"),
        ("rename-command GET SET", "Target command name already exists"),
        ("rename-command GET x\nrename-command SET X", "Target command name already exists"),
        ("hz", "wrong number of arguments"),
        ("hz 10 # ten", "wrong number of arguments"),
        ("hz 'a", "Unbalanced quotes in configuration line"),
        ("hz \"10\"x", "Unbalanced quotes in configuration line"),
        ("daemonize maybe", "argument must be 'yes' or 'no'"),
        ("maxclients -1", "argument must be greater or equal to 0"),
        ("maxclients 0", "argument must be between 1 and 4294967295 inclusive"),
        ("timeout -1", "argument must be between 0 and 2147483647 inclusive"),
        ("unixsocketperm 999", "argument couldn't be parsed as an octal number"),
        ("unixsocketperm 1777", "argument must be between 0 and 777 inclusive"),
        ("appendfilename a/b", "appendfilename can't be a path, just a filename"),
        ("appenddirname a/b", "appenddirname can't be a path, just a dirname"),
        ("replicaof localhost x", "Invalid master port"),
        ("dir /nowhere/at/all", "No such file or directory"),
        ("sentinel monitor a b 1 1", "sentinel directive while not in sentinel mode"),
        ("loadmodule x.so", "modules are not supported"),
    ] {
        let error = load_stdin(line).unwrap_err();
        assert_eq!(error.lines().last(), Some(reason), "{line}");
    }
}

#[test]
fn secrets_are_not_shown_in_errors() {
    for line in ["requirepass hunter2 x", "\"requirepass\" 'hunter2", "tls-key-file-pass hunter2 x"] {
        let error = load_stdin(line).unwrap_err();
        assert!(error.contains("(redacted)") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn lines_of_users_are_kept_and_wrong_ones_are_refused_without_their_passwords() {
    let load = |text: &str| load_stdin(text).map(|loaded| loaded.config.users);
    let users = load("user default on >secret ~* &* +@all\nuser bob (+get ~a) ( +set ~b )\n").unwrap();
    let rules =
        |user: &UserLine| user.rules.iter().map(|rule| String::from_utf8(rule.clone()).unwrap()).collect::<Vec<_>>();
    assert_eq!(users[0].name, b"default");
    assert_eq!(rules(&users[0]), ["on", ">secret", "~*", "&*", "+@all"]);
    assert_eq!(rules(&users[1]), ["(+get ~a)", "( +set ~b )"]);
    assert!(!format!("{users:?}").contains("secret"));
    for (rules, why) in [
        ("on >hunter2 nosuch", "Syntax error"),
        ("on >hunter2 (+get", "Wrong format"),
        (
            "on >hunter2 #abc",
            "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        ),
    ] {
        let error = load(&format!("hz 20\nuser bob {rules}\nhz 30")).unwrap_err();
        assert!(error.contains("at line 2\n>>> 'user (redacted)'\n") && !error.contains("hunter2"), "{error}");
        assert!(error.ends_with(&format!("Error in user declaration 'bob': {why}")), "{error}");
    }
    // Which commands there are is known when the server starts.
    assert!(load("user bob +nosuch").is_ok());
    let twice = load("user default on\nuser default off").unwrap_err();
    assert!(twice.contains("at line 2") && twice.contains("Duplicate user found"), "{twice}");
}

#[test]
fn renamed_commands_are_kept() {
    let config = load_stdin("rename-command FLUSHALL \"\"\nrename-command GET SeT2\nrename-command set get\n").unwrap();
    let pairs = [("FLUSHALL", ""), ("GET", "SeT2"), ("set", "get")];
    let pairs = pairs.map(|(from, to)| (from.as_bytes().to_vec(), to.as_bytes().to_vec()));
    assert_eq!(config.config.renamed_commands, pairs);
}

#[test]
fn forgotten_directives_are_taken_without_a_word() {
    assert!(load_stdin("list-max-ziplist-entries 5\nlist-max-ziplist-value 5\nlua-replicate-commands no").is_ok());
}
