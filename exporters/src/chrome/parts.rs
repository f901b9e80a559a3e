//! Parts of an export to Chrome JSON: files below a size limit, each of which loads by itself.
//!
//! Every part begins with the same keys, with the rows that name what came up in the parts before it, and with the notes of
//! quality that still last (see [`crate::notes`]). It ends with the completeness report, which says which part it is: the next
//! one's name, or how many there are. A file that needs no second part has the same bytes with any limit.
//!
//! An event lies in one part, whole; an arrow is drawn where its call and its work lie in one part. Those that are left out
//! are counted, and each part's report has the count.

use std::path::PathBuf;

use crate::completeness::{Completeness, Place};
use crate::export::{ExportError, ExportReport};
use crate::join::Ids;
use crate::model::Model;
use crate::notes::Notes;
use crate::out::Output;
use crate::pipeline::{Chunk, Insert, What};
use crate::text::push_string;

use super::ends;
use super::format::target;
use super::{ARROW, BY_ANCESTOR, Decision, LINKED};

/// Room for the last lines of a part beside its completeness report and names: their keys.
const PART_END_BYTES: usize = 64;

/// The files of an export.
#[derive(Debug)]
pub(super) struct Parts<'o> {
    out: Output<'o>,
    /// Everything before the first row of a part.
    header: Vec<u8>,
    /// Rows that name processes, threads and streams, each with `,\n` before it.
    rows: Vec<u8>,
    completeness: Completeness,
    /// What a part says at its end, at most.
    end_bytes: usize,
    notes: Notes,
    processes: usize,
    /// By process: calls with an `s` in this part, when it is not the first.
    launched: Option<Vec<Ids>>,
    /// Records that were stitched, and that lie in earlier parts.
    stitched: u64,
    part_first: u64,
    /// Start of the newest record.
    now: u64,
    has_events: bool,
    /// Arrows whose later end lies in this part, and their other one in an earlier part; and those of the parts before it.
    cut: u64,
    cut_before: u64,
}

impl<'o> Parts<'o> {
    /// Writes the beginning of the first part.
    pub(super) fn begin(
        model: &Model<'_>,
        base_ns: u64,
        report: &ExportReport,
        out: Output<'o>,
    ) -> Result<Self, ExportError> {
        let mut notes = Notes::default();
        for process in &model.processes {
            notes.add(process, |out, placed| {
                ends::note(out, process.pid, base_ns, placed);
            });
        }
        let completeness = Completeness::new(model, report);
        // A name's byte takes six at most; it stands there twice.
        let names_bytes = 2 * 6 * out.longest_part_name().len();
        let mut parts = Self {
            end_bytes: PART_END_BYTES + names_bytes + completeness.bytes_max(),
            out,
            header: ends::header(model, base_ns),
            rows: ends::first_rows(model),
            completeness,
            notes,
            processes: model.processes.len(),
            launched: None,
            stitched: 0,
            part_first: 0,
            now: 0,
            has_events: false,
            cut: 0,
            cut_before: 0,
        };
        parts.begin_part()?;
        Ok(parts)
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.out.bytes()
    }

    /// Arrows whose ends lie in two parts, so far.
    pub(super) fn cut_arrows(&self) -> u64 {
        self.cut_before + self.cut
    }

    /// What this part still has to say at its end, at most, behind `more` bytes.
    fn until_end(&self, more: usize) -> usize {
        more + self.end_bytes + self.notes.waiting_bytes()
    }

    fn begin_part(&mut self) -> Result<(), ExportError> {
        self.out.append(&self.header)?;
        self.out.append(self.rows.get(2..).unwrap_or_default())?;
        self.out.append(&self.notes.lasting(self.now))?;
        self.has_events = false;
        self.out.check_repeated(self.until_end(0))
    }

    /// The last lines of a part; `drawn`: it is the last one.
    fn end_part(&mut self, drawn: Option<&ExportReport>) -> Result<(), ExportError> {
        let next = self.out.next_part_name();
        let place = Place {
            number: self.out.part_number(),
            next: drawn.is_none().then_some(&next),
            cut_arrows: self.cut,
        };
        let mut text = b"\n],\n\"strandline\":".to_vec();
        self.completeness.push(&mut text, &place, drawn);
        text.extend_from_slice(b",\n\"traceName\":");
        push_string(&mut text, self.out.part_name().as_bytes());
        text.extend_from_slice(b"}\n");
        self.out.append(&text)
    }

    /// Ends this part between two events, and begins the next one, which has room for `more` bytes.
    #[cold]
    fn split(&mut self, more: usize) -> Result<(), ExportError> {
        if self.has_events {
            self.out.append(&self.notes.begun(self.now))?;
            self.end_part(None)?;
            self.out.next_part()?;
            self.cut_before += std::mem::take(&mut self.cut);
            self.part_first = self.stitched;
            let processes = 0..self.processes;
            self.launched = Some(processes.map(|_| Ids::default()).collect());
            self.begin_part()?;
        }
        if self.out.is_full(self.until_end(more)) {
            return Err(self.out.too_small(self.until_end(more)));
        }
        Ok(())
    }

    /// Takes the next chunk in order.
    pub(super) fn stitch(&mut self, chunk: &mut Chunk<'_, Decision>) -> Result<(), ExportError> {
        if !self.out.is_splittable() {
            return self.out.give(chunk.bytes.finish());
        }
        if self.launched.is_some() || self.out.is_full(self.until_end(chunk.bytes.place())) {
            return self.stitch_events(chunk);
        }
        for insert in chunk.inserts() {
            self.keep_row(insert, chunk.bytes.as_bytes());
        }
        self.stitched += chunk.items.len() as u64;
        self.now = chunk.items.last().map_or(self.now, |item| item.place.start);
        self.has_events |= chunk.bytes.place() > 0;
        self.out.give(chunk.bytes.finish())
    }

    /// Takes a chunk event by event: there may be a part's end in it, or arrows from an earlier part.
    fn stitch_events(&mut self, chunk: &Chunk<'_, Decision>) -> Result<(), ExportError> {
        let bytes = chunk.bytes.as_bytes();
        let mut inserts = chunk.inserts();
        // What lies before these is written, or taken note of.
        let (mut written, mut from) = (0, 0);
        for (at, (item, decision)) in chunk.items.iter().zip(&chunk.decisions).enumerate() {
            let own = inserts.iter().take_while(|insert| insert.before == at);
            let (own, rest) = inserts.split_at(own.count());
            // The ends of a call's arrows stay with the call.
            let ends = rest
                .iter()
                .take_while(|one| one.before == at + 1 && matches!(one.what, What::Arrow(_)));
            let (ends, rest) = rest.split_at(ends.count());
            let border = chunk.borders[at];
            let to = ends.last().map_or(border, |end| end.place + end.length);
            self.make_room(&mut written, from, to, bytes)?;
            for insert in own {
                self.keep_row(insert, bytes);
            }
            self.stitched += 1;
            self.now = item.place.start;
            if decision.flags & ARROW != 0
                && let Some(launched) = &mut self.launched
            {
                let launched = &mut launched[item.process()];
                if decision.flags & (LINKED | BY_ANCESTOR) == 0 {
                    launched.insert(item.record.correlation_id());
                } else if !launched.contains(target(&item.record, decision.flags)) {
                    // The call lies in an earlier part. The arrow is the last line of the event.
                    let event = &bytes[written..border];
                    let line = event.iter().rposition(|&byte| byte == b'\n');
                    let line = line.map_or(event.len(), |at| at.saturating_sub(1));
                    self.out.append(&event[..line])?;
                    written = border;
                    self.cut += 1;
                }
            }
            for end in ends {
                if let What::Arrow(work) = end.what
                    && work < self.part_first
                {
                    // The work lies in an earlier part.
                    self.out.append(&bytes[written..end.place])?;
                    written = end.place + end.length;
                    self.cut += 1;
                }
            }
            (inserts, from) = (rest, to);
        }
        self.out.append(&bytes[written..])
    }

    /// Begins another part at `from` if this one has no room for what lies before `to`.
    fn make_room(
        &mut self,
        written: &mut usize,
        from: usize,
        to: usize,
        bytes: &[u8],
    ) -> Result<(), ExportError> {
        if from == to {
            return Ok(());
        }
        if self.out.is_full(self.until_end(to - *written)) {
            self.out.append(&bytes[*written..from])?;
            *written = from;
            self.split(to - from)?;
        }
        self.has_events = true;
        Ok(())
    }

    /// Keeps a row for later parts.
    fn keep_row(&mut self, insert: &Insert, bytes: &[u8]) {
        if insert.what == What::Definition {
            let row = insert.place..insert.place + insert.length;
            self.rows.extend_from_slice(&bytes[row]);
        }
    }

    /// Takes texts that belong to no record, behind all records.
    pub(super) fn add_inserts(
        &mut self,
        inserts: Vec<Insert>,
        texts: &[u8],
    ) -> Result<(), ExportError> {
        let (mut place, mut written) = (0, 0);
        for mut insert in inserts {
            insert.place = place;
            place += insert.length;
            self.make_room(&mut written, insert.place, place, texts)?;
            self.keep_row(&insert, texts);
        }
        self.out.append(&texts[written..])
    }

    /// Writes what the trace says of a process's quality, behind its last event.
    pub(super) fn end_process(&mut self, process: usize) -> Result<(), ExportError> {
        let mut note = Vec::new();
        while self.notes.next(process, u64::MAX, &mut note) {
            self.make_room(&mut 0, 0, note.len(), &note)?;
            self.out.append(&note)?;
            note.clear();
        }
        Ok(())
    }

    /// Ends the last part and names the files. Call after [`Parts::end_process`] of each process.
    pub(super) fn commit(
        mut self,
        report: &ExportReport,
    ) -> Result<(Vec<PathBuf>, u64), ExportError> {
        self.end_part(Some(report))?;
        self.out.commit()
    }
}
