//! Why a rule of a user is refused.

/// Why a rule is refused. The texts are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It is no rule.
    #[error("Syntax error")]
    Syntax,
    /// There is no such command, subcommand or category.
    #[error("Unknown command or category name in ACL")]
    UnknownCommand,
    /// It allows an argument of a subcommand.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
    /// It adds a pattern of keys to all keys.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    AllKeysAlready,
    /// It adds a pattern of channels to all channels.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
         'resetchannels' to start with an empty list of channels"
    )]
    AllChannelsAlready,
    /// It removes a password that the user does not have.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// It is no digest.
    #[error("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")]
    BadDigest,
}
