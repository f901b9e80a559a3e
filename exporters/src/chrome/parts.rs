//! Parts of an export to Chrome JSON: files below a size limit, each of which loads by itself.
//!
//! Every part begins with the same keys and with the rows that name what came up in the parts before it. An event lies in
//! one part, whole; an arrow, where its call and its work lie in one part.

use crate::export::ExportError;
use crate::join::Ids;
use crate::pipeline::{Chunk, Insert, What};
use crate::text::push_string;

use super::format::target;
use super::{ARROW, BY_ANCESTOR, Chrome, Decision, LINKED};

/// Room kept free in a part for its last lines.
const PART_END_BYTES: u64 = 64 << 10;

impl Chrome<'_> {
    pub(super) fn begin_part(&mut self) -> Result<(), ExportError> {
        self.out.append(&self.header)?;
        self.out.append(self.rows.get(2..).unwrap_or_default())
    }

    pub(super) fn end_part(&mut self, object: &[u8]) -> Result<(), ExportError> {
        let mut text = b"\n],\n\"strandline\":".to_vec();
        text.extend_from_slice(object);
        text.extend_from_slice(b",\n\"traceName\":");
        push_string(&mut text, self.out.part_name().as_bytes());
        text.extend_from_slice(b"}\n");
        self.out.append(&text)
    }

    /// True when a part with `more` bytes more has no room left.
    pub(super) fn is_full(&self, more: usize) -> bool {
        self.out.is_splittable()
            && self.out.part_bytes() + more as u64 + PART_END_BYTES > self.part_bytes_max
    }

    /// Between events: begins another part if this one holds more than what every part does.
    #[cold]
    pub(super) fn split(&mut self) -> Result<(), ExportError> {
        let least = (self.header.len() + self.rows.len() + self.part_end.len()) as u64;
        if self.out.part_bytes() < least + PART_END_BYTES {
            return Err(ExportError::PartSize {
                bytes_max: self.part_bytes_max,
                needed: least + 2 * PART_END_BYTES,
            });
        }
        let object = std::mem::take(&mut self.part_end);
        self.end_part(&object)?;
        self.part_end = object;
        self.out.next_part()?;
        self.part_first = self.stitched;
        self.part_launched = Some(self.states.iter().map(|_| Ids::default()).collect());
        self.begin_part()
    }

    /// Takes a chunk event by event: there may be a part's end in it, or arrows from an earlier part.
    pub(super) fn stitch_events(&mut self, chunk: &Chunk<'_, Decision>) -> Result<(), ExportError> {
        let bytes = chunk.bytes.as_bytes();
        let mut inserts = chunk.inserts().iter().peekable();
        // What lies before this is written.
        let mut written = 0;
        for (at, (item, decision)) in chunk.items.iter().zip(&chunk.decisions).enumerate() {
            while let Some(insert) = inserts.next_if(|insert| insert.before == at) {
                self.stitch_insert(insert, &mut written, bytes)?;
            }
            self.stitched += 1;
            let end = chunk.borders[at];
            if decision.flags & ARROW != 0
                && let Some(launched) = &mut self.part_launched
            {
                let launched = &mut launched[item.process()];
                if decision.flags & (LINKED | BY_ANCESTOR) == 0 {
                    launched.insert(item.record.correlation_id());
                } else if !launched.contains(target(&item.record, decision.flags)) {
                    // The call lies in an earlier part. The arrow is the last line of the event.
                    let event = &bytes[written..end];
                    let line = event.iter().rposition(|&byte| byte == b'\n');
                    let line = line.map_or(event.len(), |at| at.saturating_sub(1));
                    self.out.append(&event[..line])?;
                    written = end;
                    self.report.arrows -= 1;
                }
            }
            if self.is_full(end - written) {
                self.out.append(&bytes[written..end])?;
                written = end;
                self.split()?;
            }
        }
        for insert in inserts {
            self.stitch_insert(insert, &mut written, bytes)?;
        }
        self.out.append(&bytes[written..])
    }

    fn stitch_insert(
        &mut self,
        insert: &Insert,
        written: &mut usize,
        bytes: &[u8],
    ) -> Result<(), ExportError> {
        self.add_row(insert.what, insert.place, insert.length, bytes);
        if let What::Arrow(number) = insert.what
            && number < self.part_first
        {
            // The work lies in an earlier part.
            self.out.append(&bytes[*written..insert.place])?;
            *written = insert.place + insert.length;
            self.report.arrows -= 1;
        }
        Ok(())
    }

    /// Keeps a row for later parts.
    pub(super) fn add_row(&mut self, what: What, place: usize, length: usize, bytes: &[u8]) {
        if what == What::Definition {
            self.rows.extend_from_slice(&bytes[place..place + length]);
        }
    }

    pub(super) fn append_event(&mut self, text: &[u8]) -> Result<(), ExportError> {
        self.out.append(text)?;
        if self.is_full(0) {
            self.split()?;
        }
        Ok(())
    }
}
