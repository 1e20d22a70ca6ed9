//! Pub/sub: subscriptions, messages, and who listens.

pub(crate) mod specs;

use onrush_resp::Reply;

use crate::clients::session::States;
use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;
use crate::formats::glob::{glob_match, match_work, widened_len};
use crate::messages::kind::Kind;
use crate::messages::subscriptions::Subscriptions;

const NO_SSUBSCRIBE: CommandError = CommandError::fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");

/// `SSUBSCRIBE shardchannel [shardchannel ...]`
pub(crate) fn ssubscribe(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.session.deny_blocking {
        return Err(NO_SSUBSCRIBE.into());
    }
    subscribe(ctx, Kind::Shard)
}

/// `SUBSCRIBE channel [channel ...]`, or one of its relatives.
fn subscribe(ctx: &mut Ctx<'_>, kind: Kind) -> CommandResult {
    let engine = ctx.engine;
    for index in 1..ctx.argc() {
        let name = ctx.arg(index);
        let session = &mut *ctx.session;
        let subscriptions = session
            .subscriptions
            .get_or_insert_with(|| Box::new(Subscriptions::new(&engine.messages, &engine.lazyfree, &session.handle)));
        let is_new = !subscriptions.contains(kind, name);
        let count = subscriptions.count(kind) + usize::from(is_new);
        // This comes before any message.
        confirm(ctx, kind.subscribed(), Some(name), count);
        if is_new && let Some(subscriptions) = &mut ctx.session.subscriptions {
            subscriptions.add(kind, name);
        }
    }
    ctx.session.note_subscriptions();
    if ctx.session.has_old_rights(&engine.users) {
        end_if_denied(ctx, kind);
    }
    Ok(())
}

/// Ends the connection if its user has lost the right to hear these channels while it subscribed: who took that right
/// may not have seen the subscriptions.
#[cold]
fn end_if_denied(ctx: &mut Ctx<'_>, kind: Kind) {
    let user = ctx.session.handle.user();
    if !ctx.argv.iter().skip(1).all(|name| user.may_hear(name, kind == Kind::Pattern)) {
        ctx.session.states.insert(States::CLOSES);
    }
}

/// `UNSUBSCRIBE [channel [channel ...]]`, or one of its relatives.
fn unsubscribe(ctx: &mut Ctx<'_>, kind: Kind) -> CommandResult {
    let word = kind.unsubscribed();
    if ctx.argc() > 1 {
        for index in 1..ctx.argc() {
            leave(ctx, kind, ctx.arg(index));
        }
    } else {
        let all = ctx.session.subscriptions.as_ref().map_or_else(Vec::new, |subscriptions| subscriptions.all(kind));
        all.iter().for_each(|channel| leave(ctx, kind, &channel.name));
        if all.is_empty() {
            let count = ctx.session.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.count(kind));
            confirm(ctx, word, None, count);
        }
    }
    ctx.session.note_subscriptions();
    Ok(())
}

/// Ends a subscription and confirms the end, after the messages that came before it.
fn leave(ctx: &mut Ctx<'_>, kind: Kind, name: &[u8]) {
    let mut count = 0;
    if let Some(subscriptions) = &mut ctx.session.subscriptions {
        subscriptions.remove(kind, name);
        count = subscriptions.count(kind);
    }
    confirm(ctx, kind.unsubscribed(), Some(name), count);
}

/// Confirms that a subscription has begun or ended, after all messages so far.
fn confirm(ctx: &mut Ctx<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    let encode = |out: &mut Reply| {
        out.push(3);
        out.bulk(word.as_bytes());
        match name {
            Some(name) => out.bulk(name),
            None => out.null(),
        }
        out.int(count as i64);
    };
    let handle = &ctx.session.handle;
    if handle.has_mail() && !ctx.commit.is_nested() {
        handle.take_mail(ctx.out, 0);
        if handle.has_mail() {
            let mut behind = Reply::with_buffer(Vec::new(), ctx.out.proto());
            encode(&mut behind);
            handle.send_behind(behind.take_bytes(), ctx.engine, ctx.thread);
            return;
        }
    }
    encode(ctx.out);
}

/// `PUBLISH channel message`, or SPUBLISH.
fn publish(ctx: &mut Ctx<'_>, kind: Kind) -> CommandResult {
    if kind == Kind::Channel {
        ctx.expect_work(ctx.engine.messages.match_work(ctx.arg(1)))?;
    }
    let receivers = ctx.commit.publish(kind, ctx.arg(1), ctx.arg(2), ctx.argv.owned(2));
    ctx.reply_int(receivers as i64)
}

/// `PUBSUB CHANNELS [pattern]`, or SHARDCHANNELS.
fn list(ctx: &mut Ctx<'_>, kind: Kind) -> CommandResult {
    if ctx.argc() > 3 {
        return Err(ctx.wrong_subcommand().into());
    }
    let pattern = (ctx.argc() == 3).then(|| ctx.arg(2));
    let mut found = ctx.engine.messages.all(kind);
    if let Some(pattern) = pattern {
        let widened_len = widened_len(pattern);
        let works = found.iter().map(|channel| match_work(widened_len, channel.name.len()));
        ctx.expect_work(works.fold(0, usize::saturating_add))?;
        found.retain(|channel| glob_match(pattern, &channel.name, false));
    }
    ctx.out.array(found.len());
    found.iter().for_each(|channel| ctx.out.bulk(&channel.name));
    Ok(())
}

/// `PUBSUB NUMSUB [channel [channel ...]]`, or SHARDNUMSUB.
fn count(ctx: &mut Ctx<'_>, kind: Kind) -> CommandResult {
    ctx.out.array((ctx.argc() - 2) * 2);
    for index in 2..ctx.argc() {
        ctx.out.bulk(ctx.arg(index));
        ctx.out.int(ctx.engine.messages.subscribers_len(kind, ctx.arg(index)) as i64);
    }
    Ok(())
}

/// `PUBSUB NUMPAT`
pub(crate) fn pubsub_numpat(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.reply_int(ctx.engine.messages.len(Kind::Pattern) as i64)
}
