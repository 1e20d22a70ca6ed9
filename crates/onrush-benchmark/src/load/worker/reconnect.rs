//! Connections that go elsewhere or break, and are made again.

use std::net::ToSocketAddrs;
use std::time::Duration;

use mio::Token;

use super::Thread;
use crate::error::Error;
use crate::load::conn::Stage;
use crate::load::routes::Next;
use crate::net::{self, Socket};

/// How long a broken connection waits before it is made again: not at all the first time, then this long, doubled each
/// time.
const RETRY_NS: u64 = 10_000_000;
const RETRY_NS_MAX: u64 = 1_000_000_000;
/// A connection to a cluster that is down waits as if it had failed so often.
const DOWN_FAILURES: u32 = 3;

impl Thread<'_> {
    /// Takes a reply that sends a connection elsewhere.
    #[cold]
    pub(super) fn follow(&mut self, index: usize) -> Result<Next, Error> {
        let Some(text) = self.conns[index].redirect.take() else { return Ok(Next::Stay) };
        let next = match &mut self.routes {
            Some(routes) => routes.redirected(index, &text, &mut self.random)?,
            None => None,
        };
        match next {
            None => Err(self.explain(Error::Reply { at: String::new(), text }, index)),
            Some(Next::Stay) => Ok(Next::Stay),
            Some(Next::Reconnect) => {
                self.incidents.lost += self.conns[index].pending_since(self.warm_ns);
                self.move_away(index)?;
                Ok(Next::Reconnect)
            }
        }
    }

    /// Gives a connection the address of its new node.
    fn move_away(&mut self, index: usize) -> Result<(), Error> {
        let target = self.place(index).target.clone();
        if let Some(address) = (target.host.as_str(), target.port).to_socket_addrs()?.next() {
            self.conns[index].address = Some(address);
        }
        Ok(())
    }

    /// Begins to make a connection again.
    pub(super) fn reopen(&mut self, index: usize) -> Result<(), Error> {
        let target = self.place(index).target.clone();
        let socket = Socket::begin(&target, self.conns[index].address)?;
        let conn = &mut self.conns[index];
        conn.reopen(socket, net::greeting(self.options, &target));
        Ok(conn.socket.register(self.poll.registry(), Token(index))?)
    }

    /// Keeps an error of a connection that will be made again from ending the run.
    #[inline]
    pub(super) fn survive(&mut self, index: usize, done: Result<(), Error>) -> Result<(), Error> {
        match done {
            Err(error) if error.is_of_connection() => self.lose(index, error),
            Err(error) if self.options.cluster && error.is_of_cluster() => self.wait_out(index, error),
            done => done,
        }
    }

    /// A cluster is down until replicas have taken over from primaries that are gone.
    #[cold]
    fn wait_out(&mut self, index: usize, error: Error) -> Result<(), Error> {
        let Some(patience) = self.options.reconnect else { return Err(error) };
        let now = self.shared.elapsed_ns();
        let conn = &mut self.conns[index];
        let for_ns = Duration::from_nanos(now - *conn.down_since_ns.get_or_insert(now));
        if for_ns > patience {
            return Err(Error::given_up(&self.place(index).target, for_ns, &error));
        }
        conn.failures = conn.failures.max(DOWN_FAILURES);
        self.lose(index, error)
    }

    #[cold]
    fn lose(&mut self, index: usize, error: Error) -> Result<(), Error> {
        let Some(patience) = self.options.reconnect else { return Err(error) };
        let now = self.shared.elapsed_ns();
        let conn = &mut self.conns[index];
        if conn.stage == Stage::Ready {
            self.incidents.broken += 1;
            self.incidents.lost += conn.pending_since(self.warm_ns);
            conn.forget();
        }
        let failed_at = *conn.failed_at_ns.get_or_insert(now);
        let for_ns = Duration::from_nanos(now - failed_at);
        if for_ns > patience {
            return Err(Error::given_up(&self.place(index).target, for_ns, &error));
        }
        let wait = if conn.failures == 0 { 0 } else { (RETRY_NS << (conn.failures - 1).min(10)).min(RETRY_NS_MAX) };
        conn.failures += 1;
        conn.stage = Stage::Broken { retry_at_ns: now + wait };
        self.broken_len += 1;
        Ok(())
    }

    pub(super) fn retry(&mut self, now: u64) -> Result<(), Error> {
        for index in 0..self.conns.len() {
            if matches!(self.conns[index].stage, Stage::Broken { retry_at_ns } if retry_at_ns <= now) {
                self.broken_len -= 1;
                self.look_for_successor(index)?;
                let begun = self.reopen(index);
                self.survive(index, begun)?;
            }
        }
        Ok(())
    }

    /// A node of a cluster that does not come back may have handed its slots on.
    fn look_for_successor(&mut self, index: usize) -> Result<(), Error> {
        if self.conns[index].failures < 2 {
            return Ok(());
        }
        let Some(routes) = &mut self.routes else { return Ok(()) };
        // While no node answers, the old one is tried on.
        match routes.draw(index, &mut self.random) {
            Ok(Next::Reconnect) => self.move_away(index),
            _ => Ok(()),
        }
    }
}
