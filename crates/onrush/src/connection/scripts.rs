//! The scripts that a connection has loaded.

use std::collections::{BTreeMap, HashMap};

use crate::commands::script::Script;
use crate::values::encode::command;

/// Most scripts that are remembered, and most bytes of their code; but at least one.
const SCRIPTS_MAX: usize = 1_000;
const CODE_BYTES_MAX: usize = 1 << 20;

/// The scripts that a connection has loaded, or will have before anything queued from now on. Those loaded first are
/// forgotten first: forgotten ones are loaded again before their next use.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    by_digest: HashMap<[u8; 20], (Script, u64)>,
    by_age: BTreeMap<u64, [u8; 20]>,
    code_bytes: usize,
    next: u64,
}

impl Scripts {
    pub(crate) fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// Whether the script counts as loaded. O(1).
    pub(crate) fn has(&self, script: &Script) -> bool {
        self.by_digest.contains_key(&script.0.digest)
    }

    /// Whether the script has to be loaded; it counts as loaded from then on. O(log n).
    pub(crate) fn is_new(&mut self, script: &Script) -> bool {
        if self.by_digest.contains_key(&script.0.digest) {
            return false;
        }
        self.by_digest.insert(script.0.digest, (script.clone(), self.next));
        self.by_age.insert(self.next, script.0.digest);
        self.next += 1;
        self.code_bytes += script.0.code.len();
        while self.len() > 1 && (self.len() > SCRIPTS_MAX || self.code_bytes > CODE_BYTES_MAX) {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            self.remove(&oldest);
        }
        true
    }

    /// Forgets a script that the server does not know. O(log n).
    pub(crate) fn forget(&mut self, script: &Script) {
        self.remove(&script.0.digest);
    }

    /// All of them, with the commands that load them.
    pub(crate) fn reload(&self, out: &mut Vec<u8>) -> Vec<Script> {
        self.by_digest.values().map(|(script, _)| script).inspect(|script| load(script, out)).cloned().collect()
    }

    fn remove(&mut self, digest: &[u8; 20]) {
        if let Some((script, age)) = self.by_digest.remove(digest) {
            self.by_age.remove(&age);
            self.code_bytes -= script.0.code.len();
        }
    }
}

/// Encodes the command that loads a script.
pub(crate) fn load(script: &Script, out: &mut Vec<u8>) {
    command(&[b"SCRIPT", b"LOAD", script.0.code.as_bytes()], out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_scripts_are_forgotten_and_loaded_again() {
        let script = |n: usize| Script::new(&format!("return {n}"));
        let mut scripts = Scripts::default();
        assert!((0..100_000).all(|n| scripts.is_new(&script(n))));
        assert_eq!((scripts.len(), scripts.by_age.len()), (SCRIPTS_MAX, SCRIPTS_MAX));
        assert!(!scripts.is_new(&script(99_999)) && scripts.is_new(&script(7)) && !scripts.is_new(&script(7)));
        scripts.forget(&script(7));
        assert!(scripts.is_new(&script(7)));
        (0..3).for_each(|n| {
            assert!(scripts.is_new(&Script::new(&format!("return '{}'", n.to_string().repeat(2 << 20)))))
        });
        assert_eq!((scripts.len(), scripts.by_age.len()), (1, 1));
        let mut bytes = Vec::new();
        scripts.reload(&mut bytes);
        assert_eq!(crate::values::encode::args_of(&bytes).nth(2).map(<[u8]>::len), Some(scripts.code_bytes));
    }
}
