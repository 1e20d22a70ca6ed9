//! Comparisons of several rounds.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::outcome::{Cell, Ratio};

/// The ratios of a comparison, from cells in which the two servers take turns. They are computed round by round: the
/// two runs of a round are close in time, so other load of the machine affects both. A last cell or round without its
/// other, after which an error ended all, is left out.
pub fn ratios(cells: &[Cell]) -> Vec<Ratio> {
    cells
        .chunks_exact(2)
        .map(|pair| {
            let rounds = pair[0].rounds().iter().zip(pair[1].rounds());
            let logs: Vec<f64> = rounds.map(|(one, other)| (one.rps() / other.rps()).ln()).collect();
            let (mean, half) = mean_and_half_interval(&logs);
            Ratio {
                test: pair[0].test.clone(),
                value: pair[0].value.clone(),
                ratio: mean.exp(),
                interval: half.map(|half| ((mean - half).exp(), (mean + half).exp())),
            }
        })
        .collect()
}

/// The mean, and half of its 95 % confidence interval by Student's t with three values or more.
fn mean_and_half_interval(values: &[f64]) -> (f64, Option<f64>) {
    let len = values.len() as f64;
    let mean = values.iter().sum::<f64>() / len;
    if values.len() < 3 {
        return (mean, None);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (len - 1.0);
    let half = |t: StudentsT| t.inverse_cdf(0.975) * (variance / len).sqrt();
    (mean, StudentsT::new(0.0, 1.0, len - 1.0).ok().map(half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::example;

    #[test]
    fn intervals_need_three_values_and_hold_the_mean() {
        assert_eq!(mean_and_half_interval(&[1.0, 3.0]), (2.0, None));
        let (mean, half) = mean_and_half_interval(&[1.0, 2.0, 3.0]);
        assert_eq!(mean, 2.0);
        assert!((half.unwrap() - 4.302_653 / 3.0_f64.sqrt()).abs() < 1e-4);
        // 20 rounds: t of 19 degrees of freedom, not the normal distribution's 1.96.
        let values: Vec<f64> = (0..20).map(f64::from).collect();
        let half = mean_and_half_interval(&values).1.unwrap();
        assert!((half - 2.093_024 * (35.0_f64 / 20.0).sqrt()).abs() < 1e-4, "{half}");
    }

    #[test]
    fn rounds_are_paired_in_the_order_in_which_they_ran() {
        let cell =
            |speeds: [u64; 3]| Cell::new("SET".into(), "s".into(), String::new(), None, speeds.map(example).into());
        // In every round the first is twice as fast, however much the machine swings between rounds.
        let ratio = &ratios(&[cell([200, 2_000, 600]), cell([100, 1_000, 300])])[0];
        let (low, high) = ratio.interval.unwrap();
        assert!((ratio.ratio - 2.0).abs() < 1e-9 && high - low < 1e-6, "{low} {high}");
        // In each round one of them is twice as fast as the other: nothing is known, whatever the sorted figures say.
        let ratio = &ratios(&[cell([100, 200, 400]), cell([400, 100, 200])])[0];
        let (low, high) = ratio.interval.unwrap();
        assert!(low < 0.5 && high > 2.0, "{low} {high}");
    }
}
