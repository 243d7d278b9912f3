//! Two changes of one text put together, line by line.

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline};
use std::ops::Range;
use std::time::{Duration, Instant};

/// A comparison that takes longer is made coarser; it stays right.
const WITHIN: Duration = Duration::from_millis(300);

/// Lines with their ends, so that joining them gives the text again.
pub(super) fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

pub(super) fn compare(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(Instant::now() + WITHIN))
}

/// Lines of the base that one side replaced, and by what.
struct Hunk<'a> {
    base: Range<usize>,
    new: Vec<&'a [u8]>,
}

/// What `base` becomes when both sides' changes are made to it. `None` where both changed the same place, or places that touch, in
/// different ways.
pub(super) fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let base = lines(base);
    let (ours, theirs) = (hunks(&base, &lines(ours)), hunks(&base, &lines(theirs)));
    let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
    let mut merged = Vec::new();
    let mut position = 0;
    loop {
        let next = match (ours.peek(), theirs.peek()) {
            (None, None) => break,
            (Some(_), None) => ours.next(),
            (None, Some(_)) => theirs.next(),
            (Some(one), Some(other)) => {
                let apart = one.base.end < other.base.start || other.base.end < one.base.start;
                if !apart {
                    if one.base != other.base || one.new != other.new {
                        return None;
                    }
                    ours.next();
                    theirs.next()
                } else if one.base.start < other.base.start {
                    ours.next()
                } else {
                    theirs.next()
                }
            }
        };
        let Some(hunk) = next else { break };
        base[position..hunk.base.start].iter().for_each(|line| merged.extend_from_slice(line));
        hunk.new.iter().for_each(|line| merged.extend_from_slice(line));
        position = hunk.base.end;
    }
    base[position..].iter().for_each(|line| merged.extend_from_slice(line));
    Some(merged)
}

fn hunks<'a>(base: &[&[u8]], new: &[&'a [u8]]) -> Vec<Hunk<'a>> {
    let mut hunks: Vec<Hunk<'a>> = Vec::new();
    for op in compare(base, new).iter().filter(|op| op.tag() != DiffTag::Equal) {
        let (old, now) = (op.old_range(), &new[op.new_range()]);
        match hunks.last_mut().filter(|last| last.base.end == old.start) {
            Some(last) => {
                last.base.end = old.end;
                last.new.extend_from_slice(now);
            }
            None => hunks.push(Hunk { base: old, new: now.to_vec() }),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    fn changes_in_different_places_are_put_together_and_others_are_not() {
        let rows = [
            // base, ours, theirs, merged
            ("a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD\n", Some("A\nb\nc\nD\n")),
            ("a\nb\nc\n", "a\nb\nc\n", "a\nX\nc\n", Some("a\nX\nc\n")),
            ("a\nb\nc\n", "a\nX\nc\n", "a\nX\nc\n", Some("a\nX\nc\n")),
            ("a\nb\nc\n", "a\nX\nc\n", "a\nY\nc\n", None),
            // They touch: which comes first is nobody's to guess.
            ("a\nb\nc\n", "A\nb\nc\n", "a\nB\nc\n", None),
            ("a\nc\n", "a\nX\nc\n", "a\nY\nc\n", None),
            ("a\nb\nc\nd\n", "a\nb\nc\nd\ne\n", "b\nc\nd\n", Some("b\nc\nd\ne\n")),
            // The last line has no end.
            ("a\nb\nc", "A\nb\nc", "a\nb\nC", Some("A\nb\nC")),
            ("a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nC\r\n", Some("A\r\nb\r\nC\r\n")),
            ("", "x\n", "", Some("x\n")),
            ("", "x\n", "y\n", None),
        ];
        for (base, ours, theirs, merged) in rows {
            for (one, other) in [(ours, theirs), (theirs, ours)] {
                let found = merge(base.as_bytes(), one.as_bytes(), other.as_bytes()).map(|text| String::from_utf8(text).unwrap());
                assert_eq!(found.as_deref(), merged, "{base:?} {one:?} {other:?}");
            }
        }
    }
}
