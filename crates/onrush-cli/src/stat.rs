//! `--stat`: a line of figures per interval.

use std::time::Duration;

use crate::args::Options;
use crate::connection::Connection;
use crate::fail::Fail;
use crate::key_stats::in_units;
use crate::session::print;

/// Lines between two heads of the columns.
const LINES_PER_HEAD: usize = 20;
const HEAD: &str = "------- data ------ --------------------- load -------------------- - child -\n\
                    keys       mem      clients blocked requests            connections          \n";

/// Shows figures until interrupted.
///
/// # Errors
/// When the connection cannot be made or the server refuses.
pub fn run(options: &Options) -> Result<(), Fail> {
    let interval = if options.interval.is_zero() { Duration::from_secs(1) } else { options.interval };
    let mut connection = Connection::open_logged_in(&options.target)?;
    let mut requests_before = None;
    for line in 0.. {
        let info = connection.ask(&["INFO"])?.text();
        if line % LINES_PER_HEAD == 0 {
            print(HEAD);
        }
        let requests = field(&info, "total_commands_processed");
        print(row(&info, requests - requests_before.unwrap_or(requests)));
        requests_before = Some(requests);
        std::thread::sleep(interval);
    }
    Ok(())
}

fn row(info: &str, requests_more: i64) -> String {
    let requests = format!("{} (+{requests_more})", field(info, "total_commands_processed"));
    let child = match (field(info, "rdb_bgsave_in_progress") != 0, field(info, "aof_rewrite_in_progress") != 0) {
        (true, true) => "SAVE+AOF",
        (true, false) => "SAVE",
        (false, true) => "AOF",
        (false, false) => "",
    };
    format!(
        "{:<11}{:<9}{:<8}{:<8}{:<20}{:<12}{child}\n",
        keys(info),
        in_units(field(info, "used_memory").max(0).unsigned_abs(), "BKMG"),
        field(info, "connected_clients"),
        field(info, "blocked_clients"),
        requests,
        field(info, "total_connections_received"),
    )
}

/// A number of INFO; 0 when it is not there.
fn field(info: &str, name: &str) -> i64 {
    let values = info.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    values.into_iter().find_map(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// The keys of all databases together.
fn keys(info: &str) -> i64 {
    let databases = info.lines().filter(|line| line.starts_with("db"));
    databases.filter_map(|line| line.split_once("keys=")?.1.split(',').next()?.parse::<i64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_the_figures_of_info() {
        let info = "used_memory:276360000\r\nconnected_clients:1\r\nblocked_clients:0\r\n\
                    total_commands_processed:13726853\r\ntotal_connections_received:164\r\n\
                    db0:keys=3000000,expires=0\r\ndb3:keys=4,expires=0\r\n";
        assert_eq!(row(info, 1), "3000004    263.56M  1       0       13726853 (+1)       164         \n");
        assert!(row("used_memory:5497558138880\n", 0).starts_with("0          5120.00G "));
    }
}
