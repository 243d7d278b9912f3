//! Seeded worlds, as many as asked for: how many of them lose, double or strand anything. The aim is none; tests run a fixed few.

use super::Figure;
use crate::world::{Habit, Outcome, Plan, run as run_world, shortest, told};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Runs the worlds with these seeds, and tells of each that fails with the fewest faults that it takes.
#[allow(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
pub fn run(first: u64, seeds: u64) -> Result<Vec<Figure>> {
    let next = AtomicU64::new(first);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes: Result<Vec<Vec<(Outcome, f64)>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(|| work(&next, first + seeds))).collect();
        workers.into_iter().map(|worker| worker.join().ok().context("a world panicked")?).collect()
    });
    let outcomes: Vec<_> = outcomes?.into_iter().flatten().collect();
    let sum = |count: fn(&Outcome) -> u64| outcomes.iter().map(|(outcome, _)| count(outcome)).sum::<u64>();
    let mut times: Vec<_> = outcomes.iter().map(|(_, milliseconds)| *milliseconds).collect();
    times.sort_by(f64::total_cmp);
    let failed = outcomes.iter().filter(|(outcome, _)| !outcome.is_fine()).count();
    Ok(vec![Figure {
        bench: "faults",
        figure: "worlds_that_fail",
        value: failed as f64,
        unit: "worlds",
        n: outcomes.len(),
        p50: super::percentile(&times, 0.5),
        p99: super::percentile(&times, 0.99),
        conditions: json!({
            "first": first, "seeds": seeds, "steps": sum(|it| it.steps), "kills": sum(|it| it.kills), "lost": sum(|it| it.lost),
            "doubled": sum(|it| it.doubled), "stuck": sum(|it| it.stuck),
        }),
        baseline: json!(null),
    }])
}

fn work(next: &AtomicU64, end: u64) -> Result<Vec<(Outcome, f64)>> {
    let mut done = Vec::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return Ok(done);
        }
        let plan = Plan::of(seed);
        let started = Instant::now();
        let outcome = run_world(&plan, Habit::Honest)?;
        if !outcome.is_fine() {
            let (plan, outcome) = shortest(&plan, Habit::Honest)?;
            eprintln!("{}", told(&plan, &outcome));
        }
        done.push((outcome, started.elapsed().as_secs_f64() * 1000.0));
    }
}
