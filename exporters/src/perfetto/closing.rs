//! What a part says of one process beside its events, at its end: the last clock snapshot, which part it is, and how many
//! arrows it lacks.

use crate::proto::{bytes, message, uint};

use super::field;
use super::packets::{NEEDS_STATE, packet};

/// Arrows that are not drawn because their ends lie in two parts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    /// Between a call and the work that it launched.
    pub(super) arrows: u64,
    /// From work to a call that waited for it: the call lies in an earlier part than the end of the wait, or the work in
    /// an earlier part than the call.
    pub(super) waits: u64,
}

impl Cut {
    pub(super) fn add(&mut self, other: Self) {
        self.arrows += other.arrows;
        self.waits += other.waits;
    }
}

/// What comes behind a part.
#[derive(Clone, Copy, Debug)]
enum Behind<'a> {
    /// Another one, in this file.
    Next(&'a str),
    /// It is the last one; arrows left out in all of them.
    Nothing(Cut),
}

/// What a part says of one process beside its events.
#[derive(Debug)]
pub(super) struct Closing {
    /// The sequence for it, and what its attributes' keys begin with.
    sequence: u64,
    prefix: String,
    /// The last clock snapshot, or nothing.
    snapshot: Vec<u8>,
    /// True when this part has the snapshot.
    is_closed: bool,
    /// Arrows whose later end lies in this part.
    pub(super) cut: Cut,
    /// The same of the parts before it.
    cut_before: Cut,
}

impl Closing {
    /// `prefix`: what the keys of the process's attributes begin with.
    pub(super) fn new(sequence: u64, prefix: String, snapshot: Vec<u8>) -> Self {
        Self {
            sequence,
            prefix,
            snapshot,
            is_closed: false,
            cut: Cut::default(),
            cut_before: Cut::default(),
        }
    }

    /// The sequence of the process itself.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The last clock snapshot, for a part that has none of it yet and gets it now.
    pub(super) fn snapshot(&mut self) -> &[u8] {
        self.is_closed = true;
        &self.snapshot
    }

    /// Arrows that are left out, of all parts so far.
    pub(super) fn all_cut(&self) -> Cut {
        let mut all = self.cut_before;
        all.add(self.cut);
        all
    }

    /// Ends a part of several, with `number`; `next` is the file behind it.
    pub(super) fn end_part(&mut self, out: &mut Vec<u8>, number: u64, next: Option<&str>) {
        if !std::mem::take(&mut self.is_closed) {
            out.extend_from_slice(&self.snapshot);
        }
        let behind = next.map_or(Behind::Nothing(self.all_cut()), Behind::Next);
        self.mark(out, number, self.cut, behind);
        self.cut_before = self.all_cut();
        self.cut = Cut::default();
    }

    /// Bytes that [`Closing::end_part`] appends at most, when no name is longer than this one.
    pub(super) fn bytes_max(&self, name: &str) -> usize {
        let most = Cut {
            arrows: u64::MAX,
            waits: u64::MAX,
        };
        // A part has one of these two.
        let mut out = Vec::new();
        self.mark(&mut out, u64::MAX, most, Behind::Next(name));
        self.mark(&mut out, u64::MAX, most, Behind::Nothing(most));
        self.snapshot.len() + out.len()
    }

    /// Says which part of the export this is, and how many arrows are left out.
    fn mark(&self, out: &mut Vec<u8>, number: u64, cut: Cut, behind: Behind<'_>) {
        packet(out, self.sequence, NEEDS_STATE, None, |out| {
            message(out, field::TRACE_ATTRIBUTES, |out| {
                let key = |out: &mut Vec<u8>, key: &str| {
                    bytes(out, 1, format!("{}.{key}", self.prefix).as_bytes());
                };
                let mut count = |name: &str, value: u64| {
                    message(out, 1, |out| {
                        key(out, name);
                        uint(out, 2, value);
                    });
                };
                count("part", number);
                count("arrows_to_earlier_parts", cut.arrows);
                count("waits_on_earlier_parts", cut.waits);
                match behind {
                    Behind::Next(name) => message(out, 1, |out| {
                        key(out, "next_part");
                        bytes(out, 3, name.as_bytes());
                    }),
                    Behind::Nothing(all) => {
                        count("parts", number);
                        count("arrows_between_parts", all.arrows);
                        count("waits_between_parts", all.waits);
                    }
                }
            });
        });
    }
}
