//! Metrics for Prometheus, in its text format 0.0.4: INFO's fields under the names that dashboards for redis_exporter ask
//! for, and the pipeline's figures as histograms.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::commands::server::info;
use crate::ctx::Engine;

/// What a metric is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    /// `ok` is 1, anything else 0.
    Status,
}

use Kind::{Counter, Gauge, Status};

/// A field of INFO, its metric's name behind `redis_`, and what it is. Fields that are not here keep their names, as
/// gauges.
const RENAMED: &[(&str, &str, Kind)] = &[
    ("used_memory", "memory_used_bytes", Gauge),
    ("used_memory_rss", "memory_used_rss_bytes", Gauge),
    ("used_memory_peak", "memory_used_peak_bytes", Gauge),
    ("used_memory_overhead", "memory_used_overhead_bytes", Gauge),
    ("used_memory_startup", "memory_used_startup_bytes", Gauge),
    ("used_memory_dataset", "memory_used_dataset_bytes", Gauge),
    ("used_memory_lua", "memory_used_lua_bytes", Gauge),
    ("used_memory_vm_eval", "memory_used_vm_eval_bytes", Gauge),
    ("used_memory_vm_functions", "memory_used_vm_functions_bytes", Gauge),
    ("used_memory_vm_total", "memory_used_vm_total_bytes", Gauge),
    ("used_memory_scripts", "memory_used_scripts_bytes", Gauge),
    ("used_memory_scripts_eval", "memory_used_scripts_eval_bytes", Gauge),
    ("used_memory_functions", "memory_used_functions_bytes", Gauge),
    ("maxmemory", "memory_max_bytes", Gauge),
    ("allocator_active", "allocator_active_bytes", Gauge),
    ("allocator_allocated", "allocator_allocated_bytes", Gauge),
    ("allocator_resident", "allocator_resident_bytes", Gauge),
    ("maxclients", "max_clients", Gauge),
    ("client_recent_max_input_buffer", "client_recent_max_input_buffer_bytes", Gauge),
    ("client_recent_max_output_buffer", "client_recent_max_output_buffer_bytes", Gauge),
    ("loading", "loading_dump_file", Gauge),
    ("rdb_last_save_time", "rdb_last_save_timestamp_seconds", Gauge),
    ("rdb_last_bgsave_status", "rdb_last_bgsave_status", Status),
    ("rdb_last_bgsave_time_sec", "rdb_last_bgsave_duration_sec", Gauge),
    ("rdb_current_bgsave_time_sec", "rdb_current_bgsave_duration_sec", Gauge),
    ("rdb_last_cow_size", "rdb_last_cow_size_bytes", Gauge),
    ("rdb_saves", "rdb_saves_total", Counter),
    ("aof_last_bgrewrite_status", "aof_last_bgrewrite_status", Status),
    ("aof_last_write_status", "aof_last_write_status", Status),
    ("aof_last_rewrite_time_sec", "aof_last_rewrite_duration_sec", Gauge),
    ("aof_current_rewrite_time_sec", "aof_current_rewrite_duration_sec", Gauge),
    ("aof_last_cow_size", "aof_last_cow_size_bytes", Gauge),
    ("aof_current_size", "aof_current_size_bytes", Gauge),
    ("aof_base_size", "aof_base_size_bytes", Gauge),
    ("aof_rewrites", "aof_rewrites_total", Counter),
    ("repl_backlog_size", "replication_backlog_bytes", Gauge),
    ("total_connections_received", "connections_received_total", Counter),
    ("total_commands_processed", "commands_processed_total", Counter),
    ("total_net_input_bytes", "net_input_bytes_total", Counter),
    ("total_net_output_bytes", "net_output_bytes_total", Counter),
    ("total_net_repl_input_bytes", "net_repl_input_bytes_total", Counter),
    ("total_net_repl_output_bytes", "net_repl_output_bytes_total", Counter),
    ("rejected_connections", "rejected_connections_total", Counter),
    ("expired_keys", "expired_keys_total", Counter),
    ("expired_subkeys", "expired_subkeys_total", Counter),
    ("expired_time_cap_reached_count", "expired_time_cap_reached_total", Counter),
    ("expire_cycle_cpu_milliseconds", "expire_cycle_cpu_time_ms_total", Counter),
    ("evicted_keys", "evicted_keys_total", Counter),
    ("evicted_clients", "evicted_clients_total", Counter),
    ("evicted_scripts", "evicted_scripts_total", Counter),
    ("total_eviction_exceeded_time", "eviction_exceeded_time_ms_total", Counter),
    ("keyspace_hits", "keyspace_hits_total", Counter),
    ("keyspace_misses", "keyspace_misses_total", Counter),
    ("total_error_replies", "total_error_replies", Counter),
    ("total_reads_processed", "total_reads_processed", Counter),
    ("total_writes_processed", "total_writes_processed", Counter),
    ("lazyfreed_objects", "lazyfreed_objects_total", Counter),
    ("migrate_cached_sockets", "migrate_cached_sockets_total", Gauge),
    ("client_query_buffer_limit_disconnections", "client_query_buffer_limit_disconnections_total", Counter),
    ("client_output_buffer_limit_disconnections", "client_output_buffer_limit_disconnections_total", Counter),
    ("acl_access_denied_auth", "acl_access_denied_auth_total", Counter),
    ("acl_access_denied_cmd", "acl_access_denied_cmd_total", Counter),
    ("acl_access_denied_key", "acl_access_denied_key_total", Counter),
    ("acl_access_denied_channel", "acl_access_denied_channel_total", Counter),
    ("eventloop_cycles", "eventloop_cycles_total", Counter),
    ("eventloop_duration_sum", "eventloop_duration_sum_usec_total", Counter),
    ("eventloop_duration_cmd_sum", "eventloop_duration_cmd_sum_usec_total", Counter),
    ("used_cpu_sys", "cpu_sys_seconds_total", Counter),
    ("used_cpu_user", "cpu_user_seconds_total", Counter),
    ("used_cpu_sys_children", "cpu_sys_children_seconds_total", Counter),
    ("used_cpu_user_children", "cpu_user_children_seconds_total", Counter),
    ("protocol_errors", "protocol_errors_total", Counter),
    ("reply_limit_pauses", "reply_limit_pauses_total", Counter),
];

/// Facts in the labels of `redis_instance_info`.
const INSTANCE: &[&str] = &[
    "redis_version",
    "onrush_version",
    "redis_mode",
    "os",
    "process_id",
    "run_id",
    "tcp_port",
    "role",
    "maxmemory_policy",
];

/// The metrics. O(INFO).
pub fn exposition(engine: &Engine) -> String {
    let fields = info::everything(engine);
    let fields = fields.lines().filter_map(|line| line.split_once(':'));
    let mut page = Page::default();
    page.add("up", Gauge, "", "1");
    let (mut labels, mut commands, mut errors, mut databases) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (field, value) in fields {
        if INSTANCE.contains(&field) {
            labels.push(format!("{field}=\"{}\"", escaped(value)));
        }
        if let Some(command) = field.strip_prefix("cmdstat_") {
            commands.push((command, value));
        } else if let Some(code) = field.strip_prefix("errorstat_") {
            errors.push((code, value));
        } else if let Some(db) = field.strip_prefix("db").filter(|db| db.bytes().all(|byte| byte.is_ascii_digit())) {
            databases.push((db, value));
        } else if !field.starts_with("pipeline_") {
            page.add_field(field, value);
        }
    }
    page.add("instance_info", Gauge, &labels.join(","), "1");
    let now_s = engine.clock.unix_ms() as f64 / 1000.0;
    let up_s = (engine.clock.now() - engine.started).as_secs_f64();
    page.add("start_time_seconds", Gauge, "", &format!("{:.0}", now_s - up_s));
    page.add("slowlog_length", Gauge, "", &engine.slowlog.len().to_string());
    page.add_commands(&commands);
    for (code, counts) in errors {
        page.add_of(counts, "count", "errors_total", Counter, &format!("err=\"{}\"", escaped(code)));
    }
    for (db, counts) in databases {
        page.add_of(counts, "keys", "db_keys", Gauge, &format!("db=\"db{db}\""));
        page.add_of(counts, "expires", "db_keys_expiring", Gauge, &format!("db=\"db{db}\""));
    }
    let mut text = page.text();
    pipeline(engine, &mut text);
    text
}

fn pipeline(engine: &Engine, text: &mut String) {
    let sum = engine.stats.pipelining();
    for (name, help, sizes, total) in [
        ("onrush_pipeline_commands_per_read", "Commands that a read brought.", sum.reads(), sum.commands),
        ("onrush_pipeline_replies_per_write", "Replies that a write took.", sum.writes(), sum.commands),
    ] {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut count = 0;
        for (bits, more) in sizes.iter().enumerate() {
            count += more;
            let _ = writeln!(text, "{name}_bucket{{le=\"{}\"}} {count}", (2u64 << bits) - 1);
        }
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {total}\n{name}_count {count}");
    }
    let counters = [
        ("onrush_pipeline_round_trips_saved_total", sum.round_trips_saved()),
        ("onrush_pipeline_deferrals_turn_over_total", sum.gave_way),
        ("onrush_pipeline_deferrals_long_command_total", sum.held_back),
        ("onrush_pipeline_deferrals_reply_limit_total", engine.stats.sum(|thread| &thread.reply_limit_pauses)),
    ];
    for (name, value) in counters {
        let _ = writeln!(text, "# TYPE {name} counter\n{name} {value}");
    }
    let workers = engine.process.facts().workers_used;
    let _ = writeln!(text, "# TYPE onrush_workers_used gauge\nonrush_workers_used {workers}");
}

/// Metrics by name: all lines of one stand together.
#[derive(Default)]
struct Page(BTreeMap<String, (Option<Kind>, Vec<String>)>);

impl Page {
    fn add(&mut self, name: &str, kind: Kind, labels: &str, value: &str) {
        let (known, lines) = self.0.entry(name.to_owned()).or_default();
        *known = Some(kind);
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        lines.push(format!("redis_{name}{labels} {value}"));
    }

    /// A field of INFO, if it is a number or a status.
    fn add_field(&mut self, field: &str, value: &str) {
        let (name, kind) =
            RENAMED.iter().find(|(known, ..)| *known == field).map_or((field, Gauge), |(_, name, kind)| (*name, *kind));
        if kind == Status {
            self.add(name, Gauge, "", if value == "ok" { "1" } else { "0" });
        } else if value.parse::<f64>().is_ok_and(f64::is_finite) && is_metric(name) {
            self.add(name, kind, "", value);
        }
    }

    /// One of the counts in `a=1,b=2`.
    fn add_of(&mut self, counts: &str, key: &str, name: &str, kind: Kind, labels: &str) {
        let found = counts.split(',').filter_map(|count| count.split_once('=')).find(|(known, _)| *known == key);
        if let Some((_, value)) = found {
            self.add(name, kind, labels, value);
        }
    }

    fn add_commands(&mut self, commands: &[(&str, &str)]) {
        for (command, counts) in commands {
            let labels = format!("cmd=\"{}\"", escaped(command));
            self.add_of(counts, "calls", "commands_total", Counter, &labels);
            self.add_of(counts, "rejected_calls", "commands_rejected_calls_total", Counter, &labels);
            self.add_of(counts, "failed_calls", "commands_failed_calls_total", Counter, &labels);
            let micros = counts.split(',').find_map(|count| count.strip_prefix("usec="));
            if let Some(micros) = micros.and_then(|micros| micros.parse::<f64>().ok()) {
                self.add("commands_duration_seconds_total", Counter, &labels, &format!("{}", micros / 1e6));
            }
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, (kind, lines)) in &self.0 {
            let kind = if *kind == Some(Counter) { "counter" } else { "gauge" };
            let _ = writeln!(text, "# TYPE redis_{name} {kind}");
            lines.iter().for_each(|line| _ = writeln!(text, "{line}"));
        }
        text
    }
}

fn is_metric(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.trim_end().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_of_a_metric_stand_together_under_its_type() {
        let mut page = Page::default();
        page.add_field("used_memory", "5");
        page.add_field("aof_last_write_status", "err");
        page.add_field("run_id", "abc");
        page.add_commands(&[("get", "calls=2,usec=3,rejected_calls=0,failed_calls=1"), ("config|get", "calls=1")]);
        assert_eq!(
            page.text(),
            "# TYPE redis_aof_last_write_status gauge\nredis_aof_last_write_status 0\n\
             # TYPE redis_commands_duration_seconds_total counter\n\
             redis_commands_duration_seconds_total{cmd=\"get\"} 0.000003\n\
             # TYPE redis_commands_failed_calls_total counter\nredis_commands_failed_calls_total{cmd=\"get\"} 1\n\
             # TYPE redis_commands_rejected_calls_total counter\nredis_commands_rejected_calls_total{cmd=\"get\"} 0\n\
             # TYPE redis_commands_total counter\nredis_commands_total{cmd=\"get\"} 2\n\
             redis_commands_total{cmd=\"config|get\"} 1\n\
             # TYPE redis_memory_used_bytes gauge\nredis_memory_used_bytes 5\n"
        );
    }

    #[test]
    fn labels_cannot_be_left() {
        assert_eq!(escaped("a\"b\\c\nd\r"), "a\\\"b\\\\c\\nd");
    }
}
