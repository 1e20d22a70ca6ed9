//! Changing the role.

use std::io;

use super::Replication;
use super::role::Primary;
use crate::blocking::unblock_all;
use crate::shared::Shared;

impl Replication {
    /// Makes this server the replica of another one, or a primary. Its replicas ask again where they are; a primary's clients
    /// that wait get errors. The caller has the whole keyspace, and the log is flushed.
    ///
    /// # Errors
    /// It is a primary now, but the system has no thread to give for the stream, which is not kept.
    pub fn change_role(&self, shared: &'static Shared, primary: Option<Primary>) -> io::Result<()> {
        let was_replica = self.role.is_replica();
        let becomes_replica = primary.is_some();
        self.history.begin_epoch();
        if becomes_replica && !was_replica {
            self.held.lose(shared.log.last_lsn());
        }
        self.role.set_primary(primary);
        // They ask again, and are told who they follow now.
        self.attached.forget();
        if becomes_replica && !was_replica {
            self.end_stream(shared);
            self.history.keep(true);
            unblock_all(shared);
            self.held.give_all_up();
        } else if was_replica && !becomes_replica {
            self.history.rename(shared.new_replid());
            self.history.set_db(None);
            self.begin_stream(shared).inspect_err(|_| self.history.keep(false))?;
        }
        Ok(())
    }
}
