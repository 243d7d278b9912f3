use std::time::Duration;
use uuid::Uuid;

/// Numbers that follow from a seed and a name, so that each actor of a world draws from a stream of its own and one that draws more
/// doesn't disturb the others.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut mixed = Self(seed ^ 0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            mixed.0 ^= u64::from(byte);
            mixed.next();
        }
        mixed
    }

    /// 64 bits, by the steps of `SplitMix64`.
    #[allow(clippy::should_implement_trait, reason = "it never ends, and isn't meant to be iterated")]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Milliseconds from `low` to `high`.
    pub(crate) fn wait(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        if among.is_empty() {
            return None;
        }
        usize::try_from(self.next() % among.len() as u64).ok().and_then(|place| among.get(place))
    }

    pub(crate) fn id<T: From<Uuid>>(&mut self) -> T {
        let value = (u128::from(self.next()) << 64) | u128::from(self.next());
        T::from(uuid::Builder::from_u128(value).with_version(uuid::Version::SortRand).into_uuid())
    }
}
