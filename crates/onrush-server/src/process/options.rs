//! The part of the configuration that the engine uses.

use onrush_engine::encodings::EncodingLimits;
use onrush_engine::eviction::policy::Policy;
use onrush_engine::eviction::state::EvictionOptions;
use onrush_engine::observe::timing::TimingOptions;
use onrush_engine::replication::role::ReplicaOptions;
use onrush_engine::settings::{ClockOf, Options};
use onrush_store::{ListLimits, PairLimits, SetLimits, StreamLimits};

use crate::config::Config;

/// The engine's options in this configuration.
pub fn options(config: &Config) -> Options {
    let policy = config.maxmemory_policy;
    let clock_of = match policy {
        policy if policy.contains("lfu") => ClockOf::Frequency,
        policy if policy.contains("lrm") => ClockOf::LastChange,
        _ => ClockOf::LastUse,
    };
    Options {
        reply_limit_bytes: config.pipeline_reply_limit as usize,
        slice_us: config.pipeline_slice_us,
        bulk_len_max: config.proto_max_bulk_len as i64,
        encodings: encodings(config),
        eviction: EvictionOptions {
            maxmemory: config.maxmemory,
            policy: Policy::named(policy),
            samples: config.maxmemory_samples,
            tenacity: config.maxmemory_eviction_tenacity,
            is_lazy: config.lazyfree_lazy_eviction,
        },
        clock_of,
        lfu_log_factor: config.lfu_log_factor as u32,
        lfu_decay_minutes: config.lfu_decay_time as u32,
        lazy_flush: config.lazyfree_lazy_user_flush,
        acl_log_len_max: usize::try_from(config.acllog_max_len).unwrap_or(usize::MAX),
        timing: TimingOptions {
            slow_us: config.slowlog_log_slower_than,
            slowlog_len_max: usize::try_from(config.slowlog_max_len).unwrap_or(usize::MAX),
            latency_ms: config.latency_monitor_threshold,
            tracks: config.latency_tracking,
        },
        busy_reply_ms: config.busy_reply_threshold,
        events: config.notify_keyspace_events,
        output_limits: config.client_output_buffer_limit,
        rdb_compression: config.rdbcompression,
        durability_replicas: config.durability_replicas as u32,
        durability_replicas_timeout_ms: config.durability_replicas_timeout,
        backlog_bytes: config.repl_backlog_size,
        // Without a cluster there are no slots.
        counts_slots: config.cluster_enabled && config.cluster_slot_stats_enabled,
        replicas_min: if config.min_replicas_max_lag > 0 { config.min_replicas_to_write as u32 } else { 0 },
        replica: ReplicaOptions {
            is_read_only: config.replica_read_only,
            serves_stale_data: config.replica_serve_stale_data,
            ignores_maxmemory: config.replica_ignore_maxmemory,
        },
        new_users_hear_all: config.acl_pubsub_default == "allchannels",
        clients_share: config.maxmemory_clients,
        tracking_keys_max: usize::try_from(config.tracking_table_max_keys).unwrap_or(usize::MAX),
    }
}

fn encodings(config: &Config) -> EncodingLimits {
    EncodingLimits {
        list: ListLimits { listpack_size: config.list_max_listpack_size as i32 },
        set: SetLimits {
            intset_entries_max: config.set_max_intset_entries as usize,
            listpack_entries_max: config.set_max_listpack_entries as usize,
            listpack_value_len_max: config.set_max_listpack_value as usize,
        },
        hash: PairLimits {
            listpack_entries_max: config.hash_max_listpack_entries as usize,
            listpack_value_len_max: config.hash_max_listpack_value as usize,
        },
        sorted_set: PairLimits {
            listpack_entries_max: config.zset_max_listpack_entries as usize,
            listpack_value_len_max: config.zset_max_listpack_value as usize,
        },
        stream: StreamLimits {
            node_bytes_max: config.stream_node_max_bytes as usize,
            node_entries_max: config.stream_node_max_entries as usize,
        },
        hll_sparse_bytes_max: config.hll_sparse_max_bytes as usize,
    }
}
