//! B9: growth of time and memory, measured with a hundredth, a tenth, and all of the works.
//!
//! The exponent is the slope of a line through the logarithms: 1 is linear.

use anyhow::Result;

use super::hub::MeasuredHub;
use super::memory;
use super::report::Measure;
use super::sample;

/// Above this exponent, growth is more than linear; the margin is for measurement errors.
pub(super) const GOAL: f64 = 1.1;

/// The exponents of the fan-out's time and of settled memory.
pub(super) async fn measure(hub: &mut MeasuredHub) -> Result<Vec<Measure>> {
    let policies = hub.policies;
    let idle = memory::idle(hub).await?;
    let (mut times, mut memories) = (Vec::new(), Vec::new());
    for part in [100, 10, 1] {
        hub.set_policies(policies.div_ceil(part)).await?;
        let footprint = memory::footprint(hub, idle).await?;
        let works = sample::count(hub.size());
        times.push((works, footprint.fan_out.as_secs_f64()));
        memories.push((works, footprint.settled));
    }
    let row = |what: &str, unit: &str, least: f64, points: &[(f64, f64)]| {
        let points_as_text: Vec<String> =
            points.iter().map(|(works, value)| format!("{works}: {value:.2} {unit}")).collect();
        Measure::at_most("B9", format!("growth of {what}"), exponent(points, least), "", GOAL)
            .detail(points_as_text.join(", "))
    };
    Ok(vec![row("fan-out time", "s", 0.01, &times), row("settled memory", "MiB", 1.0, &memories)])
}

/// The least-squares slope of the logarithms. Values below `least` count as `least`: zero has no logarithm, and
/// measurements vary by that much.
pub(super) fn exponent(points: &[(f64, f64)], least: f64) -> f64 {
    let logarithms: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.max(least).ln())).collect();
    let count = sample::count(logarithms.len());
    let mean = |of: fn(&(f64, f64)) -> f64| logarithms.iter().map(of).sum::<f64>() / count;
    let (middle_x, middle_y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut over, mut under) = (0.0, 0.0);
    for (x, y) in &logarithms {
        over += (x - middle_x) * (y - middle_y);
        under += (x - middle_x).powi(2);
    }
    over / under
}

#[cfg(test)]
mod tests {
    use super::exponent;

    #[test]
    fn exponent_is_that_of_the_power() {
        let points = |power: i32| [10.0, 100.0, 1000.0].map(|x: f64| (x, 3.0 * x.powi(power)));
        assert!((exponent(&points(1), 1.0) - 1.0).abs() < 1e-9);
        assert!((exponent(&points(2), 1.0) - 2.0).abs() < 1e-9);
        assert!(exponent(&points(0), 1.0).abs() < 1e-9);
        let noise = [(100.0, -0.5), (1_000.0, 0.5), (10_000.0, 1.0)];
        assert!(exponent(&noise, 1.0).abs() < 1e-9);
    }
}
