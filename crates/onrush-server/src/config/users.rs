//! Lines of `user`. There is one user, so a line may only say of the default user what is true of it: it may do
//! everything, with the password of `requirepass` or without one. A redis-server writes such a line by CONFIG REWRITE.

use onrush_engine::formats::sha256;

use super::words::Reason;

pub const DUPLICATE: Reason = Reason::Borrowed(
    "Error in user declaration 'default': Duplicate user found. A user can only be defined once in config files",
);
const NO_USERS: Reason =
    Reason::Borrowed("ACL users are not supported yet: there is only the default user, who may do everything");
const NO_LOGIN: Reason = Reason::Borrowed("nobody could log in: the default user needs one password, or `nopass`");
const CONTRADICTION: Reason = Reason::Borrowed("`requirepass` says otherwise");
const ONLY_DIGEST: Reason =
    Reason::Borrowed("the digest is not that of `requirepass`, and without the password nobody could log in");

/// How the default user logs in, as a line says.
#[derive(Clone, PartialEq, Eq)]
pub enum DefaultUser {
    /// Without a password.
    Open,
    /// With this password.
    Password(Vec<u8>),
    /// With a password that has this digest, in hexadecimal digits.
    Digest(Vec<u8>),
}

/// Reads the words after `user`: a name and its rules.
///
/// # Errors
/// The line is about another user, gives the default user less than all rights, or leaves it no way to log in.
pub fn parse(name: &[u8], rules: &[Vec<u8>]) -> Result<DefaultUser, Reason> {
    if name != b"default" {
        return Err(NO_USERS);
    }
    let (mut is_on, mut keys, mut channels, mut commands) = (false, false, false, false);
    let mut user = None;
    for rule in rules {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => is_on = true,
            b"~*" | b"allkeys" => keys = true,
            b"&*" | b"allchannels" => channels = true,
            b"+@all" | b"allcommands" => commands = true,
            // Payloads are checked whoever sends them.
            b"sanitize-payload" | b"skip-sanitize-payload" => {}
            b"nopass" => user = Some(DefaultUser::Open),
            [b'>', ..] if user.is_none() => user = Some(DefaultUser::Password(rule[1..].to_vec())),
            [b'#', digest @ ..] if user.is_none() => user = Some(DefaultUser::Digest(digest.to_vec())),
            _ => return Err(NO_USERS),
        }
    }
    match (is_on && keys && channels && commands, user) {
        (false, _) => Err(NO_USERS),
        (true, None) => Err(NO_LOGIN),
        (true, Some(user)) => Ok(user),
    }
}

impl DefaultUser {
    /// The password of both: this user and `requirepass`, where an empty one is none.
    ///
    /// # Errors
    /// They contradict each other, or nobody knows the password.
    pub fn password_beside(self, required: Vec<u8>) -> Result<Vec<u8>, Reason> {
        match self {
            Self::Open if required.is_empty() => Ok(required),
            Self::Password(own) if required.is_empty() || own == required => Ok(own),
            Self::Digest(digest) if sha256::hex(&required).as_bytes() == digest && !required.is_empty() => Ok(required),
            Self::Digest(_) => Err(ONLY_DIGEST),
            Self::Open | Self::Password(_) => Err(CONTRADICTION),
        }
    }
}

/// The default user as a line says it that CONFIG REWRITE writes, without the first word.
pub fn line(password: &[u8]) -> String {
    match password {
        b"" => "default on nopass sanitize-payload ~* &* +@all".to_owned(),
        password => format!("default on sanitize-payload #{} ~* &* +@all", sha256::hex(password)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(line: &str, required: &str) -> Result<String, Reason> {
        let words: Vec<_> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let password = parse(&words[0], &words[1..])?.password_beside(required.as_bytes().to_vec())?;
        Ok(String::from_utf8(password).unwrap())
    }

    #[test]
    fn lines_that_are_true_of_the_default_user_are_taken() {
        assert_eq!(password("default on nopass ~* &* +@all", ""), Ok("".into()));
        assert_eq!(password("default ON NOPASS allkeys allchannels allcommands", ""), Ok("".into()));
        assert_eq!(password("default on >Secret ~* &* +@all", ""), Ok("Secret".into()));
        assert_eq!(password("default on >x ~* &* +@all", "x"), Ok("x".into()));
        for required in ["", "secret"] {
            assert_eq!(password(&line(required.as_bytes()), required), Ok(required.into()));
        }
    }

    #[test]
    fn lines_that_say_otherwise_are_refused() {
        for line in [
            "bob on nopass ~* &* +@all",
            "default",
            "default on",
            "default off nopass ~* &* +@all",
            "default on nopass ~* +@all",
            "default on nopass ~cached:* &* +@all",
            "default on nopass ~* &* +@all -flushall",
            "default on >a >b ~* &* +@all",
            "default on nopass ~* &* +@all resetpass",
        ] {
            assert_eq!(password(line, ""), Err(NO_USERS), "{line}");
        }
        assert_eq!(password("default on ~* &* +@all", ""), Err(NO_LOGIN));
        assert_eq!(password("default on nopass ~* &* +@all", "x"), Err(CONTRADICTION));
        assert_eq!(password("default on >y ~* &* +@all", "x"), Err(CONTRADICTION));
        assert_eq!(password(&line(b"other"), "x"), Err(ONLY_DIGEST));
        assert_eq!(password(&line(b"other"), ""), Err(ONLY_DIGEST));
    }
}
