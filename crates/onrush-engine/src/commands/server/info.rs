//! INFO: the server's state and statistics, in sections.

use std::fmt::{self, Display, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use onrush_alloc as alloc;
use onrush_resp::REDIS_VERSION;

use crate::cluster::clustering::Clustering;
use crate::commands::keys::count_hidden;
use crate::commands::server::memory::Overview;
use crate::ctx::Engine;
use crate::ctx::{CommandResult, Ctx};
use crate::messages::kind::Kind;
use crate::observe::acl_log::Reason;
use crate::observe::stats::CommandCounters;
use crate::replication::attached::Phase;
use crate::replication::history::NO_ID;
use crate::replication::role::{LinkState, Primary};
use crate::scripts::LibraryCounts;
use crate::snapshot::Underway;
use crate::snapshot::output::Purpose;

/// A section of INFO.
struct Section {
    /// As the client asks for it, in lower case.
    name: &'static str,
    /// As it is headed.
    title: &'static str,
    /// Whether it is part of `default`.
    by_default: bool,
    /// Whether there is something to show.
    is_there: fn(&Engine) -> bool,
    write: fn(&Engine, &mut Text),
}

const fn section(name: &'static str, title: &'static str, write: fn(&Engine, &mut Text)) -> Section {
    Section { name, title, by_default: true, is_there: |_| true, write }
}

/// All sections, in the order they are shown whatever the order they are asked for.
const SECTIONS: &[Section] = &[
    section("server", "Server", server),
    section("clients", "Clients", clients),
    section("memory", "Memory", memory),
    section("persistence", "Persistence", persistence),
    section("stats", "Stats", stats),
    section("pipeline", "Pipeline", pipeline),
    section("replication", "Replication", replication),
    section("cpu", "CPU", cpu),
    section("modules", "Modules", |_, _| {}),
    Section { by_default: false, ..section("commandstats", "Commandstats", commandstats) },
    section("errorstats", "Errorstats", errorstats),
    Section { by_default: false, ..section("latencystats", "Latencystats", latencystats) },
    section("cluster", "Cluster", |engine, text| text.line("cluster_enabled", u8::from(engine.cluster.is_some()))),
    section("keyspace", "Keyspace", keyspace),
    Section { is_there: has_hotkeys, ..section("hotkeys", "Hotkeys", hotkeys) },
];

/// `INFO [section [section ...]]`
pub(crate) fn info(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.engine.stats.threads[ctx.thread].note_cpu_time(ctx.engine.process.thread_cpu_nanos());
    let mut text = Text::default();
    for section in SECTIONS {
        let asked = match ctx.argc() {
            1 => section.by_default,
            _ => ctx.argv.iter().skip(1).any(|word| asks_for(word, section)),
        };
        if asked && (section.is_there)(ctx.engine) {
            text.head(section.title);
            (section.write)(ctx.engine, &mut text);
        }
    }
    ctx.reply_text(text.0.as_bytes())
}

/// All sections, as INFO shows them.
pub(crate) fn everything(engine: &Engine) -> String {
    let mut text = Text::default();
    for section in SECTIONS.iter().filter(|section| (section.is_there)(engine)) {
        (section.write)(engine, &mut text);
    }
    text.0
}

fn asks_for(word: &[u8], section: &Section) -> bool {
    match word.to_ascii_lowercase().as_slice() {
        b"all" | b"everything" => true,
        b"default" => section.by_default,
        name => name == section.name.as_bytes(),
    }
}

/// Lines of `field:value`.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\r\n" };
        self.push(format_args!("{gap}# {title}\r\n"));
    }

    fn line(&mut self, field: &str, value: impl Display) {
        self.push(format_args!("{field}:{value}\r\n"));
    }

    /// Lines of fields that are always zero: the server has nothing to count for them.
    fn zeros(&mut self, fields: &[&str]) {
        for field in fields {
            self.line(field, 0);
        }
    }

    /// A number of bytes, and the same for people.
    fn bytes(&mut self, field: &str, bytes: u64) {
        self.line(field, bytes);
        self.push(format_args!("{field}_human:{}\r\n", Human(bytes)));
    }

    fn push(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a `String` does not fail.
        let _ = self.0.write_fmt(text);
    }
}

/// A number of bytes in the largest unit that makes it at least 1.
struct Human(u64);

impl Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
        let steps = self.0.max(1).ilog2() as usize / 10;
        match steps {
            0 => write!(f, "{}B", self.0),
            steps => write!(f, "{:.2}{}", self.0 as f64 / (1u64 << (10 * steps)) as f64, UNITS[steps - 1]),
        }
    }
}

fn server(engine: &Engine, text: &mut Text) {
    let now_us = engine.clock.unix_us();
    let uptime_s = (engine.clock.now() - engine.started).as_secs();
    let (facts, machine) = (engine.process.facts(), engine.process.machine());
    text.line("redis_version", REDIS_VERSION);
    text.line("onrush_version", env!("CARGO_PKG_VERSION"));
    text.line("redis_git_sha1", "00000000");
    text.line("redis_git_dirty", 0);
    text.line("redis_build_id", 0);
    text.line("redis_mode", engine.mode());
    text.line("os", machine.os);
    text.line("arch_bits", usize::BITS);
    text.line("monotonic_clock", "POSIX clock_gettime");
    text.line("multiplexing_api", machine.multiplexing);
    text.line("process_id", facts.process_id);
    text.line("process_supervised", "no");
    text.line("run_id", &engine.run_id);
    text.line("tcp_port", facts.port);
    text.line("server_time_usec", now_us);
    text.line("uptime_in_seconds", uptime_s);
    text.line("uptime_in_days", uptime_s / 86_400);
    text.line("hz", facts.hz);
    text.line("configured_hz", facts.hz);
    text.line("lru_clock", (now_us / 1_000_000) & 0xff_ffff);
    text.line("executable", facts.executable);
    text.line("config_file", facts.config_file);
    text.line("io_threads_active", u8::from(engine.workers > 1));
    text.line("workers", engine.workers);
    if let Some(left) = facts.end_in {
        text.line("shutdown_in_milliseconds", left.as_millis());
    }
    text.line("workers_used", facts.workers_used);
    for (number, listener) in facts.listeners.iter().enumerate() {
        text.push(format_args!("listener{number}:{listener}\r\n"));
    }
}

fn clients(engine: &Engine, text: &mut Text) {
    let clients = engine.clients.all();
    let most =
        |bytes: fn(&crate::clients::client::ClientHandle) -> u64| clients.iter().map(|client| bytes(client)).max();
    let input = most(|client| client.query_bytes.load(Relaxed) + client.query_free_bytes.load(Relaxed));
    let output = most(|client| client.reply_bytes.load(Relaxed) + client.waiting().bytes as u64);
    let replicas = clients.iter().filter(|client| client.is_replica.load(Relaxed)).count();
    text.line("connected_clients", clients.len() - replicas);
    text.line("cluster_connections", engine.cluster.as_ref().map_or(0, Clustering::links_len));
    text.line("maxclients", engine.process.facts().maxclients);
    text.line("client_recent_max_input_buffer", input.unwrap_or(0));
    text.line("client_recent_max_output_buffer", output.unwrap_or(0));
    text.line("blocked_clients", engine.waiters.len());
    text.line("tracking_clients", engine.tracking.clients_len());
    text.line("pubsub_clients", engine.messages.clients_len());
    text.line("watching_clients", clients.iter().filter(|client| client.watched_len() > 0).count());
    text.zeros(&["clients_in_timeout_table"]);
    text.line("total_watched_keys", engine.watched.keys_len());
    text.line("total_blocking_keys", engine.waiters.keys_len());
    text.line("total_blocking_keys_on_nokey", engine.waiters.keys_with_groups_len());
}

fn memory(engine: &Engine, text: &mut Text) {
    let memory = Overview::of(engine);
    text.bytes("used_memory", memory.used);
    text.bytes("used_memory_rss", memory.rss);
    text.bytes("used_memory_peak", memory.peak);
    text.line("used_memory_peak_perc", format_args!("{:.2}%", memory.peak_percent()));
    text.line("used_memory_overhead", memory.overhead());
    text.line("used_memory_startup", memory.startup);
    text.line("used_memory_dataset", memory.dataset());
    text.line("used_memory_dataset_perc", format_args!("{:.2}%", memory.dataset_percent()));
    text.line("allocator_allocated", memory.used);
    text.line("allocator_active", memory.rss);
    text.line("allocator_resident", memory.rss);
    text.bytes("total_system_memory", engine.process.machine().memory_bytes);
    // Scripts and functions run in the same interpreters.
    let vm = engine.scripts.heaps.bytes() as u64;
    let LibraryCounts { libraries, functions, bytes } = engine.scripts.libraries.count();
    let scripts = engine.scripts.cache.bytes() as u64;
    text.bytes("used_memory_lua", vm);
    text.line("used_memory_vm_eval", vm);
    text.line("used_memory_scripts_eval", scripts);
    text.line("number_of_cached_scripts", engine.scripts.cache.len());
    text.line("number_of_functions", functions);
    text.line("number_of_libraries", libraries);
    text.line("used_memory_vm_functions", 0);
    text.bytes("used_memory_vm_total", vm);
    text.line("used_memory_functions", bytes);
    text.bytes("used_memory_scripts", scripts + bytes as u64);
    text.bytes("maxmemory", engine.eviction.maxmemory());
    text.line("maxmemory_policy", engine.process.facts().maxmemory_policy);
    text.line("allocator_frag_ratio", format_args!("{:.2}", memory.fragmentation()));
    text.line("allocator_frag_bytes", memory.fragmentation_bytes());
    text.line("allocator_rss_ratio", "1.00");
    text.line("allocator_rss_bytes", 0);
    text.line("rss_overhead_ratio", "1.00");
    text.line("rss_overhead_bytes", 0);
    text.line("mem_fragmentation_ratio", format_args!("{:.2}", memory.fragmentation()));
    text.line("mem_fragmentation_bytes", memory.fragmentation_bytes());
    text.line("mem_not_counted_for_evict", engine.apart().bytes());
    text.line("mem_replication_backlog", memory.backlog);
    text.line("mem_total_replication_buffers", memory.backlog);
    text.line("mem_clients_slaves", memory.replicas);
    text.line("mem_clients_normal", memory.clients);
    text.line("mem_cluster_links", engine.cluster.as_ref().map_or(0, Clustering::links_bytes));
    text.line("mem_aof_buffer", memory.records);
    text.line("mem_allocator", alloc::name());
    text.line("active_defrag_running", 0);
    text.line("lazyfree_pending_objects", engine.lazyfree.pending());
    text.line("lazyfreed_objects", engine.lazyfree.freed());
}

fn persistence(engine: &Engine, text: &mut Text) {
    let (facts, underway) = (engine.snapshots.facts(), engine.snapshots.underway());
    let saving = underway.as_ref().filter(|underway| underway.purpose == Purpose::File);
    let is_loading = engine.loading.is_on();
    text.line("loading", u8::from(is_loading));
    text.zeros(&["async_loading"]);
    let held = underway.as_ref().map_or((0, 0), |underway| (underway.held_bytes_max(), underway.held_bytes()));
    text.line("current_cow_peak", held.0);
    text.line("current_cow_size", held.1);
    text.zeros(&["current_cow_size_age"]);
    let (saved, keys) =
        underway.as_ref().map_or((0, 0), |underway| (underway.saved().min(underway.keys), underway.keys));
    text.line("current_fork_perc", format_args!("{:.2}", saved as f64 * 100.0 / keys.max(1) as f64));
    text.line("current_save_keys_processed", saved);
    text.line("current_save_keys_total", keys);
    text.line("rdb_changes_since_last_save", engine.stats.changes().saturating_sub(facts.saved_changes));
    text.line("rdb_bgsave_in_progress", u8::from(saving.is_some()));
    text.line("rdb_last_save_time", if facts.saved_at_s > 0 { facts.saved_at_s } else { engine.started_unix_s() });
    text.line("rdb_last_bgsave_status", if facts.failure.is_none() { "ok" } else { "err" });
    text.line("rdb_last_bgsave_time_sec", facts.last_took_s.map_or(-1, |took_s| took_s as i64));
    let now = engine.clock.now();
    text.line("rdb_current_bgsave_time_sec", saving.map_or(-1, |saving| (now - saving.started).as_secs() as i64));
    text.line("rdb_saves", facts.saves);
    text.line("rdb_last_cow_size", facts.held_bytes_max);
    text.line("rdb_last_load_keys_expired", facts.expired_keys);
    text.line("rdb_last_load_keys_loaded", facts.loaded_keys);
    log_facts(engine, underway.as_deref(), text);
    if is_loading {
        loading(engine, text);
    }
}

/// The append-only file.
fn log_facts(engine: &Engine, underway: Option<&Underway>, text: &mut Text) {
    let facts = engine.process.log_facts();
    let rewrite = underway.filter(|underway| underway.purpose == Purpose::LogBase);
    let status = |is_ok: bool| if is_ok { "ok" } else { "err" };
    text.line("aof_enabled", u8::from(facts.is_on));
    text.line("aof_rewrite_in_progress", u8::from(rewrite.is_some()));
    text.line("aof_rewrite_scheduled", u8::from(engine.snapshots.is_scheduled(Purpose::LogBase)));
    text.line("aof_last_rewrite_time_sec", facts.last_rewrite_s.map_or(-1, |took_s| took_s as i64));
    let now = engine.clock.now();
    text.line("aof_current_rewrite_time_sec", rewrite.map_or(-1, |rewrite| (now - rewrite.started).as_secs() as i64));
    text.line("aof_last_bgrewrite_status", status(!facts.has_rewrite_failed));
    text.line("aof_rewrites", facts.rewrites);
    text.line("aof_rewrites_consecutive_failures", facts.failures);
    text.line("aof_last_write_status", status(facts.write_error.is_none()));
    text.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
    if let Some(files) = facts.files {
        text.line("aof_current_size", files.size);
        text.line("aof_base_size", files.base_size);
        text.zeros(&["aof_pending_rewrite"]);
        text.line("aof_buffer_length", files.buffer_len);
        text.line("aof_pending_bio_fsync", files.pending_fsyncs);
        text.line("aof_delayed_fsync", files.delayed_fsyncs);
    }
}

/// How far loading has come.
fn loading(engine: &Engine, text: &mut Text) {
    let progress = engine.loading.progress();
    let (loaded, total) = (progress.loaded_bytes, progress.total_bytes);
    text.line("loading_start_time", progress.started_s);
    text.line("loading_total_bytes", total);
    text.zeros(&["loading_rdb_used_mem"]);
    text.line("loading_loaded_bytes", loaded);
    // What a primary sends may have no length.
    let percent = if total == 0 { 0.0 } else { loaded as f64 * 100.0 / total as f64 };
    text.line("loading_loaded_perc", format_args!("{percent:.2}"));
    let elapsed_s = (engine.clock.unix_ms() / 1000 - progress.started_s).max(1) as u64;
    let left_s = total.saturating_sub(loaded) / (loaded / elapsed_s).max(1);
    text.line("loading_eta_seconds", if loaded == 0 || total == 0 { 1 } else { left_s });
}

fn stats(engine: &Engine, text: &mut Text) {
    traffic(engine, text);
    let stats = &engine.stats;
    text.line("expired_subkeys", stats.sum(|thread| &thread.expired_subkeys));
    text.line("expired_keys", stats.sum(|thread| &thread.expired_keys));
    text.line("expired_stale_perc", format_args!("{:.2}", engine.stats.samples.lock().expired_stale_perc));
    text.line("expired_time_cap_reached_count", engine.stats.expire_time_capped.load(Relaxed));
    text.line("expire_cycle_cpu_milliseconds", engine.stats.expire_cycle_us.load(Relaxed) / 1000);
    text.line("evicted_keys", stats.sum(|thread| &thread.evicted_keys));
    text.line("evicted_clients", engine.clients_share.evicted());
    let exceeded = engine.eviction.exceeded(engine.clock.unix_us());
    text.line("total_eviction_exceeded_time", exceeded.total_ms);
    text.line("current_eviction_exceeded_time", exceeded.current_ms);
    text.line("keyspace_hits", stats.sum(|thread| &thread.keyspace_hits));
    text.line("keyspace_misses", stats.sum(|thread| &thread.keyspace_misses));
    text.line("pubsub_channels", engine.messages.len(Kind::Channel));
    text.line("pubsub_patterns", engine.messages.len(Kind::Pattern));
    text.line("pubsubshard_channels", engine.messages.len(Kind::Shard));
    text.zeros(&["latest_fork_usec", "total_forks"]);
    text.line("migrate_cached_sockets", engine.process.facts().peers_kept);
    text.zeros(&[
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
    ]);
    text.line("tracking_total_keys", engine.tracking.keys_len());
    text.line("tracking_total_items", engine.tracking.items_len());
    text.line("tracking_total_prefixes", engine.tracking.prefixes_len());
    text.zeros(&["unexpected_error_replies"]);
    text.line("total_error_replies", stats.sum(|thread| &thread.error_replies));
    text.line("dump_payload_sanitizations", 0);
    text.line("total_reads_processed", stats.sum(|thread| &thread.reads_processed));
    text.line("total_writes_processed", stats.sum(|thread| &thread.writes_processed));
    text.zeros(&[
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
        "reply_buffer_shrinks",
        "reply_buffer_expands",
    ]);
    text.line(
        "client_output_buffer_limit_disconnections",
        stats.sum(|thread| &thread.output_buffer_limit_disconnections)
            + engine.replication.syncs.closed_at_limit.load(Relaxed),
    );
    text.line(
        "client_query_buffer_limit_disconnections",
        stats.sum(|thread| &thread.query_buffer_limit_disconnections),
    );
    text.line("eventloop_cycles", stats.sum(|thread| &thread.rounds));
    text.line("eventloop_duration_sum", stats.sum(|thread| &thread.cpu_nanos) / 1000);
    text.line("eventloop_duration_cmd_sum", stats.sum(|thread| &thread.commands_nanos) / 1000);
    let samples = *engine.stats.samples.lock();
    text.line("instantaneous_eventloop_cycles_per_sec", samples.rounds_per_s);
    text.line("instantaneous_eventloop_duration_usec", samples.round_us);
    text.line("reply_limit_pauses", stats.sum(|thread| &thread.reply_limit_pauses));
    text.line("protocol_errors", stats.sum(|thread| &thread.protocol_errors));
    for (field, reason) in [
        ("acl_access_denied_auth", Reason::Login),
        ("acl_access_denied_cmd", Reason::Command),
        ("acl_access_denied_key", Reason::Key),
        ("acl_access_denied_channel", Reason::Channel),
    ] {
        text.line(field, engine.acl_log.count(reason));
    }
}

/// Connections, commands and bytes.
fn traffic(engine: &Engine, text: &mut Text) {
    let stats = &engine.stats;
    let samples = *engine.stats.samples.lock();
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    text.line("total_connections_received", engine.stats.connections_received.load(Relaxed));
    text.line("total_commands_processed", stats.sum(|thread| &thread.commands_processed));
    text.line("instantaneous_ops_per_sec", samples.ops_per_s);
    text.line("total_net_input_bytes", stats.sum(|thread| &thread.net_input_bytes));
    text.line("total_net_output_bytes", stats.sum(|thread| &thread.net_output_bytes));
    let syncs = &engine.replication.syncs;
    text.line("total_net_repl_input_bytes", syncs.input_bytes.load(Relaxed));
    text.line("total_net_repl_output_bytes", syncs.output_bytes.load(Relaxed));
    text.line("instantaneous_input_kbps", kilobytes(samples.input_bytes_per_s));
    text.line("instantaneous_output_kbps", kilobytes(samples.output_bytes_per_s));
    text.line("instantaneous_input_repl_kbps", kilobytes(samples.primary_bytes_per_s));
    text.line("instantaneous_output_repl_kbps", kilobytes(samples.replicas_bytes_per_s));
    text.line("rejected_connections", engine.stats.connections_rejected.load(Relaxed));
    text.line("sync_full", syncs.full.load(Relaxed));
    text.line("sync_partial_ok", syncs.partial_ok.load(Relaxed));
    text.line("sync_partial_err", syncs.partial_err.load(Relaxed));
}

fn pipeline(engine: &Engine, text: &mut Text) {
    let stats = &engine.stats;
    let sum = stats.pipelining();
    text.line("pipeline_commands", sum.commands);
    text.line("pipeline_batches", sum.batches());
    text.line("pipeline_mean_depth", format_args!("{:.2}", sum.mean_depth()));
    text.line("pipeline_commands_per_read", sum.commands_per_read());
    text.line("pipeline_replies_per_write", sum.replies_per_write());
    text.line("pipeline_reads", stats.sum(|thread| &thread.reads_processed));
    text.line("pipeline_writes", stats.sum(|thread| &thread.writes_processed));
    text.line("pipeline_input_bytes", stats.sum(|thread| &thread.net_input_bytes));
    text.line("pipeline_output_bytes", stats.sum(|thread| &thread.net_output_bytes));
    text.line("pipeline_round_trips_saved", sum.round_trips_saved());
    text.line("pipeline_deferrals_turn_over", sum.gave_way);
    text.line("pipeline_deferrals_reply_limit", stats.sum(|thread| &thread.reply_limit_pauses));
    text.line("pipeline_deferrals_long_command", sum.held_back);
    text.line("pipeline_query_buffer_max", sum.query_bytes_max);
    text.line("pipeline_reply_buffer_max", sum.reply_bytes_max);
}

fn replication(engine: &Engine, text: &mut Text) {
    match engine.replication.role.primary() {
        Some(primary) => replica(engine, &primary, text),
        None => text.line("role", "master"),
    }
    let replicas = engine.replication.attached.all();
    text.line("connected_slaves", replicas.len());
    if engine.process.facts().replicas_min > 0 {
        text.line("min_slaves_good_slaves", engine.replication.attached.good());
    }
    let now_ms = engine.clock.unix_ms();
    for (nth, replica) in replicas.iter().enumerate() {
        let phase = replica.phase();
        let (ip, port, offset) = (replica.ip(), replica.introduction.port, replica.acknowledged());
        let lag = if phase == Phase::Online { replica.silent_ms(now_ms) / 1000 } else { 0 };
        text.push(format_args!("slave{nth}:ip={ip},port={port},state={},offset={offset},lag={lag}\r\n", phase.name()));
    }
    text.line("master_failover_state", engine.replication.failover.name());
    let (position, before) = (engine.replication.history.position(), engine.replication.history.before());
    text.line("master_replid", position.id);
    text.line("master_replid2", before.as_ref().map_or(NO_ID, |before| &before.id));
    text.line("master_repl_offset", position.offset);
    text.line("second_repl_offset", before.as_ref().map_or(-1, |before| before.offset as i64));
    let (is_kept, (first, _)) = (engine.replication.history.is_kept(), engine.replication.history.kept());
    let first = engine.process.log_facts().stream_start.map_or(first, |on_disk| on_disk.min(first));
    let len = if is_kept { position.offset.saturating_sub(first) } else { 0 };
    text.line("repl_backlog_active", u8::from(is_kept));
    text.line("repl_backlog_size", engine.process.facts().repl_backlog_bytes);
    text.line("repl_backlog_first_byte_offset", if is_kept { first + 1 } else { 0 });
    text.line("repl_backlog_histlen", len);
}

/// The link of a replica to its primary.
fn replica(engine: &Engine, primary: &Primary, text: &mut Text) {
    let (role, now) = (&engine.replication.role, engine.clock.now());
    let link = role.link();
    let is_up = link.state == LinkState::Connected;
    let seconds =
        |since: Option<Instant>| since.map_or(-1, |since| now.saturating_duration_since(since).as_secs() as i64);
    let offset = engine.replication.history.position().offset;
    text.line("role", "slave");
    text.line("master_host", &primary.host);
    text.line("master_port", primary.port);
    text.line("master_link_status", if is_up { "up" } else { "down" });
    text.line("master_last_io_seconds_ago", if is_up { seconds(link.last_io) } else { -1 });
    text.line("master_sync_in_progress", u8::from(link.state == LinkState::Sync));
    text.line("slave_read_repl_offset", offset + link.unread_bytes);
    text.line("slave_repl_offset", offset);
    if let Some(transfer) = link.transfer {
        let (total, read) = (transfer.total_bytes, transfer.read_bytes);
        let percent = total.map_or(0.0, |total| read as f64 * 100.0 / total.max(1) as f64);
        text.line("master_sync_total_bytes", total.map_or(-1, |total| total as i64));
        text.line("master_sync_read_bytes", read);
        text.line("master_sync_left_bytes", total.map_or(-1, |total| total.saturating_sub(read) as i64));
        text.line("master_sync_perc", format_args!("{percent:.2}"));
        text.line("master_sync_last_io_seconds_ago", seconds(link.last_io));
    }
    if !is_up {
        text.line("master_link_down_since_seconds", seconds(link.down_since));
    }
    text.line("slave_priority", engine.process.facts().replica_priority);
    text.line("slave_read_only", u8::from(!role.takes_writes()));
    text.line("replica_announced", u8::from(engine.process.facts().is_replica_announced));
}

fn cpu(engine: &Engine, text: &mut Text) {
    let times = engine.process.cpu_times();
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.line("used_cpu_sys", seconds(times.system_us));
    text.line("used_cpu_user", seconds(times.user_us));
    text.line("used_cpu_sys_children", "0.000000");
    text.line("used_cpu_user_children", "0.000000");
}

fn has_hotkeys(engine: &Engine) -> bool {
    engine.hotkeys.is_active(engine.clock.unix_ms()).is_some()
}

/// The last session of HOTKEYS, until it is reset.
fn hotkeys(engine: &Engine, text: &mut Text) {
    let is_active = engine.hotkeys.is_active(engine.clock.unix_ms());
    text.line("hotkeys-tracking-active", u8::from(is_active == Some(true)));
}

/// A command's counters over all threads.
#[derive(Default)]
struct CommandSum {
    calls: u64,
    nanos: u64,
    rejected: u64,
    failed: u64,
}

impl CommandSum {
    fn add(&mut self, counters: &CommandCounters) {
        self.calls += counters.calls.get();
        self.nanos += counters.nanos.get();
        self.rejected += counters.rejected.get();
        self.failed += counters.failed.get();
    }
}

impl Display for CommandSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros_per_call = self.nanos as f64 / 1000.0 / self.calls.max(1) as f64;
        write!(
            f,
            "calls={},usec={},usec_per_call={micros_per_call:.2},rejected_calls={},failed_calls={}",
            self.calls,
            self.nanos / 1000,
            self.rejected,
            self.failed
        )
    }
}

fn commandstats(engine: &Engine, text: &mut Text) {
    for command in engine.commands.all() {
        let mut sum = CommandSum::default();
        for thread in &engine.stats.threads {
            sum.add(&thread.commands[command.id as usize]);
        }
        if sum.calls + sum.rejected + sum.failed > 0 {
            text.push(format_args!("cmdstat_{}:{sum}\r\n", command.full_name));
        }
    }
}

fn latencystats(engine: &Engine, text: &mut Text) {
    if !engine.settings.timing.tracks() {
        return;
    }
    let percentiles = engine.process.facts().latency_percentiles;
    for command in engine.commands.all() {
        let times = engine.stats.latency(command.id);
        if times.total == 0 {
            continue;
        }
        let micros = |percent: f64| times.percentile(percent) as f64 / 1000.0;
        let values: Vec<String> = percentiles.iter().map(|p| format!("p{p}={:.3}", micros(*p))).collect();
        text.push(format_args!("latency_percentiles_usec_{}:{}\r\n", command.full_name, values.join(",")));
    }
}

fn errorstats(engine: &Engine, text: &mut Text) {
    for (code, count) in engine.stats.errors() {
        // DEBUG ERROR allows codes of any bytes, which must not end the line.
        let code = String::from_utf8_lossy(&code).replace(['#', ':', '\r', '\n'], "_");
        text.push(format_args!("errorstat_{code}:count={count}\r\n"));
    }
}

fn keyspace(engine: &Engine, text: &mut Text) {
    for index in 0..engine.keyspace.databases() {
        let Some(db) = engine.keyspace.db(index) else { continue };
        let hidden = count_hidden(engine);
        let (keys, expiring) = (db.len().saturating_sub(hidden.0), db.volatile_len().saturating_sub(hidden.1));
        if keys > 0 {
            text.push(format_args!("db{index}:keys={keys},expires={expiring},avg_ttl=0\r\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_fits() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_238_328, "1.18M"),
            (25_276_502_016, "23.54G"),
            (1 << 40, "1.00T"),
            (u64::MAX, "16.00E"),
        ] {
            assert_eq!(Human(bytes).to_string(), text);
        }
    }

    #[test]
    fn sections_are_asked_for_by_name_or_by_group() {
        let asked = |words: &[&str]| -> Vec<&str> {
            let is_asked = |section: &&Section| words.iter().any(|word| asks_for(word.as_bytes(), section));
            SECTIONS.iter().filter(is_asked).map(|section| section.name).collect()
        };
        assert_eq!(asked(&["KEYSPACE", "Server", "nosuch"]), ["server", "keyspace"]);
        assert_eq!(asked(&["default"]).len(), SECTIONS.len() - 2);
        assert_eq!(asked(&["all"]).len(), SECTIONS.len());
        assert_eq!(asked(&["everything", "default"]).len(), SECTIONS.len());
        assert!(!asked(&["default"]).contains(&"commandstats"));
    }

    #[test]
    fn sections_are_apart_by_an_empty_line() {
        let mut text = Text::default();
        text.head("One");
        text.line("a", 1);
        text.head("Two");
        assert_eq!(text.0, "# One\r\na:1\r\n\r\n# Two\r\n");
    }

    #[test]
    fn a_commands_line_has_microseconds() {
        let sum = CommandSum { calls: 3, nanos: 4_500, rejected: 1, failed: 2 };
        assert_eq!(sum.to_string(), "calls=3,usec=4,usec_per_call=1.50,rejected_calls=1,failed_calls=2");
    }
}
