use std::time::Duration;

const FIRST_MS: u64 = 1_000;
const LONGEST_MS: u64 = 60_000;
/// A provider that asks for more than this is not waited for; it is asked again and may say so again.
const LONGEST_ASKED_MS: u64 = 3_600_000;

/// How long to wait, in milliseconds, after so many failures in a row.
///
/// Doubles from one second to one minute. `jitter` is a random number from 0 to 1 and takes away up to half, so that those
/// who failed together don't return together. What the provider asked for is waited at least.
pub fn backoff_ms(failures: u32, retry_after_ms: Option<u64>, jitter: f64) -> u64 {
    let doubled = FIRST_MS.saturating_mul(1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX)).min(LONGEST_MS);
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 1.0 };
    let half = Duration::from_millis(doubled / 2);
    let own = half + half.mul_f64(jitter);
    let own = u64::try_from(own.as_millis()).unwrap_or(LONGEST_MS);
    own.max(retry_after_ms.unwrap_or(0).min(LONGEST_ASKED_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (failures, asked, jitter, expected) in [
            (0, None, 1.0, 1_000),
            (1, None, 1.0, 1_000),
            (1, None, 0.0, 500),
            (2, None, 1.0, 2_000),
            (3, None, 0.5, 3_000),
            (7, None, 1.0, 60_000),
            (u32::MAX, None, 1.0, 60_000),
            (1, Some(7_000), 0.3, 7_000),
            (7, Some(7_000), 1.0, 60_000),
            (1, Some(u64::MAX), 1.0, 3_600_000),
            (1, None, f64::NAN, 1_000),
            (1, None, -3.0, 500),
        ] {
            assert_eq!(backoff_ms(failures, asked, jitter), expected, "{failures} {asked:?} {jitter}");
        }
    }
}
