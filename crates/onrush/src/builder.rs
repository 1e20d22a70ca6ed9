//! Options that are set one by one.

/// Implements methods that set one field each and return the options; and `new`, if its docstring is given, which returns
/// the defaults.
macro_rules! builder {
    (
        $kind:ident $(, new: $about_new:literal)?;
        $($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) => $($field:ident).+ = $value:expr;)*
    ) => {
        impl $kind {
            $(
                #[doc = $about_new]
                pub fn new() -> $kind {
                    $kind::default()
                }
            )?

            $(
                $(#[$doc])*
                pub fn $name(mut self, $($arg: $type),*) -> $kind {
                    self.$($field).+ = $value;
                    self
                }
            )*
        }
    };
}

pub(crate) use builder;
