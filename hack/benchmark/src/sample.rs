//! Statistics of repeated measurements.

use std::time::Duration;

/// Sorted measurements.
#[derive(Clone, Debug)]
pub(super) struct Sample(Vec<f64>);

impl Sample {
    pub(super) fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    pub(super) fn seconds(values: &[Duration]) -> Self {
        Self::new(values.iter().map(Duration::as_secs_f64))
    }

    pub(super) fn min(&self) -> f64 {
        self.quantile(0.0)
    }

    pub(super) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(super) fn max(&self) -> f64 {
        self.quantile(1.0)
    }

    /// The linearly interpolated quantile `part`; NaN for an empty sample.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        let place = part.clamp(0.0, 1.0) * count(last);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the last index"
        )]
        let below = place.floor() as usize;
        let above = (below + 1).min(last);
        self.0[below] + (self.0[above] - self.0[below]) * place.fract()
    }
}

/// A count as a float.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2⁵²")]
pub(super) fn count(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let sample = Sample::new([4.0, 1.0, 3.0, 2.0]);
        assert_eq!((sample.min(), sample.median(), sample.max()), (1.0, 2.5, 4.0));
        assert!((sample.quantile(0.95) - 3.85).abs() < 1e-9);
        assert!(Sample::new([]).median().is_nan());
    }
}
