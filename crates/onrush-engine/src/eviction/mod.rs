//! Eviction: what happens when more memory is in use than `maxmemory` allows.
//!
//! A worker that finds too much memory in use, before a chunk or between two rounds, evicts keys for as long as
//! `maxmemory-eviction-tenacity` says ([`Evictor::evict`](evictor::Evictor)). It holds one shard's lock at a time, for some tens of entries; what
//! it takes out is freed off the lock. If that was not enough, commands go on nevertheless and the next chunk or round evicts
//! more: only when nothing may be evicted commands that use memory are refused.
//!
//! The victims: a hand goes through all shards in order and looks at every entry it passes. Each look is noted in a
//! [`Ranking`](ranking::Ranking) of the last some hundred, and an entry goes when it ranks among the best of them: one of as many as
//! `maxmemory-samples` asks for. Keys are hashed, so neighbours are as good a sample as any, and a run of buckets costs a
//! fraction of the cache misses of entries drawn one by one. No keys are kept and none is looked up again, and each
//! entry has the hand come by once in a round, so that no old one stays because chance passes it over.

mod allowance;
pub mod evictor;
mod hand;
pub mod policy;
mod ranking;
pub mod state;
