//! Members and fields that arrive in the order in which a large set or hash keeps them: each command returns, and
//! nothing is lost.

use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::Server;

const MEMBERS: usize = 20_000;

/// How long any of these commands may take; each needs some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

fn connect(server: &Server) -> Conn {
    let mut conn = server.connect();
    conn.set_timeout(PATIENCE);
    conn
}

/// A command with more arguments behind it.
fn with(command: &[&str], more: impl IntoIterator<Item = Vec<u8>>) -> Argv {
    let mut args: Vec<Vec<u8>> = command.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    args.extend(more);
    Argv::new(&args)
}

fn members(conn: &mut Conn, command: &Argv) -> Vec<Vec<u8>> {
    let reply = conn.call(command);
    reply.items().expect("an array").iter().map(|item| item.bytes().expect("a member").to_vec()).collect()
}

fn with_large_set() -> (Server, Conn) {
    let server = Server::start_onrush(&["--workers", "1"]);
    let mut conn = connect(&server);
    let added = with(&["SADD", "s1"], (0..MEMBERS).map(|n| format!("m:{n}").into_bytes()));
    assert_eq!(conn.call(&added), Value::Int(MEMBERS as i64));
    (server, conn)
}

#[test]
fn a_union_of_a_large_set_returns() {
    let (_server, mut conn) = with_large_set();
    let mut expected = members(&mut conn, &argv!["SMEMBERS", "s1"]);
    let mut union = members(&mut conn, &argv!["SUNION", "s1"]);
    expected.sort();
    union.sort();
    assert_eq!(union, expected);
}

#[test]
fn sets_made_of_a_large_set_have_all_its_members() {
    let (_server, mut conn) = with_large_set();
    for command in ["SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE"] {
        assert_eq!(conn.call(&argv![command, "d", "s1"]), Value::Int(MEMBERS as i64));
        assert_eq!(conn.call(&argv!["SCARD", "d"]), Value::Int(MEMBERS as i64));
        for pair in [["s1", "d"], ["d", "s1"]] {
            assert_eq!(members(&mut conn, &argv!["SDIFF", pair[0], pair[1]]), [] as [Vec<u8>; 0], "{command}");
        }
    }
}

#[test]
fn all_members_are_added_again_in_either_order_with_one_command_and_with_many() {
    let (_server, mut conn) = with_large_set();
    let ascending = members(&mut conn, &argv!["SMEMBERS", "s1"]);
    let descending: Vec<Vec<u8>> = ascending.iter().rev().cloned().collect();
    for order in [&ascending, &descending] {
        for per_command in [1, 100, MEMBERS] {
            let adds: Vec<Argv> = order.chunks(per_command).map(|part| with(&["SADD", "d"], part.to_vec())).collect();
            conn.pipeline(&adds);
            assert_eq!(conn.call(&argv!["SINTERCARD", "2", "s1", "d"]), Value::Int(MEMBERS as i64));
            assert_eq!(conn.call(&argv!["SCARD", "d"]), Value::Int(MEMBERS as i64));
            let removals: Vec<Argv> = order.chunks(100).map(|part| with(&["SREM", "d"], part.to_vec())).collect();
            conn.pipeline(&removals);
            assert_eq!(conn.call(&argv!["EXISTS", "d"]), Value::Int(0));
        }
    }
}

#[test]
fn fields_are_set_in_the_order_of_a_large_hash() {
    let (_server, mut conn) = with_large_set();
    let names = members(&mut conn, &argv!["SMEMBERS", "s1"]);
    for value_len in [1, 60, 240] {
        let value = vec![b'v'; value_len];
        let fields = with(&["HSET", "h"], names.iter().flat_map(|name| [name.clone(), value.clone()]));
        assert_eq!(conn.call(&fields), Value::Int(MEMBERS as i64));
        assert_eq!(conn.call(&argv!["HLEN", "h"]), Value::Int(MEMBERS as i64));
        let values = members(&mut conn, &with(&["HMGET", "h"], names.clone()));
        assert!(values.iter().all(|found| *found == value));
        assert_eq!(conn.call(&argv!["DEL", "h"]), Value::Int(1));
    }
}

/// Members whose hashes begin alike: the part of a very large set that a scan returns first.
#[test]
fn a_small_part_of_a_large_set_makes_a_small_set() {
    const ALL: usize = 2_000_000;
    const PART: usize = 2_000;
    let server = Server::start_onrush(&["--workers", "1"]);
    let mut conn = connect(&server);
    for first in (0..ALL).step_by(100_000) {
        let adds: Vec<Argv> = (first..first + 100_000)
            .step_by(1_000)
            .map(|first| with(&["SADD", "all"], (first..first + 1_000).map(|n| n.to_string().into_bytes())))
            .collect();
        conn.pipeline(&adds);
    }
    let page = conn.call(&argv!["SSCAN", "all", "0", "COUNT", PART.to_string()]);
    let first: Vec<Vec<u8>> = page.items().expect("cursor and members")[1]
        .items()
        .expect("members")
        .iter()
        .map(|item| item.bytes().expect("a member").to_vec())
        .collect();
    let count = Value::Int(first.len() as i64);
    assert_eq!(conn.call(&with(&["SADD", "part"], first.clone())), count);
    assert_eq!(conn.call(&argv!["SINTERCARD", "2", "part", "all"]), count);
    let Value::Int(bytes) = conn.call(&argv!["MEMORY", "USAGE", "part"]) else { panic!("bytes") };
    assert!(bytes < 64 * first.len() as i64, "{bytes} bytes for {} members", first.len());
    assert_eq!(conn.call(&with(&["SREM", "part"], first)), count);
}
