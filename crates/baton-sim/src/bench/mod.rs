//! Measurements, each with its yardstick taken in the same run (docs: "How fast, and how it is measured"). One JSON object a line goes to
//! standard output; what is for people goes to standard error.

pub mod faults;
pub mod steps;

use serde_json::{Value, json};

/// One measured figure.
#[derive(Clone, Debug)]
pub struct Figure {
    pub bench: &'static str,
    pub figure: &'static str,
    pub value: f64,
    pub unit: &'static str,
    pub n: usize,
    /// Milliseconds.
    pub p50: f64,
    /// Milliseconds.
    pub p99: f64,
    pub conditions: Value,
    pub baseline: Value,
}

impl Figure {
    /// The line that is printed.
    pub fn line(&self) -> String {
        json!({
            "bench": self.bench, "figure": self.figure, "value": self.value, "unit": self.unit, "n": self.n, "p50": self.p50, "p99": self.p99,
            "conditions": self.conditions, "baseline": self.baseline, "load": load(),
        })
        .to_string()
    }
}

/// The machine's load at the moment, since both cores being busy changes every figure.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// The value below which that share of the sorted samples lies.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an index within the samples")]
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let index = ((sorted.len().saturating_sub(1)) as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or(0.0)
}
