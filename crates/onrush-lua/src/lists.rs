//! KEYS and ARGV.

use crate::stack::{Kept, Stack};

/// Most elements of a list that is kept for the next script.
const LEN_MAX: usize = 16;

/// Most bytes of an element of such a list.
const ELEMENT_BYTES_MAX: usize = 1024;

/// Which tables a script has for KEYS and ARGV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// Its own tables: the script may do anything with them.
    Own,
    /// The tables of the script before: the caller knows that scripts called with `Kept` only read the elements and
    /// their number.
    Kept,
}

/// Tables that are kept.
#[derive(Default)]
pub(crate) struct KeptLists {
    tables: Option<[List; 2]>,
    /// Whether the globals KEYS and ARGV are these tables.
    are_shown: bool,
}

struct List {
    table: Kept,
    /// How many elements it has.
    len: usize,
}

impl List {
    fn new(stack: &Stack<'_>) -> Self {
        stack.push_table(LEN_MAX, 0);
        Self { table: stack.keep(), len: 0 }
    }

    /// Replaces the elements; returns false if they are too many or too large to be kept.
    fn fill<'a>(&mut self, stack: &Stack<'_>, list: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
        let len = list.len();
        if len == 0 && self.len == 0 {
            return true;
        }
        let mut fits = true;
        stack.push_kept(self.table);
        let table = stack.top();
        for (index, item) in list.enumerate() {
            fits &= item.len() <= ELEMENT_BYTES_MAX;
            stack.set_nth_bytes(table, index as i32 + 1, item);
        }
        for index in len..self.len {
            stack.push_nil();
            stack.set_nth(-2, index as i32 + 1);
        }
        stack.pop(1);
        self.len = len;
        fits
    }
}

impl KeptLists {
    /// Sets the globals KEYS and ARGV to the lists of a script.
    #[inline]
    pub(crate) fn show<'a>(
        &mut self,
        stack: &Stack<'_>,
        globals: Kept,
        lists: Lists,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        if lists == Lists::Kept && keys.len() <= LEN_MAX && args.len() <= LEN_MAX {
            let [kept_keys, kept_args] = self.tables.get_or_insert_with(|| [List::new(stack), List::new(stack)]);
            let fit = kept_keys.fill(stack, keys) & kept_args.fill(stack, args);
            if !self.are_shown {
                let tables = [kept_keys.table, kept_args.table];
                show(stack, globals, || stack.push_kept(tables[0]), || stack.push_kept(tables[1]));
                self.are_shown = true;
            }
            if !fit {
                // The script gets tables of its own: large lists are not kept beyond its end.
                self.forget(stack);
            }
            return;
        }
        show(stack, globals, || push_list(stack, keys), || push_list(stack, args));
        self.are_shown = false;
    }

    fn forget(&mut self, stack: &Stack<'_>) {
        for list in self.tables.take().into_iter().flatten() {
            stack.release(list.table);
        }
        self.are_shown = false;
    }
}

fn show(stack: &Stack<'_>, globals: Kept, push_keys: impl FnOnce(), push_args: impl FnOnce()) {
    stack.push_kept(globals);
    push_keys();
    stack.set_field(-2, "KEYS");
    push_args();
    stack.set_field(-2, "ARGV");
    stack.pop(1);
}

/// Pushes strings as a list.
#[inline]
pub(crate) fn push_list<'a>(stack: &Stack<'_>, list: impl ExactSizeIterator<Item = &'a [u8]>) {
    stack.push_table(list.len(), 0);
    let table = stack.top();
    for (index, item) in list.enumerate() {
        stack.set_nth_bytes(table, index as i32 + 1, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::Run;

    #[test]
    fn a_kept_list_has_the_elements_of_its_script_and_no_others() {
        let mut run = Run::new();
        let code = "return {#KEYS, KEYS[1], KEYS[2], #ARGV, ARGV[1], ARGV[2], ARGV[3]}";
        let large = vec![b'x'; 2 * ELEMENT_BYTES_MAX];
        let many: Vec<&[u8]> = vec![b"m"; LEN_MAX + 1];
        let lists: [&[&[u8]]; 8] =
            [&[b"a", b"b", b"c"], &[b"d"], &[], &[b"e", b"f"], &[&large], &[b"g"], &many, &[b"h", b"i", b"j"]];
        for args in lists {
            let own = {
                run.lists = Lists::Own;
                run.eval_with(code, args)
            };
            run.lists = Lists::Kept;
            assert_eq!(run.eval_with(code, args), own, "{}", args.len());
            assert_eq!(run.eval_with(code, args), own, "again");
        }
    }

    #[test]
    fn what_a_script_does_to_its_own_lists_no_other_sees() {
        let mut run = Run::new();
        let count = |run: &mut Run| {
            run.lists = Lists::Kept;
            run.eval_with("return {#KEYS, #ARGV, KEYS[2] or 'none', ARGV.field or 'none'}", &[b"a"])
        };
        let expected = count(&mut run);
        run.lists = Lists::Own;
        run.eval_with(
            "KEYS[2] = 'x' ARGV.field = 'y' setmetatable(ARGV, {__index = function() return 'z' end})",
            &[b"a"],
        );
        assert_eq!(count(&mut run), expected);
    }
}
