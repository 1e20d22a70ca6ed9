//! Decoding: one connection's input becomes its part of a chunk, and is planned at once.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use onrush_persist::aof::ARG_LEN_MAX;
use onrush_resp::{Decoded, Decoder, Limits};

use crate::batch::chunk::{Chunk, Part, Planned};
use crate::batch::plan::Planner;
use crate::batch::slice::SliceEnd;
use crate::clients::session::{ReplyMode, Session, States};
use crate::ctx::Engine;

/// Decodes and plans the commands of one connection from the beginning of `part`, until the chunk is full; adds them to
/// `part`.
#[inline]
pub(crate) fn decode<'i>(
    engine: &'static Engine,
    decoder: &mut Decoder,
    session: &mut Session,
    input: &'i [u8],
    chunk: &mut Chunk,
    part: &mut Part,
    planner: &mut Planner<'i>,
) {
    let hot = &engine.settings;
    if !session.is_authenticated() && !engine.users.needs_login() {
        cold_path();
        // The password was taken away since this client connected.
        session.states.remove(States::LOGGED_OUT);
    }
    let limits = Limits {
        bulk_len_max: if session.is_replay { ARG_LEN_MAX as i64 } else { hot.bulk_len_max.load(Relaxed) },
        unauthenticated: !session.is_authenticated(),
        ..Limits::default()
    };
    chunk.db = engine.keyspace.db(session.db as usize);
    planner.set_part(chunk.db, engine.table_of(session), session);
    let first_owned = part.owned.start;
    let mut consumed = part.result.consumed;
    loop {
        if consumed == input.len() {
            part.result.end = SliceEnd::InputUsedUp;
            break;
        }
        if chunk.is_full() {
            break;
        }
        let first_arg = chunk.args.len();
        match decoder.decode(&input[consumed..], &mut chunk.args, &limits) {
            Ok(Decoded::Command { len }) => {
                let place = consumed..consumed + len;
                consumed += len;
                let has_owned = decoder.has_owned();
                if has_owned {
                    cold_path();
                    chunk.owned.append(&mut decoder.take_owned());
                }
                consumed += planner.plan(input, place, first_arg, first_owned, chunk);
                // After an owned argument the input continues elsewhere; after a login wider limits may apply.
                if has_owned || limits.unauthenticated {
                    cold_path();
                    break;
                }
            }
            Ok(Decoded::Nothing { len }) => {
                cold_path();
                if !pass_nothing(session, &chunk.planned[part.first..]) {
                    break;
                }
                consumed += len;
            }
            Ok(Decoded::Incomplete) => {
                cold_path();
                part.result.end = SliceEnd::InputUsedUp;
                break;
            }
            Ok(Decoded::NeedBulk { at, len }) => {
                cold_path();
                part.result.end = SliceEnd::NeedBulk { at, len };
                break;
            }
            Err(error) => {
                cold_path();
                part.result.end = SliceEnd::Malformed(error);
                break;
            }
        }
    }
    part.len = chunk.planned.len() - part.first;
    part.owned.end = chunk.owned.len();
    part.result.consumed = consumed;
}

/// An empty command takes the place of the one whose reply CLIENT REPLY SKIP leaves out. `before` are the connection's
/// planned commands that are not executed yet; returns false if they must be executed first, because one may be CLIENT
/// REPLY SKIP.
#[cold]
fn pass_nothing(session: &mut Session, before: &[Planned]) -> bool {
    match before.last() {
        None if session.reply_mode == ReplyMode::Skip => session.reply_mode = ReplyMode::On,
        // Containers of subcommands are resolved when they are executed.
        Some(Planned { command: None, .. }) => return false,
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use onrush_persist::aof::ARGS_MAX;

    use super::*;
    use crate::settings::Options;

    #[test]
    fn the_log_is_read_with_the_limits_that_clients_have_or_wider_ones() {
        let limits = Limits::default();
        assert_eq!(limits.multibulk_len_max, ARGS_MAX as i64);
        assert_eq!(limits.bulk_len_max, Options::default().bulk_len_max);
        assert!(limits.bulk_len_max < ARG_LEN_MAX as i64);
    }
}
