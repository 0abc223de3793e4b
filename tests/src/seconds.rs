//! Percentiles of some times, for tables.

/// Some seconds, in order.
pub(crate) struct Seconds(Vec<f64>);

impl Seconds {
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// A percentile, as it stands in a table.
    pub(crate) fn at(&self, percent: usize) -> String {
        let place = (self.0.len() * percent).div_ceil(100);
        written(self.0.get(place.saturating_sub(1)).copied())
    }

    /// The mean, as it stands in a table.
    pub(crate) fn mean(&self) -> String {
        let count = u32::try_from(self.0.len()).ok();
        let count = count.filter(|count| *count > 0);
        written(count.map(|count| self.0.iter().sum::<f64>() / f64::from(count)))
    }
}

fn written(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let seconds = Seconds::of([3.0, 1.0, 2.0, 10.0].into_iter());
        let at = [0, 50, 75, 99, 100].map(|percent| seconds.at(percent));
        assert_eq!(at, ["1.0 s", "2.0 s", "3.0 s", "10.0 s", "10.0 s"]);
        assert_eq!(seconds.mean(), "4.0 s");
        let none = Seconds::of(std::iter::empty());
        assert_eq!((none.at(50), none.mean()), ("-".to_owned(), "-".to_owned()));
    }
}
