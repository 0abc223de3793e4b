//! Percentiles of durations, for tables.

/// Durations in seconds, sorted.
pub(crate) struct Percentiles(Vec<f64>);

impl Percentiles {
    pub(crate) fn new(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// Formats a percentile, 0 to 100. Without values it is `-`.
    pub(crate) fn percentile(&self, percent: usize) -> String {
        let rank = (self.0.len() * percent).div_ceil(100);
        format_seconds(self.0.get(rank.saturating_sub(1)).copied())
    }

    /// Formats the mean. Without values it is `-`.
    pub(crate) fn mean(&self) -> String {
        let count = u32::try_from(self.0.len()).ok();
        let count = count.filter(|count| *count > 0);
        format_seconds(count.map(|count| self.0.iter().sum::<f64>() / f64::from(count)))
    }
}

fn format_seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let seconds = Percentiles::new([3.0, 1.0, 2.0, 10.0].into_iter());
        let at = [0, 50, 75, 99, 100].map(|percent| seconds.percentile(percent));
        assert_eq!(at, ["1.0 s", "2.0 s", "3.0 s", "10.0 s", "10.0 s"]);
        assert_eq!(seconds.mean(), "4.0 s");
        let none = Percentiles::new(std::iter::empty());
        assert_eq!(
            (none.percentile(50), none.mean()),
            ("-".to_owned(), "-".to_owned())
        );
    }
}
