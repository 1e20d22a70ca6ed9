use super::*;

#[test]
fn a_star_gives_all_but_the_hidden() {
    let config = Config::default();
    let found = config.get_matching(&[b"*"]);
    let names = names(&found);
    assert!(names.contains(&"hash-max-ziplist-entries") && names.contains(&"hash-max-listpack-entries"));
    assert!(!names.contains(&"watchdog-period"));
    assert_eq!(super::names(&config.get_matching(&[b"watchdog-period"])), ["watchdog-period"]);
}

#[test]
fn names_match_in_any_case_and_are_answered_as_asked() {
    let config = Config::default();
    assert_eq!(names(&config.get_matching(&[b"SLAVEOF", b"*slaveof"])), ["SLAVEOF"]);
    assert_eq!(names(&config.get_matching(&[b"h?", b"HZ"])), ["hz"]);
    assert_eq!(names(&config.get_matching(&[b"H[Z]"])), ["hz"]);
    assert_eq!(names(&config.get_matching(&[b"nope", b"h\\z"])), [""; 0]);
}
