//! All users, by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use parking_lot::{Mutex, RwLock};

use crate::formats::sha256;
use crate::users::rights::Rights;
use crate::users::user::{DEFAULT_USER, User};

/// A user whose rights were replaced, or that is gone.
pub(crate) struct Changed {
    pub(crate) user: Arc<User>,
    /// What it could do before; `None`: it is new.
    pub(crate) before: Option<Arc<Rights>>,
    /// `None`: it is no user any more.
    pub(crate) after: Option<Arc<Rights>>,
}

impl Changed {
    /// Whether it may hear less than before.
    pub(crate) fn hears_less(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => !after.hears_all_of(before),
            _ => false,
        }
    }
}

/// All users.
pub struct Users {
    by_name: RwLock<BTreeMap<Box<[u8]>, Arc<User>>>,
    default: Arc<User>,
    /// Moves on after each change of rights.
    epoch: AtomicU64,
    /// `acl-pubsub-default`: whether new users may use all channels.
    all_channels: AtomicBool,
    /// Held while users are changed.
    changing: Mutex<()>,
    commands_len: usize,
}

impl Users {
    /// The default user, who may do everything. `commands_len`: how many commands there are.
    pub(crate) fn new(commands_len: usize) -> Self {
        let default = User::new(DEFAULT_USER, Rights::all(commands_len));
        let by_name = BTreeMap::from([(DEFAULT_USER.into(), Arc::clone(&default))]);
        Self {
            by_name: RwLock::new(by_name),
            default,
            epoch: AtomicU64::new(1),
            all_channels: AtomicBool::new(false),
            changing: Mutex::new(()),
            commands_len,
        }
    }

    /// The user of clients that have not said who they are.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// A user by its name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.by_name.read().get(name).cloned()
    }

    /// All users by ascending name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.by_name.read().values().cloned().collect()
    }

    /// Moves on after each change of rights.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// Whether a client must log in before it may do anything.
    pub fn needs_login(&self) -> bool {
        let rights = self.default.rights();
        !(rights.is_on() && rights.needs_no_password())
    }

    /// Whether the default user needs no password.
    pub fn is_open(&self) -> bool {
        self.default.rights().needs_no_password()
    }

    /// Whether new users may use all channels (`acl-pubsub-default`).
    pub(crate) fn set_all_channels(&self, all_channels: bool) {
        self.all_channels.store(all_channels, Relaxed);
    }

    /// Logs a client in: calls `enter` with the user if the password is right. No user goes meanwhile. Takes as long
    /// whether there is such a user or not; less if any password will do.
    pub(crate) fn log_in(&self, name: &[u8], password: &[u8], enter: impl FnOnce(&Arc<User>)) -> bool {
        let asks = self.by_name.read().get(name).is_none_or(|user| !user.rights().needs_no_password());
        // No password has the empty digest, if the user is given one just now.
        let digest = if asks { sha256::hex(password) } else { String::new() };
        let users = self.by_name.read();
        let user = users.get(name);
        let is_right = user.unwrap_or(&self.default).rights().admits(digest.as_bytes());
        let Some(user) = user.filter(|_| is_right) else { return false };
        enter(user);
        true
    }

    /// Gives the default user one password instead of all others (`requirepass`); an empty one stands for none at all.
    pub fn set_default_password(&self, password: &[u8]) {
        let _changing = self.changing.lock();
        let mut rights = Rights::clone(&self.default.rights());
        rights.set_password(password);
        self.default.replace(rights);
        self.move_on();
    }

    /// Changes the rights of a user, who is made if there is none of this name. If `change` fails, nothing has changed.
    ///
    /// # Errors
    /// Those of `change`.
    pub(super) fn change<E>(
        &self,
        name: &[u8],
        change: impl FnOnce(Rights) -> Result<Rights, E>,
    ) -> Result<Changed, E> {
        let _changing = self.changing.lock();
        let known = self.get(name);
        let rights = change(known.as_ref().map_or_else(|| self.no_rights(), |user| Rights::clone(&user.rights())))?;
        let is_known = known.is_some();
        let user = known.unwrap_or_else(|| {
            let user = User::new(name, self.no_rights());
            self.by_name.write().insert(name.into(), Arc::clone(&user));
            user
        });
        let before = is_known.then(|| user.rights());
        user.replace(rights);
        self.move_on();
        let after = Some(user.rights());
        Ok(Changed { user, before, after })
    }

    /// Removes a user; `None` if there is no such one. The default user cannot be removed.
    pub(crate) fn remove(&self, name: &[u8]) -> Option<Changed> {
        let _changing = self.changing.lock();
        let user = self.by_name.write().remove(name)?;
        self.move_on();
        Some(Changed { before: Some(user.rights()), user, after: None })
    }

    /// Replaces all users by these. Without a default user among them, that one may do everything again. Returns all that
    /// there were.
    pub(super) fn replace_users(&self, mut new: BTreeMap<Vec<u8>, Rights>) -> Vec<Changed> {
        let _changing = self.changing.lock();
        new.entry(DEFAULT_USER.to_vec()).or_insert_with(|| Rights::all(self.commands_len));
        let mut users = self.by_name.write();
        let mut changed = Vec::new();
        users.retain(|name, user| {
            let before = Some(user.rights());
            let after = new.remove(&**name).map(|rights| {
                user.replace(rights);
                user.rights()
            });
            let stays = after.is_some();
            changed.push(Changed { user: Arc::clone(user), before, after });
            stays
        });
        for (name, rights) in new {
            let user = User::new(&name, rights);
            users.insert(name.into(), user);
        }
        self.move_on();
        changed
    }

    /// `acl-pubsub-default`: whether new users may use all channels.
    pub(super) fn all_channels(&self) -> bool {
        self.all_channels.load(Relaxed)
    }

    /// How many commands there are.
    pub(super) fn commands_len(&self) -> usize {
        self.commands_len
    }

    /// The rights of a user that is new.
    pub(crate) fn no_rights(&self) -> Rights {
        Rights::none(self.commands_len, self.all_channels.load(Relaxed))
    }

    fn move_on(&self) {
        self.epoch.fetch_add(1, Release);
    }
}
