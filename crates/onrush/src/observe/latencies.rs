//! How long commands take, by their names.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::histogram::Growing;
use super::{Ended, Histogram, OTHER, Observer};

/// An [`Observer`] that counts how long commands take, in a histogram for each name.
///
/// ```no_run
/// # async fn example() -> onrush::RedisResult<()> {
/// use onrush::{AsyncCommands, ConnectionConfig, Latencies};
/// let latencies = Latencies::new();
/// let config = ConnectionConfig::new().set_observer(latencies.clone());
/// let con = onrush::Client::open("redis://127.0.0.1/")?.connect_with(config).await?;
/// let _: Option<String> = con.get("key").await?;
/// for (name, histogram) in latencies.all() {
///     println!("{name}: {} in {:?} at most, 99% of them", histogram.count(), histogram.quantile(0.99));
/// }
/// # Ok(())
/// # }
/// ```
///
/// Clones count together, so connections may share one. A name takes 5 KB; beyond
/// [`NAMES_MAX`](Self::NAMES_MAX) of them, others count as `OTHER`.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    by_name: Arc<RwLock<HashMap<Box<str>, Arc<Growing>>>>,
}

impl Latencies {
    /// Most names that have a histogram of their own.
    pub const NAMES_MAX: usize = 512;

    /// Nothing is counted yet.
    pub fn new() -> Latencies {
        Latencies::default()
    }

    /// The histogram of a command by its name in capitals, of `PIPELINE` or `TRANSACTION`.
    pub fn of(&self, name: &str) -> Option<Histogram> {
        self.by_name.read().get(name).map(|growing| growing.read())
    }

    /// All histograms by name.
    pub fn all(&self) -> Vec<(String, Histogram)> {
        let by_name = self.by_name.read();
        let mut all: Vec<_> = by_name.iter().map(|(name, growing)| (name.to_string(), growing.read())).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    fn growing(&self, name: &str) -> Arc<Growing> {
        if let Some(growing) = self.by_name.read().get(name) {
            return growing.clone();
        }
        let mut by_name = self.by_name.write();
        let name = if by_name.len() < Latencies::NAMES_MAX { name } else { OTHER };
        by_name.entry(name.into()).or_insert_with(|| Arc::new(Growing::new())).clone()
    }
}

impl Observer for Latencies {
    fn ended(&self, ended: &Ended<'_>) {
        self.growing(ended.name).add(ended.took, ended.error.is_some());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_number_of_names_is_limited() {
        let latencies = Latencies::new();
        for n in 0..10_000 {
            let name = format!("NAME{n}");
            latencies.ended(&Ended { name: &name, commands: 1, took: Duration::from_micros(1), error: None });
        }
        let all = latencies.all();
        assert_eq!(all.len(), Latencies::NAMES_MAX + 1);
        assert_eq!(all.iter().map(|(_, histogram)| histogram.count()).sum::<u64>(), 10_000);
        assert!(latencies.of(OTHER).is_some() && latencies.of("NAME9999").is_none());
    }
}
