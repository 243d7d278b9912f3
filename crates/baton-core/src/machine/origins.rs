//! What the agent has read that isn't the user's own words, so that what it then asks for can say what led to it (S21).

use baton_proto::{Origin, OriginKind, Origins, TaskId};
use serde::{Deserialize, Serialize};

/// Things that are named, of one task.
const KEPT: usize = 8;
/// Characters of a name.
const NAME_CHARS: usize = 120;

/// What was read, task by task: the latest task's in detail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    task: Option<TaskId>,
    origins: Origins,
}

impl Reading {
    pub(crate) fn add(&mut self, task: Option<TaskId>, kind: OriginKind, name: &str) {
        self.origins = self.of(task);
        self.task = task;
        let origin = Origin { kind, name: shortened(name) };
        let read = &mut self.origins.read;
        read.retain(|known| *known != origin);
        read.push(origin);
        if read.len() > KEPT {
            read.remove(0);
            self.origins.more = self.origins.more.saturating_add(1);
        }
    }

    /// What may have led to something that is done for this task.
    pub fn of(&self, task: Option<TaskId>) -> Origins {
        if task == self.task {
            return self.origins.clone();
        }
        Origins { earlier: !self.origins.is_empty(), ..Origins::default() }
    }

    /// The agent no longer sees what it read.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The agent sees again what it had read before, whatever that was.
    pub(crate) const fn remember(&mut self) {
        self.origins.earlier = true;
    }
}

fn shortened(name: &str) -> String {
    let mut short: String = name.chars().take(NAME_CHARS).collect();
    if short.len() < name.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn the_latest_of_a_task_is_named_and_the_rest_is_counted() {
        let (one, two) = (Some(TaskId(Uuid::from_u128(1))), Some(TaskId(Uuid::from_u128(2))));
        let mut reading = Reading::default();
        assert!(reading.of(one).is_empty());
        for n in 0..10 {
            reading.add(one, OriginKind::Path, &format!("{n}.txt"));
        }
        reading.add(one, OriginKind::Path, "5.txt");
        let names: Vec<_> = reading.of(one).read.into_iter().map(|origin| origin.name).collect();
        assert_eq!(names, ["2.txt", "3.txt", "4.txt", "6.txt", "7.txt", "8.txt", "9.txt", "5.txt"]);
        assert_eq!((reading.of(one).more, reading.of(one).earlier), (2, false));
        // Another task doesn't name it, and says that it was there.
        assert_eq!(reading.of(two), Origins { earlier: true, ..Origins::default() });
        reading.add(two, OriginKind::Command, &"x".repeat(500));
        let origins = reading.of(two);
        assert!(origins.earlier && origins.read[0].name.chars().count() == 121 && origins.read[0].name.ends_with('…'));
        reading.forget();
        assert!(reading.of(two).is_empty());
        reading.remember();
        assert_eq!(reading.of(one), Origins { earlier: true, ..Origins::default() });
    }
}
