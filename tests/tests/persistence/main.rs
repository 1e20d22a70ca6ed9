//! What is saved, what a start finds, and what happens when the disk does not do what it should.

mod aof_format;
mod append_only;
mod full_disk;
mod late_log;
mod loading;
mod log_reading;
mod rdb;
mod refused_threads;
mod replay;
mod snapshots;
mod soak;
mod special_files;
mod stuck_log;
