//! Open sequences by the room that is left in them.

const BITS: usize = u64::BITS as usize;
const NONE: u32 = u32::MAX;

/// Sequences by room: the least room that suffices is found in a step a level, and there are few levels, each with a bit for 64 of the
/// one below.
pub struct Rooms {
    /// The last sequence that got each room.
    last: Vec<u32>,
    /// The one that got the same room before, by sequence.
    before: Vec<u32>,
    levels: Vec<Vec<u64>>,
}

impl Rooms {
    /// For rooms up to `most`; none is there yet.
    pub fn new(most: usize) -> Self {
        let mut levels = vec![vec![0; most / BITS + 1]];
        while let Some(words) = levels.last().map(Vec::len).filter(|&words| words > 1) {
            levels.push(vec![0; words.div_ceil(BITS)]);
        }
        Self { last: vec![NONE; most + 1], before: Vec::new(), levels }
    }

    /// Notes the room that is left in a sequence.
    pub fn put(&mut self, room: usize, sequence: u32) {
        let place = sequence as usize;
        if self.before.len() <= place {
            self.before.resize(place + 1, NONE);
        }
        self.before[place] = std::mem::replace(&mut self.last[room], sequence);
        let mut at = room;
        for level in &mut self.levels {
            level[at / BITS] |= 1 << (at % BITS);
            at /= BITS;
        }
    }

    /// Takes out the sequence with the least room that is at least `wanted`: of several, the one that was noted last.
    pub fn take(&mut self, wanted: usize) -> Option<(usize, u32)> {
        let room = self.least_from(wanted)?;
        let sequence = self.last[room];
        self.last[room] = self.before[sequence as usize];
        if self.last[room] == NONE {
            self.clear(room);
        }
        Some((room, sequence))
    }

    fn least_from(&self, wanted: usize) -> Option<usize> {
        let mut at = wanted;
        for (height, level) in self.levels.iter().enumerate() {
            let rest = level.get(at / BITS)? & (u64::MAX << (at % BITS));
            if rest != 0 {
                let found = at / BITS * BITS + rest.trailing_zeros() as usize;
                let below = self.levels[..height].iter().rev();
                return Some(below.fold(found, |at, level| at * BITS + level[at].trailing_zeros() as usize));
            }
            at = at / BITS + 1;
        }
        None
    }

    fn clear(&mut self, room: usize) {
        let mut at = room;
        for level in &mut self.levels {
            level[at / BITS] &= !(1 << (at % BITS));
            if level[at / BITS] != 0 {
                return;
            }
            at /= BITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_least_room_that_suffices_is_taken(most in 1_usize..10_000, wishes in prop::collection::vec((any::<bool>(), any::<usize>()), 1..200)) {
            let mut rooms = Rooms::new(most);
            let mut there: Vec<(usize, u32)> = Vec::new();
            for (sequence, (puts, number)) in (0..).zip(wishes) {
                let room = number % (most + 1);
                if puts {
                    rooms.put(room, sequence);
                    there.push((room, sequence));
                    continue;
                }
                let least = there.iter().map(|&(found, _)| found).filter(|&found| found >= room).min();
                let at = least.and_then(|least| there.iter().rposition(|&(found, _)| found == least));
                prop_assert_eq!(rooms.take(room), at.map(|at| there.remove(at)));
            }
        }
    }
}
