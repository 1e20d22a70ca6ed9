//! Elements as commands.

/// Elements in one command, as in Redis's rewritten append-only files.
const ELEMENTS_MAX: usize = 64;

/// Takes a command.
pub(crate) type Emit<'e> = &'e mut dyn FnMut(&[&[u8]]);

/// Gathers elements into commands of up to [`ELEMENTS_MAX`].
pub struct Batch<'a, 'e> {
    key: &'a [u8],
    emit: Emit<'e>,
    name: &'static [u8],
    args: Vec<Vec<u8>>,
    elements: usize,
}

impl<'a, 'e> Batch<'a, 'e> {
    /// For the key `key`; `emit` gets the commands.
    pub fn new(key: &'a [u8], emit: Emit<'e>) -> Self {
        Self { key, emit, name: b"", args: Vec::new(), elements: 0 }
    }

    /// Adds an element, as arguments of the command `name`.
    pub fn add(&mut self, name: &'static [u8], parts: &[&[u8]]) {
        self.name = name;
        self.args.extend(parts.iter().map(|part| part.to_vec()));
        self.elements += 1;
        if self.elements == ELEMENTS_MAX {
            self.flush();
        }
    }

    /// Emits what is gathered.
    pub fn flush(&mut self) {
        if self.elements > 0 {
            let args: Vec<&[u8]> =
                [self.name, self.key].into_iter().chain(self.args.iter().map(Vec::as_slice)).collect();
            (self.emit)(&args);
            self.args.clear();
            self.elements = 0;
        }
    }
}
