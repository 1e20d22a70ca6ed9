//! What the thread that follows a primary is asked, and how it is interrupted.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use onrush_engine::process::Done;
use onrush_engine::replication::role::Primary;
use onrush_persist::threads;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::net::peers::connect;

/// Another role for this server.
#[derive(Default)]
pub struct Request {
    /// Its primary; `None`: it is one.
    pub primary: Option<Primary>,
    /// Whether it takes over from this server, whose replica it was (FAILOVER).
    pub takes_over: bool,
    /// Whether the primary is the same server as before, at another address: what came from it is as good as it was.
    pub is_same: bool,
}

#[derive(Default)]
struct State {
    /// Roles that are to come, and whom to tell.
    requests: VecDeque<(Request, Done)>,
    /// The role that is about to be: that of the last request.
    wanted: Option<Option<Primary>>,
    /// The connection in use.
    socket: Option<Arc<TcpStream>>,
    /// The way to the thread while it waits for a connection.
    opening: Option<Sender<io::Result<TcpStream>>>,
}

/// See the module's text.
#[derive(Default)]
pub struct Service {
    state: Mutex<State>,
    changed: Condvar,
    /// Held while a part of the stream is executed: whoever cuts or replaces the data takes it before the keyspace.
    executing: Mutex<()>,
}

impl Service {
    /// Has the thread give this server another role; then it calls `done`. What the thread waits for is interrupted.
    pub fn ask(&self, request: Request, done: Done) {
        let mut state = self.state.lock();
        state.wanted = Some(request.primary.clone());
        state.requests.push_back((request, done));
        if let Some(socket) = state.socket.take() {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(opening) = state.opening.take() {
            // It may have its connection already.
            let _ = opening.send(Err(ErrorKind::Interrupted.into()));
        }
        self.changed.notify_all();
    }

    /// The role that was asked for and is not there yet.
    pub fn wanted(&self) -> Option<Option<Primary>> {
        self.state.lock().wanted.clone()
    }

    /// Whether another role was asked for.
    pub fn is_asked(&self) -> bool {
        !self.state.lock().requests.is_empty()
    }

    /// Keeps the stream from going on while the result lives.
    pub fn hold_stream(&self) -> MutexGuard<'_, ()> {
        self.executing.lock()
    }

    /// As [`Service::hold_stream`], but waits at most this long.
    pub fn hold_stream_for(&self, at_most: Duration) -> Option<MutexGuard<'_, ()>> {
        self.executing.try_lock_for(at_most)
    }

    /// The next request.
    pub(super) fn next(&self) -> Option<(Request, Done)> {
        self.state.lock().requests.pop_front()
    }

    /// The server has the role of the last request, if there is no other one.
    pub(super) fn note_done(&self) {
        let mut state = self.state.lock();
        if state.requests.is_empty() {
            state.wanted = None;
        }
    }

    /// Waits for a request, at most this long.
    pub(super) fn wait(&self, at_most: Option<Duration>) {
        let mut state = self.state.lock();
        if !state.requests.is_empty() {
            return;
        }
        match at_most {
            Some(at_most) => _ = self.changed.wait_for(&mut state, at_most),
            None => self.changed.wait(&mut state),
        }
    }

    /// Connects to a primary, whose name is looked up. Another thread does it, as neither can be interrupted.
    ///
    /// # Errors
    /// The system's; `Interrupted`: another role was asked for.
    pub(super) fn open(&self, primary: &Primary, timeout: Duration) -> io::Result<Arc<TcpStream>> {
        let (tell, told) = channel();
        {
            let mut state = self.state.lock();
            if !state.requests.is_empty() {
                return Err(ErrorKind::Interrupted.into());
            }
            state.opening = Some(tell.clone());
        }
        let Primary { host, port } = primary.clone();
        threads::start("primary", move || {
            // Nobody listens any more after an interruption.
            let _ = tell.send(connect(&host, port, timeout));
        })?;
        let opened = told.recv().unwrap_or_else(|_| Err(ErrorKind::Interrupted.into()))?;
        let socket = Arc::new(opened);
        let mut state = self.state.lock();
        state.opening = None;
        if !state.requests.is_empty() {
            return Err(ErrorKind::Interrupted.into());
        }
        state.socket = Some(Arc::clone(&socket));
        Ok(socket)
    }

    /// The connection is closed.
    pub(super) fn forget(&self, socket: &Arc<TcpStream>) {
        self.state.lock().socket.take_if(|known| Arc::ptr_eq(known, socket));
    }
}
