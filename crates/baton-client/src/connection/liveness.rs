use super::Timing;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// A tick that comes this much too late says that this process or its machine slept.
const SLEPT: Duration = Duration::from_secs(5);
/// Changes that were asked for come within this.
const GAP: Duration = Duration::from_secs(10);

/// Whether the hub still answers, from what was heard and how time passed (C20, C28).
#[derive(Debug)]
pub(super) struct Liveness {
    heartbeat: Duration,
    pong: Duration,
    tick: Duration,
    beat_at: Instant,
    /// When the ping was sent that nothing has followed yet.
    unanswered: Option<Instant>,
    gap_since: Option<Instant>,
    ticked: (Instant, SystemTime),
}

/// What a tick calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulse {
    Quiet,
    /// Send a heartbeat and a ping.
    Beat,
    /// Give the connection up, for this reason.
    Dead(&'static str),
}

impl Liveness {
    pub(super) fn new(timing: Timing, heartbeat: Duration, now: Instant, wall: SystemTime) -> Self {
        let tick = Duration::from_secs(1).min(heartbeat).min(timing.pong);
        Self { heartbeat, pong: timing.pong, tick, beat_at: now + heartbeat, unanswered: None, gap_since: None, ticked: (now, wall) }
    }

    /// How often to call [`Self::tick`].
    pub(super) const fn interval(&self) -> Duration {
        self.tick
    }

    /// Something came from the hub, or nothing was read because nobody took it.
    pub(super) const fn heard(&mut self) {
        self.unanswered = None;
    }

    /// `in_gap`: changes that were asked for are missing.
    pub(super) fn tick(&mut self, now: Instant, wall: SystemTime, in_gap: bool) -> Pulse {
        let passed = now.duration_since(self.ticked.0);
        // The steady clock stands still while a machine sleeps; the other one tells.
        let slept = wall.duration_since(self.ticked.1).unwrap_or_default().saturating_sub(passed);
        self.ticked = (now, wall);
        if passed > self.tick + SLEPT || slept > SLEPT {
            return Pulse::Dead("this machine or program was asleep");
        }
        if self.unanswered.is_some_and(|since| now.duration_since(since) > self.pong) {
            return Pulse::Dead("the hub doesn't answer any more");
        }
        if !in_gap {
            self.gap_since = None;
        } else if now.duration_since(*self.gap_since.get_or_insert(now)) > GAP {
            return Pulse::Dead("the hub left out changes and didn't send them when asked");
        }
        if now < self.beat_at {
            return Pulse::Quiet;
        }
        self.beat_at = now + self.heartbeat;
        self.unanswered.get_or_insert(now);
        Pulse::Beat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Clock {
        liveness: Liveness,
        now: Instant,
        wall: SystemTime,
    }

    impl Clock {
        fn new() -> Self {
            let (now, wall) = (Instant::now(), SystemTime::UNIX_EPOCH);
            Self { liveness: Liveness::new(Timing::default(), 10 * SECOND, now, wall), now, wall }
        }

        fn pass(&mut self, steady: Duration, wall: Duration, in_gap: bool) -> Pulse {
            self.now += steady;
            self.wall += wall;
            self.liveness.tick(self.now, self.wall, in_gap)
        }

        /// Ticks each second until something other than quiet, and says after how many.
        fn until(&mut self, in_gap: bool) -> (u32, Pulse) {
            (1..=60).map(|second| (second, self.pass(SECOND, SECOND, in_gap))).find(|(_, pulse)| *pulse != Pulse::Quiet).unwrap()
        }
    }

    #[test]
    fn c20_silence_after_a_ping_is_noticed_and_any_word_counts() {
        let mut clock = Clock::new();
        assert_eq!(clock.until(false), (10, Pulse::Beat));
        clock.liveness.heard();
        assert_eq!(clock.until(false), (10, Pulse::Beat));
        assert_eq!(clock.until(false), (10, Pulse::Beat));
        assert!(matches!(clock.until(false), (6, Pulse::Dead(_))), "16 s after the first unanswered ping");
    }

    #[test]
    fn c28_sleep_is_noticed_at_the_first_tick_after_it() {
        let mut clock = Clock::new();
        assert!(matches!(clock.pass(SECOND, 8 * 3600 * SECOND, false), Pulse::Dead(_)), "the machine slept");
        let mut clock = Clock::new();
        assert!(matches!(clock.pass(600 * SECOND, 600 * SECOND, false), Pulse::Dead(_)), "the program was stopped");
        let mut clock = Clock::new();
        clock.wall += 3600 * SECOND;
        clock.liveness.ticked.1 = clock.wall;
        clock.wall -= 1800 * SECOND;
        assert_eq!(clock.liveness.tick(clock.now, clock.wall, false), Pulse::Quiet, "a clock that steps back is no sleep");
    }

    #[test]
    fn a_gap_that_stays_is_given_up() {
        let mut clock = Clock::new();
        assert_eq!(clock.until(true), (10, Pulse::Beat));
        assert!(matches!(clock.until(true), (2, Pulse::Dead(_))));
    }
}
