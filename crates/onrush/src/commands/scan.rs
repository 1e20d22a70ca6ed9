//! SCAN and similar commands as streams.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::commands::options::ScanOptions;
use crate::connection::{ConnectionLike, Home};
use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::values::args::ToRedisArgs;
use crate::values::cmd::{Cmd, cmd};
use crate::values::from_value::{FromRedisValue, from_redis_value};
use crate::values::value::Value;

/// The first cursor, and that behind the last page.
const BEGIN: &str = "0";

/// How often a scan begins anew.
const ANEW_MAX: u32 = 10;

/// The next cursor and what was found.
type Page = (String, Vec<Value>);

/// The process of the server to which a cursor belongs.
#[derive(Clone, Debug)]
struct Origin {
    /// Where it is, and how often the connection had been made again when it was asked for.
    home: Home,
    /// What the process calls itself; `None` if it does not say.
    run_id: Option<String>,
}

/// A page, the process that it is of if there are more, and whether its cursor is that of the pages before.
type Fetched = (Page, Option<Origin>, bool);

/// A stream of the results of a SCAN, page by page, made by [`scan`](crate::AsyncCommands::scan) and similar methods.
///
/// The next page is requested when the last one is used up. Elements that exist from the first to the last page come at
/// least once, and may come more than once; elements added or deleted meanwhile may come or not. A page lost in a
/// disconnect is requested again. A cursor means nothing to a server that has started again: then the scan begins anew, and
/// elements come once more. Whether it has, is known by the `run_id` of `INFO server`, which is asked for once in a scan of
/// several pages, and after each reconnect; where it is not told, the scan begins anew after each. HSCAN and the like over a
/// cluster begin anew when another node has the key, and after each reconnect to its node. That is done ten times at most.
///
/// ```no_run
/// # async fn example(con: onrush::Connection) -> onrush::RedisResult<()> {
/// use onrush::AsyncCommands;
/// let mut keys = con.scan_match::<String>("user:*");
/// while let Some(key) = keys.next_item().await {
///     println!("{}", key?);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Scan<'a, C, T> {
    con: &'a C,
    name: &'static str,
    key: Vec<Vec<u8>>,
    options: ScanOptions,
    /// Where the next page begins; `None` after the last.
    cursor: Option<String>,
    items: VecDeque<T>,
    origin: Option<Origin>,
    /// How often the scan has begun anew.
    begun_anew: u32,
    page: Option<Pin<Box<dyn Future<Output = RedisResult<Fetched>> + Send + 'a>>>,
}

impl<C, T> fmt::Debug for Scan<'_, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("name", &self.name).field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl<'a, C: ConnectionLike, T: FromRedisValue> Scan<'a, C, T> {
    pub(crate) fn new(con: &'a C, name: &'static str, key: impl ToRedisArgs, options: ScanOptions) -> Scan<'a, C, T> {
        Scan {
            con,
            name,
            key: key.to_redis_args(),
            options,
            cursor: Some(BEGIN.to_owned()),
            items: VecDeque::new(),
            origin: None,
            begun_anew: 0,
            page: None,
        }
    }

    /// The next item; `None` after the last, and after an error that would come again.
    ///
    /// # Errors
    /// Those of [`Cmd::query_async`], and an item that does not fit the type. After a disconnect the next call asks for
    /// the same page again, unless the connection is closed for good.
    pub async fn next_item(&mut self) -> Option<RedisResult<T>> {
        std::future::poll_fn(|cx| self.poll_item(cx)).await
    }

    /// All items that are left.
    ///
    /// # Errors
    /// The first error; the items before it are lost.
    pub async fn collect<I: Default + Extend<T>>(mut self) -> RedisResult<I> {
        let mut all = I::default();
        while let Some(item) = self.next_item().await {
            all.extend([item?]);
        }
        Ok(all)
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<RedisResult<T>>> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            let page = match &mut self.page {
                Some(page) => page,
                None => {
                    let Some(cursor) = &self.cursor else { return Poll::Ready(None) };
                    let mut command = cmd(self.name);
                    command.arg(&self.key).arg(cursor).arg(&self.options).idempotent();
                    self.page.insert(Box::pin(fetch(
                        self.con,
                        command,
                        self.key.first().cloned().unwrap_or_default(),
                        self.origin.clone(),
                    )))
                }
            };
            let fetched = ready!(page.as_mut().poll(cx));
            self.page = None;
            let page = fetched.and_then(|((cursor, items), origin, is_same)| {
                self.origin = origin;
                Ok((cursor, T::from_redis_values(items)?, is_same))
            });
            match page {
                Ok((cursor, items, true)) => {
                    self.items = items.into();
                    self.cursor = Some(cursor).filter(|cursor| cursor != BEGIN);
                }
                Ok((_, items, false)) => {
                    self.items = items.into();
                    if let Err(error) = self.begin_anew() {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Err(error) => {
                    // Other errors would come again, and so would those of a connection that is closed for good.
                    if !error.is_connection_dropped() || error.kind() == ErrorKind::Closed || self.con.is_closed() {
                        self.cursor = None;
                    }
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl<C, T> Scan<'_, C, T> {
    /// The cursor may be that of a process that is gone.
    fn begin_anew(&mut self) -> RedisResult<()> {
        self.begun_anew += 1;
        self.origin = None;
        self.cursor = Some(BEGIN.to_owned()).filter(|_| self.begun_anew <= ANEW_MAX);
        match &self.cursor {
            Some(_) => Ok(()),
            None => Err(RedisError::new(ErrorKind::Io, "the connection was lost too often for one scan")),
        }
    }
}

async fn fetch(con: &impl ConnectionLike, command: Cmd, key: Vec<u8>, origin: Option<Origin>) -> RedisResult<Fetched> {
    let home = origin.as_ref().map_or_else(|| con.home(&key), |origin| origin.home);
    let page: Page = from_redis_value(con.send_command(&command).await?)?;
    // The cursor of a cluster knows itself what belongs to which node.
    let is_of_server = page.0.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = origin.is_none() && page.0 == BEGIN;
    if !is_of_server || con.home(&key) == home && (origin.is_some() || is_whole) {
        return Ok((page, origin, true));
    }
    // In a cluster, INFO does not go where the key is.
    let run_id = if home.node.is_none() { run_id(con).await } else { None };
    let now = con.home(&key);
    let is_same = match &origin {
        _ if now == home => true,
        Some(origin) => run_id.is_some() && run_id == origin.run_id,
        None => false,
    };
    Ok((page, Some(Origin { home: now, run_id }), is_same))
}

async fn run_id(con: &impl ConnectionLike) -> Option<String> {
    let mut info = cmd("INFO");
    info.arg("server").idempotent();
    let text: String = from_redis_value(con.send_command(&info).await.ok()?).ok()?;
    run_id_of(&text).map(str::to_owned)
}

/// What the server's process calls itself, in the text of `INFO server`.
pub(crate) fn run_id_of(info: &str) -> Option<&str> {
    info.lines().find_map(|line| line.strip_prefix("run_id:"))
}

impl<C: ConnectionLike, T: FromRedisValue + Unpin> Stream for Scan<'_, C, T> {
    type Item = RedisResult<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RedisResult<T>>> {
        self.get_mut().poll_item(cx)
    }
}
