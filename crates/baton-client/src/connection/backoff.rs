use std::time::Duration;

/// How long to wait before the next attempt: doubling from the first pause to the longest, each cut by up to a half at
/// random so that ends don't come back at the same instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) const fn new((first, longest): (Duration, Duration)) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause before the next attempt; `random` is any number.
    pub(super) fn next(&mut self, random: u32) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.longest);
        full / 2 + (full / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }

    /// The hub welcomed this end, so the next trouble is a new one.
    pub(super) const fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let mut backoff = Backoff::new((Duration::from_millis(200), Duration::from_secs(5)));
        let longest: Vec<_> = (0..7).map(|_| backoff.next(u32::MAX).as_millis()).collect();
        assert_eq!(longest, [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.next(0).as_millis(), 2500);
        backoff.reset();
        assert_eq!(backoff.next(0).as_millis(), 100);
    }
}
