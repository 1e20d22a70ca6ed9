//! The command and the flags that start with `--cluster`.

use crate::args::leading_number;
use crate::fail::Fail;

/// Keys that one MIGRATE moves.
const PIPELINE: usize = 10;
const PIPELINE_MAX: i64 = 100_000;
/// How long one MIGRATE may take, in milliseconds.
const MIGRATE_TIMEOUT_MS: u64 = 60_000;
/// The longest timeout in milliseconds, 24 days, as in redis-cli, whose number has 32 bits.
pub const TIMEOUT_MS_MAX: i64 = i32::MAX as i64;
/// Nodes are left alone that are so near to their share, in percent.
const THRESHOLD: f32 = 2.0;

/// The login at a server that keys are imported from.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The user; the default user when absent.
    pub user: Option<Vec<u8>>,
    /// The password.
    pub password: Option<Vec<u8>>,
    /// Read it from the terminal.
    pub ask: bool,
}

/// What the command line says of a command on a cluster.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The command's name and arguments.
    pub words: Vec<String>,
    /// Replicas of each primary.
    pub replicas: usize,
    /// Answer questions with yes.
    pub yes: bool,
    /// Ids of nodes that give slots, or the server that keys are imported from.
    pub from: Option<String>,
    /// The id of the node that gets slots.
    pub to: Option<String>,
    /// How many slots are moved.
    pub slots: i64,
    /// How long one MIGRATE may take, in milliseconds.
    pub timeout_ms: u64,
    /// Keys that one MIGRATE moves.
    pub pipeline: usize,
    /// Overwrite keys that are there.
    pub replace: bool,
    /// Leave imported keys where they come from.
    pub copy: bool,
    /// Move nothing, only show.
    pub simulate: bool,
    /// Nodes without slots get some.
    pub use_empty_primaries: bool,
    /// Percent.
    pub threshold: f32,
    /// `id=weight`.
    pub weights: Vec<String>,
    /// The new node is a replica.
    pub as_replica: bool,
    /// The id of its primary.
    pub primary_id: Option<String>,
    /// Look for slots that several nodes claim.
    pub search_multiple_owners: bool,
    /// Fix even though primaries cannot be reached.
    pub fix_with_unreachable: bool,
    /// Call primaries only.
    pub only_primaries: bool,
    /// Call replicas only.
    pub only_replicas: bool,
    /// The login at the server of `from`.
    pub from_login: Login,
}

impl Settings {
    /// What holds if no flag says otherwise.
    pub fn new() -> Settings {
        Settings {
            yes: std::env::var("REDISCLI_CLUSTER_YES").is_ok_and(|value| value == "1"),
            timeout_ms: MIGRATE_TIMEOUT_MS,
            pipeline: PIPELINE,
            threshold: THRESHOLD,
            ..Settings::default()
        }
    }

    /// Takes a flag that stands alone; whether it is known.
    pub fn take_flag(&mut self, flag: &str) -> bool {
        let set = match flag {
            "cluster-yes" => &mut self.yes,
            "cluster-replace" => &mut self.replace,
            "cluster-copy" => &mut self.copy,
            "cluster-simulate" => &mut self.simulate,
            "cluster-use-empty-masters" => &mut self.use_empty_primaries,
            "cluster-slave" => &mut self.as_replica,
            "cluster-search-multiple-owners" => &mut self.search_multiple_owners,
            "cluster-fix-with-unreachable-masters" => &mut self.fix_with_unreachable,
            "cluster-only-masters" => &mut self.only_primaries,
            "cluster-only-replicas" => &mut self.only_replicas,
            "cluster-from-askpass" => &mut self.from_login.ask,
            _ => return false,
        };
        *set = true;
        true
    }

    /// Takes a flag with its value; whether it is known.
    ///
    /// # Errors
    /// When the value makes no sense.
    pub fn take(&mut self, flag: &str, value: &[u8]) -> Result<bool, Fail> {
        let text = || String::from_utf8_lossy(value).into_owned();
        let number = leading_number(value);
        match flag {
            "cluster-replicas" => self.replicas = usize::try_from(number).unwrap_or(0),
            "cluster-from" => self.from = Some(text()),
            "cluster-to" => self.to = Some(text()),
            "cluster-slots" => self.slots = number,
            "cluster-timeout" => self.timeout_ms = number.clamp(1, TIMEOUT_MS_MAX).unsigned_abs(),
            "cluster-pipeline" => self.pipeline = number.clamp(1, PIPELINE_MAX) as usize,
            "cluster-threshold" => self.threshold = percent(value)?,
            "cluster-master-id" => self.primary_id = Some(text()),
            "cluster-from-user" => self.from_login.user = Some(value.to_vec()),
            "cluster-from-pass" => self.from_login.password = Some(value.to_vec()),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn percent(value: &[u8]) -> Result<f32, Fail> {
    let text = String::from_utf8_lossy(value);
    let number = text.parse().ok().filter(|number: &f32| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| Fail::new(format!("--cluster-threshold wants a number of percent, not '{text}'.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_bounds_are_brought_back() {
        let mut settings = Settings::new();
        for (flag, value) in [("cluster-pipeline", "-5"), ("cluster-replicas", "-1"), ("cluster-timeout", "x")] {
            assert!(settings.take(flag, value.as_bytes()).unwrap());
        }
        assert_eq!((settings.pipeline, settings.replicas, settings.timeout_ms), (1, 0, 1));
        for flag in ["cluster-pipeline", "cluster-timeout", "cluster-slots"] {
            assert!(settings.take(flag, b"99999999999999999999").unwrap());
        }
        assert_eq!((settings.pipeline, settings.timeout_ms, settings.slots), (100_000, 2_147_483_647, i64::MAX));
        assert!(settings.take("cluster-threshold", b"much").is_err());
        assert!(!settings.take("cluster-nothing", b"").unwrap() && !settings.take_flag("cluster-nothing"));
    }
}
