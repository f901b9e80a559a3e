//! What a trace says of its own quality on its timeline, and how these notes lie in the parts of an export.
//!
//! A note lies in the part where it begins. One that lasts beyond that part (from where a session is no longer certain to be
//! complete until its end, say) stands again at the beginning of each part that it reaches into: who opens such a part
//! alone sees there what the trace is worth. Verdicts and counts of losses are no events, and in each part's metadata.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::lanes::NestedLanes;
use crate::model::{Note, Process};

/// A note with its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) note: &'a Note,
    /// Ns of the output's clock. The end of a note that lasts is not before its start.
    pub(crate) start: u64,
    pub(crate) end: Option<u64>,
    /// Notes of one lane nest.
    pub(crate) lane: usize,
}

/// A process's notes in the order of their starts.
pub(crate) fn placed<'a>(process: &'a Process<'_>) -> Vec<Placed<'a>> {
    let mut notes: Vec<_> = process.notes.iter().collect();
    notes.sort_by_key(|note| (note.start, Reverse(note.end)));
    let mut lanes = NestedLanes::default();
    let placed = notes.into_iter().map(|note| {
        let start = process.out_ns(note.start);
        let end = note.end.map(|end| process.out_ns(end).max(start));
        Placed {
            note,
            start,
            end,
            lane: end.map_or(0, |end| lanes.place(start, end)),
        }
    });
    placed.collect()
}

/// How many lanes a process's notes take.
pub(crate) fn lanes(process: &Process<'_>) -> usize {
    let placed = placed(process);
    placed.iter().map(|one| one.lane + 1).max().unwrap_or(0)
}

/// A note in the output's format.
#[derive(Debug)]
struct Encoded {
    start: u64,
    /// Its start, if it does not last.
    end: u64,
    bytes: Vec<u8>,
}

/// A process's notes on their way into parts.
#[derive(Debug, Default)]
struct OfProcess {
    waiting: VecDeque<Encoded>,
    /// Written in this part or an earlier one, and maybe not over.
    lasting: Vec<Encoded>,
}

/// The notes of all processes on their way into parts.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    processes: Vec<OfProcess>,
    waiting_bytes: usize,
}

impl Notes {
    /// Adds a process: all of its notes, as `encode` appends each.
    pub(crate) fn add(
        &mut self,
        process: &Process<'_>,
        encode: impl Fn(&mut Vec<u8>, &Placed<'_>),
    ) {
        let encoded = placed(process).into_iter().map(|placed| {
            let mut bytes = Vec::new();
            encode(&mut bytes, &placed);
            Encoded {
                start: placed.start,
                end: placed.end.unwrap_or(placed.start),
                bytes,
            }
        });
        self.add_encoded(encoded.collect());
    }

    fn add_encoded(&mut self, waiting: VecDeque<Encoded>) {
        self.waiting_bytes += waiting.iter().map(|note| note.bytes.len()).sum::<usize>();
        self.processes.push(OfProcess {
            waiting,
            lasting: Vec::new(),
        });
    }

    /// Bytes of those that are not written yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Appends a process's next one if it begins until `now`, ns of the output's clock.
    pub(crate) fn next(&mut self, process: usize, now: u64, out: &mut Vec<u8>) -> bool {
        let OfProcess { waiting, lasting } = &mut self.processes[process];
        let Some(note) = waiting.pop_front_if(|note| note.start <= now) else {
            return false;
        };
        self.waiting_bytes -= note.bytes.len();
        out.extend_from_slice(&note.bytes);
        if note.end > note.start {
            lasting.push(note);
        }
        true
    }

    /// Those that begin until `now`, where a part ends.
    pub(crate) fn begun(&mut self, now: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for process in 0..self.processes.len() {
            while self.next(process, now, &mut out) {}
        }
        out
    }

    /// Those of earlier parts that last beyond `now`, where a part begins.
    pub(crate) fn lasting(&mut self, now: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for process in &mut self.processes {
            process.lasting.retain(|note| note.end > now);
            for note in &process.lasting {
                out.extend_from_slice(&note.bytes);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(start: u64, end: u64, byte: u8) -> Encoded {
        Encoded {
            start,
            end,
            bytes: vec![byte],
        }
    }

    #[test]
    fn a_note_lies_where_it_begins_and_again_where_it_lasts() {
        let waiting = [
            encoded(10, 50, b'a'),
            encoded(10, 10, b'b'),
            encoded(30, 31, b'c'),
            encoded(90, 90, b'd'),
        ];
        let mut notes = Notes::default();
        notes.add_encoded(waiting.into());
        assert_eq!(notes.waiting_bytes(), 4);
        let mut text = Vec::new();
        for now in [9, 10, 49, 50, u64::MAX] {
            text.append(&mut notes.begun(now));
            text.push(b'|');
            text.append(&mut notes.lasting(now));
        }
        assert_eq!(text, b"|ab|ac|a|d|");
        assert_eq!(notes.waiting_bytes(), 0);
    }
}
