//! When, where and against what was measured.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a report says beside its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Circumstances {
    /// The date and the time, UTC.
    pub date: String,
    /// The machine of this tool.
    pub machine: String,
    /// Each server with its version and system, as far as it tells them.
    pub servers: Vec<(String, String)>,
}

impl Circumstances {
    /// As they are now.
    pub fn now(servers: Vec<(String, String)>) -> Circumstances {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Circumstances { date: date(since), machine: machine(), servers }
    }
}

/// The date and the time of a moment since 1970, UTC.
fn date(since: Duration) -> String {
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string();
    format!("{} {} UTC", &text[..10], &text[11..16])
}

/// The processors, their number, and the system.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model =
        |line: &str| Some(line.split_once(':').filter(|(name, _)| name.trim() == "model name")?.1.trim().to_owned());
    let models: BTreeSet<String> = info.lines().filter_map(model).collect();
    let mut parts: Vec<String> = models.into_iter().collect();
    if let Ok(count) = std::thread::available_parallelism() {
        parts.push(format!("{count} processors"));
    }
    let release = read("/proc/sys/kernel/osrelease");
    parts.push(format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH).replace("  ", " "));
    parts.join(", ")
}

/// What a server says of itself in INFO: its name, its version, its system.
pub fn described(info: &str) -> String {
    let field = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(value.trim()).filter(|value| !value.is_empty())
    };
    let names = [("onrush_version", "Onrush"), ("valkey_version", "Valkey"), ("redis_version", "Redis")];
    let version = names.iter().find_map(|(name, title)| Some(format!("{title} {}", field(name)?)));
    [version, field("os").map(str::to_owned)].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, want) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (1_735_689_600, "2025-01-01 00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(Duration::from_secs(seconds)), want);
        }
    }

    #[test]
    fn a_server_is_described_by_its_own_name() {
        let info = "$90\r\n# Server\r\nredis_version:7.4.0\r\nonrush_version:0.1.0\r\nos:Linux 6.1 x86_64\r\n";
        assert_eq!(described(info), "Onrush 0.1.0, Linux 6.1 x86_64");
        assert_eq!(described("redis_version:8.2.1\r\n"), "Redis 8.2.1");
        assert_eq!(described("-NOAUTH Authentication required.\r\n"), "");
    }
}
