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
    assert!(load_file(&file, &[]).unwrap_err().ends_with("files include one another too deeply"));
}

#[test]
fn a_bad_line_is_shown_with_its_place() {
    let scratch = Scratch::new("bad");
    let file = scratch.file("a.conf", "hz 10\n\n#x\n  port  abc \n");
    let error = load_file(&file, &[]).unwrap_err();
    let lines: Vec<_> = error.lines().collect();
    assert!(lines[0].starts_with("*** FATAL CONFIG FILE ERROR (Onrush "));
    assert_eq!(lines[1], format!("Reading the configuration file '{}', at line 4", file.display()));
    assert_eq!(lines[2..], [">>> 'port  abc'", "argument couldn't be parsed into an integer"]);
    let error = load_options(&["--hz", "abc"]).unwrap_err();
    assert!(error.ends_with(">>> 'hz \"abc\"'\nargument couldn't be parsed into an integer"), "{error}");
}

#[test]
fn reasons_have_the_words_of_redis() {
    for (line, reason) in [
        ("foo 1", "Bad directive or wrong number of arguments"),
        ("include a b", "Bad directive or wrong number of arguments"),
        ("user", "Bad directive or wrong number of arguments"),
        ("hz", "wrong number of arguments"),
        ("hz 10 # ten", "wrong number of arguments"),
        ("hz 'a", "Unbalanced quotes in configuration line"),
        ("hz \"10\"x", "Unbalanced quotes in configuration line"),
        ("daemonize maybe", "argument must be 'yes' or 'no'"),
        ("unixsocketperm 999", "argument couldn't be parsed as an octal number"),
        ("unixsocketperm 1777", "argument must be between 0 and 777 inclusive"),
        ("appendfilename a/b", "appendfilename can't be a path, just a filename"),
        ("replicaof localhost x", "Invalid master port"),
        ("dir /nowhere/at/all", "No such file or directory"),
        ("loadmodule x.so", "modules are not supported"),
    ] {
        let error = load_stdin(line).unwrap_err();
        assert_eq!(error.lines().last(), Some(reason), "{line}");
    }
}

#[test]
fn secrets_are_not_shown_in_errors() {
    for line in ["requirepass hunter2 x", "\"requirepass\" 'hunter2", "tls-key-file-pass hunter2"] {
        let error = load_stdin(line).unwrap_err();
        assert!(error.contains("(redacted)") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn users_and_renamed_commands_are_kept() {
    let config = load_stdin("user bob on >x ~*\nrename-command FLUSHALL \"\"\n").unwrap().config;
    assert_eq!(config.users, [["bob", "on", ">x", "~*"].map(|word| word.as_bytes().to_vec())]);
    assert_eq!(config.renamed_commands, [(b"FLUSHALL".to_vec(), Vec::new())]);
}

#[test]
fn forgotten_directives_are_taken_without_a_word() {
    assert!(load_stdin("list-max-ziplist-entries 5\nlist-max-ziplist-value 5").is_ok());
}
