//! What many replies have: a value that is the whole of one, and values with names.

use onrush_resp::Reply;

use crate::blocking::waiter::OnTimeout;
use crate::ctx::{CommandResult, Ctx};
use crate::error::Stop;
use crate::process::Done;

/// Replies that end a command.
impl Ctx<'_> {
    /// Replies OK.
    #[inline(always)]
    pub(crate) fn reply_ok(&mut self) -> CommandResult {
        self.out.ok();
        Ok(())
    }

    /// Replies with a line.
    pub(crate) fn reply_simple(&mut self, line: &str) -> CommandResult {
        self.out.simple(line);
        Ok(())
    }

    /// Replies with an array of lines.
    pub(crate) fn reply_lines(&mut self, lines: &[&str]) -> CommandResult {
        self.out.array(lines.len());
        lines.iter().for_each(|line| self.out.simple(line));
        Ok(())
    }

    /// Replies with a number.
    #[inline(always)]
    pub(crate) fn reply_int(&mut self, number: i64) -> CommandResult {
        self.out.int(number);
        Ok(())
    }

    /// Replies with a string.
    #[inline(always)]
    pub(crate) fn reply_bulk(&mut self, string: &[u8]) -> CommandResult {
        self.out.bulk(string);
        Ok(())
    }

    /// Replies with a text for people.
    pub(crate) fn reply_text(&mut self, text: &[u8]) -> CommandResult {
        self.out.verbatim("txt", text);
        Ok(())
    }

    /// Replies with null.
    #[inline(always)]
    pub(crate) fn reply_null(&mut self) -> CommandResult {
        self.out.null();
        Ok(())
    }

    /// Replies with null in place of an array.
    pub(crate) fn reply_null_array(&mut self) -> CommandResult {
        self.out.null_array();
        Ok(())
    }

    /// Makes the client wait until the function that is returned is called with the result: OK, or an error. `None` if
    /// it may not wait, and has its reply.
    ///
    /// # Errors
    /// As of [`Ctx::block_without_keys`].
    pub(crate) fn reply_later(&mut self) -> Result<Option<Done>, Stop> {
        let Some(waiter) = self.block_without_keys(None, OnTimeout::Never)? else { return Ok(None) };
        let engine = self.engine;
        let done: Done = Box::new(move |result| {
            waiter.finish(engine, |out| match result {
                Ok(()) => out.ok(),
                Err(error) => out.error_bytes(error.as_bytes()),
            });
        });
        Ok(Some(done))
    }

    /// Replies with an empty array.
    pub(crate) fn reply_empty(&mut self) -> CommandResult {
        self.out.array(0);
        Ok(())
    }
}

/// Values of maps, each behind its name.
pub(crate) trait Fields {
    /// Appends a name and a number.
    fn int_field(&mut self, name: &str, number: i64);

    /// Appends a name and a string.
    fn bulk_field(&mut self, name: &str, string: impl AsRef<[u8]>);
}

impl Fields for Reply {
    fn int_field(&mut self, name: &str, number: i64) {
        self.bulk(name.as_bytes());
        self.int(number);
    }

    fn bulk_field(&mut self, name: &str, string: impl AsRef<[u8]>) {
        self.bulk(name.as_bytes());
        self.bulk(string.as_ref());
    }
}
