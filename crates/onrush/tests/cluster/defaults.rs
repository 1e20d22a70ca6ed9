//! What docs/client-library.md says of the cluster client.

use onrush::ClusterConfig;

#[test]
fn the_page_of_defaults_says_what_the_code_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/client-library.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let code = [
        &format!("{:?}", ClusterConfig::new()),
        include_str!("../../src/cluster/refresh.rs"),
        include_str!("../../src/cluster/rounds.rs"),
        include_str!("../../src/cluster/mod.rs"),
    ];
    for (what, default, wanted) in [
        ("redirects that a command follows", "16, within the response timeout", "redirects_max: 16,"),
        ("nodes that answer reads", "primaries", "read_from: Primary,"),
        ("whether commands with keys in several slots", "no", "split: false,"),
        ("how often the slots are asked for", "60 s", "refresh_interval: Some(60s)"),
        ("shortest time between two", "100 ms", "GAP: Duration = Duration::from_millis(100);"),
        ("waits between redirects", "none twice, then 1 ms doubling to 100 ms", "QUICK_ROUNDS: u32 = 2;"),
        ("waits after TRYAGAIN", "at most 100 ms", "REST_MAX: Duration = Duration::from_millis(100);"),
        ("time in which a node that has left", "1 s", "GRACE: Duration = Duration::from_secs(1);"),
    ] {
        let row = page.lines().find(|line| line.starts_with(&format!("| {what}"))).expect(what);
        assert!(row.ends_with(&format!("{default} |")), "{row}");
        assert!(code.iter().any(|code| code.contains(wanted)), "{wanted}");
    }
}
