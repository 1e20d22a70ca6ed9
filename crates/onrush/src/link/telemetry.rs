//! Events and spans for `tracing`, with the feature of that name; nothing at all without it.
//!
//! No event holds keys, values or passwords.

use std::fmt::Display;

use crate::error::{RedisError, RedisResult};

/// Passes its text to `tracing` if that is wanted; else it only uses up the names.
macro_rules! event {
    ($level:ident, $($name:ident = $value:expr,)* $text:literal) => {{
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "onrush", $($name = %$value,)* $text);
        #[cfg(not(feature = "tracing"))]
        let _ = ($(&$value,)*);
    }};
}

/// Follows an attempt to connect.
pub(crate) async fn connecting<T>(
    server: &impl Display,
    attempt: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    #[cfg(feature = "tracing")]
    let attempt = tracing::Instrument::instrument(attempt, tracing::debug_span!(target: "onrush", "connect", %server));
    let outcome = attempt.await;
    match &outcome {
        Ok(_) => event!(debug, server = server, "connected"),
        Err(error) => event!(debug, server = server, error = error, "no connection"),
    }
    outcome
}

pub(crate) fn disconnected(server: &impl Display, error: &RedisError) {
    event!(warn, server = server, error = error, "the connection is lost");
}

pub(crate) fn not_connected(server: &impl Display, attempt: u32, error: &RedisError) {
    event!(warn, server = server, attempt = attempt, error = error, "the connection cannot be made again yet");
}

pub(crate) fn not_logged_in(server: &impl Display, error: &RedisError) {
    event!(warn, server = server, error = error, "the login cannot be made again yet");
}

pub(crate) fn reconnected(server: &impl Display, attempts: u32) {
    event!(info, server = server, attempts = attempts, "connected again");
}

/// The span of a command, if somebody wants it.
#[cfg(feature = "tracing")]
pub(crate) fn command_span(cmd: &crate::Cmd) -> Option<tracing::Span> {
    if !tracing::enabled!(target: "onrush", tracing::Level::DEBUG) {
        return None;
    }
    let name = String::from_utf8_lossy(cmd.args_iter().next().unwrap_or_default());
    Some(tracing::debug_span!(target: "onrush", "command", %name)).filter(|span| !span.is_disabled())
}

/// The span of a pipeline, if somebody wants it.
#[cfg(feature = "tracing")]
pub(crate) fn pipeline_span(pipeline: &crate::Pipeline) -> Option<tracing::Span> {
    if !tracing::enabled!(target: "onrush", tracing::Level::DEBUG) {
        return None;
    }
    let (commands, bytes) = (pipeline.len(), pipeline.bytes_len());
    Some(tracing::debug_span!(target: "onrush", "pipeline", commands, bytes)).filter(|span| !span.is_disabled())
}
