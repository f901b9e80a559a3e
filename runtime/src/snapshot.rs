//! A consistent copy of a region while appends go on: of this process's, or of one that another process writes to.
//!
//! Segments may be reused under the copier (flight mode, released sessions). Each is copied with relaxed loads, and its
//! state word is read again afterwards (`handover::copy`); a copy that was overtaken is dropped and the segment, which
//! holds newer records now, is copied again, a few times at most. Segments of records are copied before the facts, so
//! that all facts that they need are in the copy. A segment is sealed in the copy, with a checksum. What is left of each
//! lane is a run without a gap: the newest records up to the moment when the copy was begun.
//!
//! Promise 2. Not in a callback: it copies everything. The appending threads are not held up and take no notice.

use std::collections::HashMap;
use std::io;

use crate::handover;
use crate::hash;
use crate::header::{Header, Mode};
use crate::limits::{CELL_WORDS, HEADER_BYTES, LANE_BYTES, SEGMENT_ENTRY_BYTES};
use crate::map::ReadMap;
use crate::record::{high, pair};
use crate::segment_entry::{SegmentKind, SegmentState, StateWord, word};
use crate::sync::{Ordering, Word};

/// How often a segment is copied that is reused each time meanwhile: a lane would have to run through all its segments
/// in the time of one copy.
const TRIES: usize = 8;

/// Writes words to a place of the copy, bytes from its start.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(usize, &[u64]) -> io::Result<()>;

/// Copies a region into `sink`. Returns how many segments were left out because they were reused meanwhile.
///
/// # Errors
/// The sink's.
pub(crate) fn copy(map: &ReadMap, header: &Header, sink: Sink<'_>) -> io::Result<u64> {
    // Lanes first: what they count is in the segments that are copied after them, or was lost and is counted.
    let lanes = header.lane_table_offset as usize;
    for offset in (lanes..lanes + header.lane_count as usize * LANE_BYTES).step_by(LANE_BYTES) {
        sink(offset, &words(map, offset, LANE_BYTES / 8))?;
    }
    let newest = newest_sequences(map, header);
    let mut left_out = 0;
    // By segment: one that was copied as records and then reused for facts is copied again, over its old place.
    let mut copied = HashMap::new();
    for facts in [false, true] {
        for segment in 0..header.segment_count {
            match copy_segment(map, header, segment, facts, sink)? {
                Copied::Nothing => {}
                Copied::Overtaken => left_out += 1,
                Copied::Segment(of) => {
                    copied.insert(segment, of);
                }
            }
        }
    }
    if header.mode == Mode::Flight {
        for of in gaps(copied.into_values().collect(), &newest) {
            // Free in the copy: what lies in it is passed over.
            sink(
                entry_offset(header, of.segment),
                &[0; SEGMENT_ENTRY_BYTES / 8],
            )?;
            left_out += 1;
        }
    }
    sink(0, &words(map, 0, HEADER_BYTES / 8))?;
    Ok(left_out)
}

/// A segment that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Of {
    lane: u16,
    sequence: u32,
    segment: u32,
    facts: bool,
}

enum Copied {
    Nothing,
    Overtaken,
    Segment(Of),
}

fn entry_offset(header: &Header, segment: u32) -> usize {
    header.segment_table_offset as usize + segment as usize * SEGMENT_ENTRY_BYTES
}

/// The highest sequence of each lane, as it is now.
fn newest_sequences(map: &ReadMap, header: &Header) -> HashMap<u16, u32> {
    let mut newest = HashMap::new();
    for segment in 0..header.segment_count {
        let entry = entry_offset(header, segment);
        // ORD(claim): Acquire. Pairs with the Release store of the state word: the origin is there.
        let state = StateWord::unpack(map.acquire(entry + word::STATE * 8));
        let Some(state) = state.filter(|state| state.state != SegmentState::Free) else {
            continue;
        };
        let sequence = high(map.acquire(entry + word::ORIGIN * 8));
        let known = newest.entry(state.lane).or_insert(sequence);
        *known = sequence.max(*known);
    }
    newest
}

/// Segments of records to be left out, so that what is left of each lane has no gap: those that were opened while the
/// copy was made, and those before one that was reused before it was copied.
fn gaps(mut copied: Vec<Of>, newest: &HashMap<u16, u32>) -> Vec<Of> {
    copied.sort_unstable();
    let mut out = Vec::new();
    for lane in copied.chunk_by(|one, next| one.lane == next.lane) {
        let newest = newest.get(&lane[0].lane).copied().unwrap_or(0);
        let mut expected = None;
        let mut whole = true;
        for of in lane.iter().rev() {
            if of.sequence > newest {
                if !of.facts {
                    out.push(*of);
                }
                continue;
            }
            whole &= expected.is_none_or(|expected| of.sequence == expected);
            expected = Some(of.sequence.wrapping_sub(1));
            if !whole && !of.facts {
                out.push(*of);
            }
        }
    }
    out
}

fn words(map: &ReadMap, offset: usize, count: usize) -> Vec<u64> {
    // ORD(copy): Relaxed. Counters and marks: each word stands for itself.
    (0..count)
        .map_while(|index| map.word(offset + index * 8))
        .map(|word| word.load(Ordering::Relaxed))
        .collect()
}

/// Copies a segment, if it holds facts as asked.
fn copy_segment(
    map: &ReadMap,
    header: &Header,
    segment: u32,
    facts: bool,
    sink: Sink<'_>,
) -> io::Result<Copied> {
    let place = entry_offset(header, segment);
    let start = header.segment_offset(segment) as usize;
    let entry = |index: usize| map.word(place + index * 8);
    let (Some(state), Some(committed)) = (entry(word::STATE), entry(word::COMMITTED)) else {
        return Ok(Copied::Nothing);
    };
    for _ in 0..TRIES {
        // ORD(claim): Relaxed. A look; `handover::copy` reads it in order.
        match StateWord::unpack(state.load(Ordering::Relaxed)) {
            // What can't be is copied as it is, for the reader to complain about.
            None => {
                sink(place, &words(map, place, SEGMENT_ENTRY_BYTES / 8))?;
                return Ok(Copied::Nothing);
            }
            Some(known) if known.state == SegmentState::Free => return Ok(Copied::Nothing),
            Some(known) if (known.kind == SegmentKind::Sticky) != facts => {
                return Ok(Copied::Nothing);
            }
            Some(_) => {}
        }
        let copied = handover::copy(state, committed, |committed| {
            let cells = (committed as usize).min(header.segment_cells());
            let entry = words(map, place, SEGMENT_ENTRY_BYTES / 8);
            (committed, entry, words(map, start, cells * CELL_WORDS))
        });
        let Some((before, (committed, mut entry, cells))) = copied else {
            continue;
        };
        entry[word::STATE] = before & !0xff | SegmentState::Sealed as u64;
        entry[word::COMMITTED] = committed;
        let known_sum = entry[word::CHECKSUM] != 0;
        if !known_sum && cells.len() as u64 == committed * CELL_WORDS as u64 {
            entry[word::CHECKSUM] = hash::words(cells.iter().copied());
            entry[word::CHECKED_CELLS] = pair(committed as u32, 0);
        }
        sink(start, &cells)?;
        sink(place, &entry)?;
        return Ok(Copied::Segment(Of {
            lane: StateWord::unpack(before).map_or(0, |state| state.lane),
            sequence: high(entry[word::ORIGIN]),
            segment,
            facts,
        }));
    }
    Ok(Copied::Overtaken)
}

/// The copy in memory.
pub(crate) fn in_memory(map: &ReadMap, header: &Header) -> ReadMap {
    let mut all = vec![0u64; (header.region_bytes / 8) as usize];
    let into_memory = &mut |offset: usize, words: &[u64]| {
        all[offset / 8..][..words.len()].copy_from_slice(words);
        Ok(())
    };
    // The sink above never fails.
    let _ = copy(map, header, into_memory);
    ReadMap::words_owned(all)
}

const _: () = assert!(size_of::<Word>() == size_of::<u64>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_lane_has_no_gap() {
        let of = |lane, sequence, facts| Of {
            lane,
            sequence,
            segment: sequence,
            facts,
        };
        let copied = vec![
            of(0, 9, false),
            of(0, 5, false),
            of(0, 1, true),
            of(0, 3, false),
            of(0, 6, true),
            of(0, 7, false),
            of(0, 8, true),
            of(1, 4, false),
        ];
        let newest = HashMap::from([(0, 7), (1, 4)]);
        // 9 was opened meanwhile; 4 was reused, so 3 goes too; facts stay.
        let left_out: Vec<u32> = gaps(copied, &newest).iter().map(|of| of.sequence).collect();
        assert_eq!(left_out, [9, 3]);
    }
}
