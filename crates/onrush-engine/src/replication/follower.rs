//! Executing the stream of a primary.

use super::stream::push_select;
use crate::batch::runner::Runner;
use crate::clients::local::{LocalClient, State};
use crate::ctx::Engine;
use crate::replication::history::Position;

/// The client that executes a primary's stream.
pub struct Follower {
    engine: &'static Engine,
    client: LocalClient,
}

/// A command of the stream does not end: the data is at no place of the stream any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endless;

impl Follower {
    /// One that goes on where the history is.
    pub fn new(engine: &'static Engine, runner: &mut Runner) -> Self {
        let mut client = LocalClient::new(engine);
        client.replay();
        if let Some(db) = engine.replication.history.db() {
            // The stream goes on in this database without saying so.
            let mut select = Vec::new();
            push_select(&mut select, db);
            client.send(runner, &select);
            client.take_replies();
        }
        Self { engine, client }
    }

    /// The client as it is.
    pub fn client(&self) -> &LocalClient {
        &self.client
    }

    /// Executes whole commands or transactions of the stream, and notes in the history that the data is behind them.
    /// `replies` gets pieces of the replies. `waits` is called again and again while a script or a long command keeps it from
    /// going on: no command is refused because of that, however long it takes, since it would be lost.
    ///
    /// # Errors
    /// A command does not end. The history is another one then, and all data is needed.
    pub fn execute(
        &mut self,
        runner: &mut Runner,
        bytes: &[u8],
        mut replies: impl FnMut(&[u8]),
        mut waits: impl FnMut(),
    ) -> Result<(), Endless> {
        let replication = &self.engine.replication;
        replication.role.set_executing(true);
        let mut state = self.client.send(runner, bytes);
        loop {
            // Unread replies would keep it from going on.
            replies(&self.client.take_replies());
            match state {
                State::Runs => state = self.client.go_on(runner),
                State::IsHeldBack => {
                    waits();
                    state = self.client.go_on(runner);
                }
                State::Idle => break,
                State::Waits | State::IsClosed => {
                    replication.take_over(Position { id: self.engine.new_replid(), offset: 0 });
                    replication.role.set_executing(false);
                    return Err(Endless);
                }
            }
        }
        let history = &replication.history;
        history.append(bytes, None);
        if history.db() != Some(self.client.db()) {
            history.set_db(Some(self.client.db()));
        }
        replication.wake();
        replication.role.set_executing(false);
        replication.note_position(self.engine);
        Ok(())
    }
}
