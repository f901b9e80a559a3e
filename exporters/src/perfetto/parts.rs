//! Parts of an export to Perfetto's protobuf: files below a size limit, each of which loads by itself.
//!
//! Every part begins with what a whole file begins with (first clock snapshots, processes, GPUs, attributes, counts of
//! losses, verdicts; sequences start anew), with all names and descriptions that came up in the parts before it and with the
//! notes of quality that still last (see [`crate::notes`]), and it ends with the last clock snapshots and with which part it
//! is: the next one's name, or how many there are. A file that needs no second part has the same bytes with any limit.
//!
//! An event lies in one part, whole: where it starts, ranges by id where they end. What concerns two events at once:
//!
//! * A launch names its work by ids that are known before the work comes. Where the two lie in different parts, readers
//!   find no work of that id, or no launch, and draw no arrow.
//! * The end of a call that waits for the device is written when the records have come to it, with the work that it
//!   waited for. Such a call ends with its part: its true end then stands at the part's own, and names no work. An end
//!   names no work of an earlier part.
//!
//! Arrows that these rules leave out are counted, and each part's metadata has the counts (see [`Cut`]).
//!
//! The thread that decides runs ahead of the one place that knows how long the packets became, here: what it knows and
//! this place needs waits in queues, under the number of the record that it belongs to. So no number of threads shows in
//! where parts end.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;

use strandline::hash;

use crate::export::ExportError;
use crate::join::Ids;
use crate::notes::Notes;
use crate::order::Item;
use crate::out::Output;
use crate::pipeline::{Chunk, Insert, What};
use crate::proto::{message, uint};

use super::closing::{Closing, Cut};
use super::packets::{NEEDS_STATE, end_packet, named, packet};
use super::{Decision, Link, field};

/// An end of a call that waits takes no more than this, without the work that it waited for.
const WAIT_END_BYTES: usize = 56;

/// The end of a span; `call` is the number of its record when it is a call that waits for the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitEnd {
    pub(super) call: u64,
    pub(super) sequence: u64,
    pub(super) end: u64,
    pub(super) track: Option<u64>,
}

/// What the text of a [`What::End`] was made of.
#[derive(Debug)]
struct Waited {
    process: usize,
    end: WaitEnd,
    /// Ids and record numbers of the work that the call waited for.
    works: Vec<(u64, u64)>,
}

/// What a record means for later parts.
#[derive(Debug)]
enum News {
    /// A packet with a name that the record's sequence knows from now on.
    Name(Vec<u8>),
    /// A call whose end is written later.
    Wait(WaitEnd),
    /// A call of this process that came after work of its own: numbers of the work's records.
    Early(usize, Vec<u64>),
}

/// The files of an export.
#[derive(Debug)]
pub(super) struct Parts<'o> {
    out: Output<'o>,
    /// Id of the whole export.
    uuid: u64,
    /// What every part begins with, before and behind its id.
    header: [Vec<u8>; 2],
    /// Names and descriptions of all parts so far.
    definitions: Vec<u8>,
    closings: Vec<Closing>,
    /// Bytes of all snapshots and of the parts' own attributes.
    closing_bytes: usize,
    notes: Notes,
    news: VecDeque<(u64, News)>,
    /// Ends that were decided and not yet stitched.
    ends: VecDeque<Waited>,
    /// Calls of this part that have no end yet.
    open: Vec<WaitEnd>,
    /// Records that were stitched, and that lie in earlier parts.
    stitched: u64,
    part_first: u64,
    /// Start of the newest record.
    now: u64,
    has_events: bool,
    /// By process: calls in this part that launched something, when it is not the first.
    calls: Option<Vec<Ids>>,
}

impl<'o> Parts<'o> {
    /// Nothing is written yet.
    pub(super) fn new(out: Output<'o>) -> Self {
        Self {
            out,
            uuid: 0,
            header: [const { Vec::new() }; 2],
            definitions: Vec::new(),
            closings: Vec::new(),
            closing_bytes: 0,
            notes: Notes::default(),
            news: VecDeque::new(),
            ends: VecDeque::new(),
            open: Vec::new(),
            stitched: 0,
            part_first: 0,
            now: 0,
            has_events: false,
            calls: None,
        }
    }

    /// Writes the beginning of the first part. Call once, before the first event.
    pub(super) fn begin(
        &mut self,
        uuid: u64,
        header: [Vec<u8>; 2],
        closings: Vec<Closing>,
        notes: Notes,
    ) -> Result<(), ExportError> {
        (self.uuid, self.header) = (uuid, header);
        (self.closings, self.notes) = (closings, notes);
        let name = self.out.longest_part_name();
        let closings = self.closings.iter();
        self.closing_bytes = closings.map(|closing| closing.bytes_max(&name)).sum();
        self.begin_part()
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.out.bytes()
    }

    /// Arrows whose ends lie in two parts, so far.
    pub(super) fn cut(&self) -> Cut {
        let mut all = Cut::default();
        for closing in &self.closings {
            all.add(closing.all_cut());
        }
        all
    }

    /// Says that a sequence knows a name from this record on.
    #[cold]
    pub(super) fn add_name(&mut self, record: u64, sequence: u64, iid: u64, name: &[u8]) {
        if !self.out.is_splittable() {
            return;
        }
        let mut text = Vec::new();
        packet(&mut text, sequence, NEEDS_STATE, None, |out| {
            message(out, field::INTERNED_DATA, |out| {
                named(out, field::EVENT_NAMES, iid, name);
            });
        });
        self.news.push_back((record, News::Name(text)));
    }

    /// Says that a call's end is written later.
    pub(super) fn add_wait(&mut self, wait: WaitEnd) {
        if self.out.is_splittable() {
            self.news.push_back((wait.call, News::Wait(wait)));
        }
    }

    /// Says what the next [`What::End`] was made of.
    pub(super) fn add_end(&mut self, process: usize, end: WaitEnd, works: Vec<(u64, u64)>) {
        if self.out.is_splittable() {
            self.ends.push_back(Waited {
                process,
                end,
                works,
            });
        }
    }

    /// Says that a call came after work of its own.
    #[cold]
    pub(super) fn add_early(&mut self, process: usize, call: u64, works: Vec<u64>) {
        if self.out.is_splittable() {
            self.news.push_back((call, News::Early(process, works)));
        }
    }

    /// What this part still has to say at its end, at most, behind `more` bytes and `waits` more calls that wait.
    fn until_end(&self, more: usize, waits: usize) -> usize {
        let waits_bytes = (self.open.len() + waits) * WAIT_END_BYTES;
        more + self.closing_bytes + self.notes.waiting_bytes() + waits_bytes
    }

    /// How many of the records before this one wait, and are not stitched yet.
    fn waits_before(&self, until: u64) -> usize {
        let news = self.news.iter().take_while(|(record, _)| *record < until);
        news.filter(|(_, news)| matches!(news, News::Wait(_)))
            .count()
    }

    fn begin_part(&mut self) -> Result<(), ExportError> {
        let mut uuid = Vec::new();
        if let Some(closing) = self.closings.first() {
            // Viewers keep what they read under this id.
            let id = match self.out.part_number() as u64 {
                1 => self.uuid,
                further => hash::words([self.uuid, further].into_iter()),
            };
            packet(&mut uuid, closing.sequence(), NEEDS_STATE, None, |out| {
                message(out, field::TRACE_UUID, |out| {
                    uint(out, 1, id);
                    uint(out, 2, hash::words([id].into_iter()));
                });
            });
        }
        for text in [&self.header[0], &uuid, &self.header[1], &self.definitions] {
            self.out.append(text)?;
        }
        self.out.append(&self.notes.lasting(self.now))?;
        self.has_events = false;
        self.out.check_repeated(self.until_end(0, 0))
    }

    /// Ends this part between two events, and begins the next one.
    #[cold]
    fn split(&mut self) -> Result<(), ExportError> {
        let mut text = Vec::new();
        for wait in self.open.drain(..) {
            end_packet(&mut text, &wait, &[]);
        }
        text.append(&mut self.notes.begun(self.now));
        self.out.append(&text)?;
        let next = self.out.next_part_name();
        self.end_part(Some(&next))?;
        self.out.next_part()?;
        self.part_first = self.stitched;
        self.calls = Some(self.closings.iter().map(|_| Ids::default()).collect());
        self.begin_part()
    }

    /// The last packets of a part of several; `next` is the file behind it.
    fn end_part(&mut self, next: Option<&str>) -> Result<(), ExportError> {
        let number = self.out.part_number() as u64;
        let mut text = Vec::new();
        for closing in &mut self.closings {
            closing.end_part(&mut text, number, next);
        }
        self.out.append(&text)
    }

    /// Writes what the trace says of a process's quality, behind its last event.
    pub(super) fn end_process(&mut self, process: usize) -> Result<(), ExportError> {
        let mut note = Vec::new();
        while self.notes.next(process, u64::MAX, &mut note) {
            self.unit(&[], &note, 0..note.len())?;
            note.clear();
        }
        self.out.append(self.closings[process].snapshot())
    }

    /// Names the files. Call after [`Parts::end_process`] of each process.
    pub(super) fn commit(mut self) -> Result<(Vec<PathBuf>, u64), ExportError> {
        if self.out.part_number() > 1 {
            self.end_part(None)?;
        }
        self.out.commit()
    }

    /// Takes the next chunk in order.
    pub(super) fn stitch(&mut self, chunk: &mut Chunk<'_, Decision>) -> Result<(), ExportError> {
        if !self.out.is_splittable() {
            return self.out.give(chunk.bytes.finish());
        }
        let until = self.stitched + chunk.items.len() as u64;
        if (self.out).is_full(self.until_end(chunk.bytes.place(), self.waits_before(until)))
            || self.is_cut(chunk.inserts())
        {
            return self.stitch_events(chunk);
        }
        for insert in chunk.inserts() {
            // Names come behind the first packet of their sequence, ends behind the calls.
            self.settle(self.stitched + insert.before as u64);
            let place = insert.place..insert.place + insert.length;
            self.take_insert(insert.what, &chunk.bytes.as_bytes()[place]);
        }
        self.settle(until);
        for (item, decision) in chunk.items.iter().zip(&chunk.decisions) {
            self.count_arrows(item, decision);
        }
        self.stitched = until;
        self.now = chunk.items.last().map_or(self.now, |item| item.place.start);
        self.has_events |= chunk.bytes.place() > 0;
        self.out.give(chunk.bytes.finish())
    }

    /// True when the ends among these texts cannot be written as they are.
    fn is_cut(&self, inserts: &[Insert]) -> bool {
        let ends = inserts
            .iter()
            .filter(|insert| matches!(insert.what, What::End));
        self.part_first > 0
            && ends.zip(&self.ends).any(|(_, Waited { end, works, .. })| {
                end.call < self.part_first || works.iter().any(|work| work.1 < self.part_first)
            })
    }

    /// Takes a chunk event by event: there may be a part's end in it, or ends of calls of an earlier part.
    #[cold]
    fn stitch_events(&mut self, chunk: &Chunk<'_, Decision>) -> Result<(), ExportError> {
        let (mut inserts, mut from) = (chunk.inserts(), 0);
        for (at, (item, decision)) in chunk.items.iter().zip(&chunk.decisions).enumerate() {
            let own = inserts.iter().take_while(|insert| insert.before == at);
            let (own, rest) = inserts.split_at(own.count());
            let to = chunk.borders[at];
            self.unit(own, chunk.bytes.as_bytes(), from..to)?;
            self.settle(self.stitched + 1);
            self.count_arrows(item, decision);
            self.stitched += 1;
            self.now = item.place.start;
            (inserts, from) = (rest, to);
        }
        Ok(())
    }

    /// Takes texts that belong to no record, behind all records.
    pub(super) fn add_inserts(
        &mut self,
        inserts: Vec<Insert>,
        texts: &[u8],
    ) -> Result<(), ExportError> {
        let mut place = 0;
        for mut insert in inserts {
            insert.place = place;
            place += insert.length;
            if self.out.is_splittable() {
                self.unit(&[insert], texts, insert.place..place)?;
            } else {
                self.out.append(&texts[insert.place..place])?;
            }
        }
        Ok(())
    }

    /// Takes the event of a record with the texts before it: what goes into one part.
    fn unit(
        &mut self,
        inserts: &[Insert],
        texts: &[u8],
        range: Range<usize>,
    ) -> Result<(), ExportError> {
        if range.is_empty() {
            return Ok(());
        }
        let waits = self.waits_before(self.stitched + 1);
        if self.out.is_full(self.until_end(range.len(), waits)) {
            if self.has_events {
                self.split()?;
            }
            let needed = self.until_end(range.len(), waits);
            if self.out.is_full(needed) {
                return Err(self.out.too_small(needed));
            }
        }
        self.has_events = true;
        let mut from = range.start;
        for insert in inserts {
            let place = insert.place..insert.place + insert.length;
            if let Some(other) = self.take_insert(insert.what, &texts[place.clone()]) {
                self.out.append(&texts[from..place.start])?;
                self.out.append(&other)?;
                from = place.end;
            }
        }
        self.out.append(&texts[from..range.end])
    }

    /// Takes note of a text that is about to be written, and gives another one where it cannot stand as it is.
    fn take_insert(&mut self, what: What, text: &[u8]) -> Option<Vec<u8>> {
        match what {
            What::Definition => self.definitions.extend_from_slice(text),
            What::End => {
                let Waited {
                    process,
                    end,
                    works,
                } = self.ends.pop_front()?;
                let cut = &mut self.closings[process].cut;
                if end.call < self.part_first {
                    // It stands in the part of its call.
                    cut.waits += works.len() as u64;
                    return Some(Vec::new());
                }
                self.open.retain(|open| open.call != end.call);
                if works.iter().any(|work| work.1 < self.part_first) {
                    let here = works.iter().filter(|work| work.1 >= self.part_first);
                    let ids: Vec<u64> = here.map(|work| work.0).collect();
                    cut.waits += (works.len() - ids.len()) as u64;
                    let mut other = Vec::new();
                    end_packet(&mut other, &end, &ids);
                    return Some(other);
                }
            }
            What::Event | What::Arrow(_) => {}
        }
        None
    }

    /// Takes note of what the records before this one mean for later parts.
    fn settle(&mut self, until: u64) {
        while let Some((_, news)) = self.news.pop_front_if(|(record, _)| *record < until) {
            match news {
                News::Name(text) => self.definitions.extend_from_slice(&text),
                News::Wait(wait) => self.open.push(wait),
                News::Early(process, works) => {
                    let before = works.iter().filter(|&&work| work < self.part_first);
                    self.closings[process].cut.arrows += before.count() as u64;
                }
            }
        }
    }

    /// Counts the arrow to work whose call lies in an earlier part.
    #[inline]
    fn count_arrows(&mut self, item: &Item<'_>, decision: &Decision) {
        let Some(calls) = &mut self.calls else { return };
        let calls = &mut calls[item.process()];
        match *decision {
            Decision::Host(host) if host.count > 0 => calls.insert(item.record.correlation_id()),
            Decision::Kernel { link, target, .. } | Decision::Copy { link, target, .. } => {
                let is_cut = link == Link::After && !calls.contains(target);
                self.closings[item.process()].cut.arrows += u64::from(is_cut);
            }
            _ => {}
        }
    }
}
