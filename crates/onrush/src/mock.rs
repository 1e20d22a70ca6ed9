//! A connection that answers from a script, for tests of code that uses this library; with the feature `mock`.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::connection::ConnectionLike;
use crate::error::{ErrorKind, RedisError, RedisResult, ServerError};
use crate::values::cmd::Cmd;
use crate::values::encode::{args_of, split_first};
use crate::values::pipeline::{Pipeline, PipelineResult};
use crate::values::value::Value;

/// How many bytes of an argument a message shows.
const SHOWN_MAX: usize = 60;

/// A connection that expects certain commands and gives the replies set for them.
///
/// It takes everything that a [`Connection`](crate::Connection) takes; write code for `impl ConnectionLike` or `impl
/// AsyncCommands` to test it. A command other than the next expected one gets an error of [`ErrorKind::Client`] that
/// shows both. When the last clone is dropped, it panics if unexpected commands came or expected ones did not;
/// [`assert_done`](Self::assert_done) checks this at any other place.
///
/// ```
/// use onrush::mock::MockConnection;
/// use onrush::{AsyncCommands, RedisResult, cmd};
///
/// async fn visits(con: &impl AsyncCommands, page: &str) -> RedisResult<i64> {
///     con.incr(format!("visits:{page}"), 1).await
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let con = MockConnection::new().expect(cmd("INCRBY").arg(("visits:home", 1)), 7);
/// assert_eq!(visits(&con, "home").await, Ok(7));
/// con.assert_done();
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct MockConnection {
    script: Arc<Script>,
}

#[derive(Debug, Default)]
struct Script(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    any_order: bool,
    expected: VecDeque<Expected>,
    /// How many were expected so far.
    answered: usize,
    surprises: Vec<String>,
}

#[derive(Debug)]
struct Expected {
    request: Request,
    replies: PipelineResult,
}

/// A command, or a pipeline of several.
#[derive(Debug, PartialEq)]
struct Request {
    bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Command,
    Pipeline,
    Transaction,
}

impl MockConnection {
    /// Expects nothing yet.
    pub fn new() -> MockConnection {
        MockConnection::default()
    }

    /// Allows the commands in any order; of equal ones the first expected is answered first.
    pub fn in_any_order(self) -> MockConnection {
        self.script.0.lock().any_order = true;
        self
    }

    /// Expects a command and answers it: with bytes, text, a number, a [`Value`] of any kind, or an error.
    pub fn expect(self, cmd: impl AsRef<Cmd>, reply: impl IntoReply) -> MockConnection {
        self.add(Request::command(cmd.as_ref()), Ok(Some(vec![reply.into_reply()])))
    }

    /// Expects a pipeline and answers each of its commands, ignored ones included.
    ///
    /// # Panics
    /// There are more replies than commands, or fewer.
    pub fn expect_pipeline<R: IntoReply>(
        self,
        pipeline: &Pipeline,
        replies: impl IntoIterator<Item = R>,
    ) -> MockConnection {
        let replies: Vec<_> = replies.into_iter().map(IntoReply::into_reply).collect();
        let request = Request::pipeline(pipeline);
        let (commands, count) = (pipeline.len(), replies.len());
        assert_eq!(commands, count, "{commands} commands get {count} replies in {}", request.shown());
        self.add(request, Ok(Some(replies)))
    }

    /// Expects a transaction, which a WATCH has stopped.
    pub fn expect_stopped(self, pipeline: &Pipeline) -> MockConnection {
        self.add(Request::pipeline(pipeline), Ok(None))
    }

    /// Expects a pipeline and fails it as a whole.
    pub fn expect_pipeline_error(self, pipeline: &Pipeline, error: RedisError) -> MockConnection {
        self.add(Request::pipeline(pipeline), Err(error))
    }

    /// Panics if unexpected commands came, or if expected ones did not.
    pub fn assert_done(&self) {
        let complaint = self.script.0.lock().take_complaint();
        if let Some(complaint) = complaint {
            panic!("{complaint}");
        }
    }

    fn add(self, request: Request, replies: PipelineResult) -> MockConnection {
        self.script.0.lock().expected.push_back(Expected { request, replies });
        self
    }
}

impl State {
    fn answer(&mut self, request: Request) -> PipelineResult {
        let depth = if self.any_order { self.expected.len() } else { 1 };
        let found = self.expected.iter().take(depth).position(|expected| expected.request == request);
        if let Some(expected) = found.and_then(|at| self.expected.remove(at)) {
            self.answered += 1;
            return expected.replies;
        }
        let number = self.answered + self.surprises.len() + 1;
        let mut text = format!("request {number} is not what was expected\n       got: {}", request.shown());
        let wanted = match self.expected.front() {
            Some(expected) if !self.any_order => format!("\n  expected: {}", expected.request.shown()),
            Some(_) => format!("\n  expected: one of {} others", self.expected.len()),
            None => "\n  expected: nothing more".to_owned(),
        };
        text.push_str(&wanted);
        self.surprises.push(text.clone());
        Err(RedisError::new(ErrorKind::Client, text))
    }

    /// Takes the complaint, if there is one.
    fn take_complaint(&mut self) -> Option<String> {
        let surprises = std::mem::take(&mut self.surprises);
        let missing = std::mem::take(&mut self.expected);
        if surprises.is_empty() && missing.is_empty() {
            return None;
        }
        let mut text = "the mock connection did not get what it expects".to_owned();
        surprises.iter().for_each(|surprise| _ = write!(text, "\n{surprise}"));
        missing.iter().for_each(|expected| _ = write!(text, "\nmissing: {}", expected.request.shown()));
        Some(text)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let complaint = if std::thread::panicking() { None } else { self.0.get_mut().take_complaint() };
        if let Some(complaint) = complaint {
            panic!("{complaint}");
        }
    }
}

impl Request {
    fn command(cmd: &Cmd) -> Request {
        Request { bytes: cmd.get_packed_command(), kind: Kind::Command }
    }

    fn pipeline(pipeline: &Pipeline) -> Request {
        let kind = if pipeline.is_atomic() { Kind::Transaction } else { Kind::Pipeline };
        Request { bytes: pipeline.get_packed_pipeline(), kind }
    }

    /// The command as one would type it, shortened if it is long.
    fn shown(&self) -> String {
        let mut rest = self.bytes.as_slice();
        let mut commands = Vec::new();
        while !rest.is_empty() {
            let (command, behind) = split_first(rest).unwrap_or((rest, &[]));
            commands.push(args_of(command).map(shown).collect::<Vec<_>>().join(" "));
            rest = behind;
        }
        let commands = commands.join("; ");
        match self.kind {
            Kind::Command => commands,
            Kind::Pipeline => format!("pipeline [{commands}]"),
            Kind::Transaction => format!("transaction [{commands}]"),
        }
    }
}

fn shown(arg: &[u8]) -> String {
    let (shown, more) = match arg.get(..SHOWN_MAX) {
        Some(head) if arg.len() > SHOWN_MAX => (head, format!("… ({} bytes)", arg.len())),
        _ => (arg, String::new()),
    };
    let plain = !shown.is_empty() && shown.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'"');
    if plain { format!("{}{more}", shown.escape_ascii()) } else { format!("\"{}{more}\"", shown.escape_ascii()) }
}

impl ConnectionLike for MockConnection {
    async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        let replies = self.script.0.lock().answer(Request::command(cmd))?;
        replies.into_iter().flatten().next().unwrap_or(Ok(Value::Nil))
    }

    async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        self.script.0.lock().answer(Request::pipeline(pipeline))
    }
}

/// What a mock may answer with.
pub trait IntoReply {
    /// The reply.
    ///
    /// # Errors
    /// The error that is the reply.
    fn into_reply(self) -> RedisResult<Value>;
}

macro_rules! replies {
    ($($kind:ty: |$value:ident| $reply:expr;)*) => {$(
        impl IntoReply for $kind {
            fn into_reply(self) -> RedisResult<Value> {
                let $value = self;
                $reply
            }
        }
    )*};
}

replies! {
    Value: |value| value.into_result();
    RedisResult<Value>: |reply| reply;
    RedisError: |error| Err(error);
    ServerError: |error| Err(error.into());
    &str: |text| Ok(Value::BulkString(text.into()));
    String: |text| Ok(Value::BulkString(text.into_bytes()));
    &[u8]: |bytes| Ok(Value::BulkString(bytes.to_vec()));
    Vec<u8>: |bytes| Ok(Value::BulkString(bytes));
    i32: |number| Ok(Value::Int(number.into()));
    i64: |number| Ok(Value::Int(number));
    bool: |truth| Ok(Value::Int(truth.into()));
    (): |_ok| Ok(Value::Okay);
}

impl<T: IntoReply> IntoReply for Option<T> {
    fn into_reply(self) -> RedisResult<Value> {
        self.map_or(Ok(Value::Nil), T::into_reply)
    }
}

impl<T: IntoReply, const N: usize> IntoReply for [T; N] {
    fn into_reply(self) -> RedisResult<Value> {
        self.into_iter().map(T::into_reply).collect::<RedisResult<_>>().map(Value::Array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AsyncCommands, cmd, pipe};

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn complaint(con: &MockConnection) -> String {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| con.assert_done()));
        *caught.expect_err("something is wrong").downcast().expect("a text")
    }

    #[test]
    fn commands_and_pipelines_get_their_replies() {
        run(async {
            let mut both = pipe();
            both.incr("n", 1).get("none").atomic();
            let con = MockConnection::new()
                .expect(cmd("GET").arg("k"), "v")
                .expect(cmd("MGET").arg(["a", "b"]), [Some(1), None])
                .expect(cmd("GET").arg("list"), ServerError::new("WRONGTYPE no string"))
                .expect_pipeline(&both, [Some(2), None])
                .expect_stopped(&both);
            assert_eq!(con.get::<_, String>("k").await.unwrap(), "v");
            assert_eq!(con.mget::<_, Vec<Option<i32>>>(["a", "b"]).await.unwrap(), [Some(1), None]);
            assert_eq!(con.get::<_, String>("list").await.unwrap_err().code(), Some("WRONGTYPE"));
            assert_eq!(both.query_async::<(i32, Option<i32>)>(&con).await.unwrap(), (2, None));
            assert_eq!(both.query_async::<Option<(i32, i32)>>(&con).await.unwrap(), None);
            con.assert_done();
        });
    }

    #[test]
    fn what_was_not_expected_is_shown_beside_what_was() {
        run(async {
            let con = MockConnection::new().expect(cmd("SET").arg(("k", "a b")), ()).expect(cmd("PING"), "PONG");
            let error = con.set::<_, _, ()>("k", "a\nb").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Client);
            let text = error.to_string();
            assert!(text.contains(r#"got: SET k "a\nb""#) && text.contains(r#"expected: SET k "a b""#), "{text}");
            let text = complaint(&con);
            assert!(text.contains("request 1") && text.contains("missing: PING"), "{text}");
            // Told once.
            con.assert_done();
            let error = con.get::<_, ()>("x".repeat(100)).await.unwrap_err().to_string();
            assert!(error.contains("… (100 bytes)") && error.contains("nothing more"), "{error}");
            complaint(&con);
        });
    }

    #[test]
    fn a_pipeline_is_no_transaction_and_no_single_command() {
        run(async {
            let mut one = pipe();
            one.get("k");
            let con = MockConnection::new().expect_pipeline(&one, ["v"]);
            assert!(con.get::<_, ()>("k").await.is_err());
            assert!(
                one.clone().atomic().exec_async(&con).await.unwrap_err().to_string().contains("transaction [GET k]")
            );
            assert_eq!(one.query_async::<(String,)>(&con).await.unwrap().0, "v");
            complaint(&con);
        });
    }

    #[test]
    fn any_order_is_fine_when_it_is_said_so() {
        run(async {
            let con =
                MockConnection::new().in_any_order().expect(cmd("GET").arg("a"), 1).expect(cmd("GET").arg("b"), 2);
            assert_eq!(con.get::<_, i32>("b").await.unwrap() + con.get::<_, i32>("a").await.unwrap(), 3);
            assert!(con.get::<_, i32>("a").await.is_err());
            complaint(&con);
        });
    }

    #[test]
    fn a_mock_that_is_dropped_early_complains() {
        let con = MockConnection::new().expect(cmd("PING"), "PONG");
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(con)));
        assert!(caught.unwrap_err().downcast::<String>().unwrap().contains("missing: PING"));
    }
}
