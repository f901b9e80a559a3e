//! A compact copy of a region: the same header, the same records and facts, and none of the space that nobody used.
//!
//! Segments that hold something are copied with their published cells, in the order in which they lie; the lane table and
//! the words that change while a process lives are copied as they stand. With a session given, records and facts of other
//! sessions are left out.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use strandline::header::Header;
use strandline::limits::{CELL_WORDS, HEADER_BYTES, LANE_BYTES, SEGMENT_ENTRY_BYTES};
use strandline::record::{Kind, Record};
use strandline::segment_entry::{SegmentKind, SegmentState, StateWord};
use strandline::{Trace, hash, report};

use crate::export::{ExportError, ExportReport, Format, Options, Progress};
use crate::out::Output;

/// The header's words that change later, bytes; no checksum covers them.
const CHANGING: std::ops::Range<usize> = 256..1024;
/// Words of a segment table entry, see `strandline::segment_entry`.
const ENTRY_WORDS: usize = SEGMENT_ENTRY_BYTES / 8;
const STATE: usize = 0;
const COMMITTED: usize = 1;
const CHECKSUM: usize = 6;
const CHECKED_CELLS: usize = 7;

/// Copies the region of `trace` to `out`.
pub(crate) fn copy(
    trace: &Trace,
    out: &Path,
    options: &Options<'_>,
) -> Result<ExportReport, ExportError> {
    let mut sessions = report::sessions(trace);
    if let Some(session) = options.session {
        sessions.retain(|report| report.id == session);
        if sessions.is_empty() {
            return Err(ExportError::NoSession { session });
        }
    }
    let reading = |error| ExportError::Io {
        doing: "reading",
        path: trace.path().to_owned(),
        error,
    };
    let source = File::open(trace.path()).map_err(reading)?;
    let header = trace.header();
    let kept = kept_segments(&source, header).map_err(reading)?;
    let mut output = Output::file(out, Format::Region, options)?;

    let mut compact = header.clone();
    compact.segment_count = kept.len() as u32;
    compact.lane_table_offset = HEADER_BYTES as u64;
    compact.segment_table_offset =
        compact.lane_table_offset + u64::from(header.lane_count) * LANE_BYTES as u64;
    compact.segments_offset = (compact.segment_table_offset
        + (kept.len() * SEGMENT_ENTRY_BYTES) as u64)
        .next_multiple_of(4096);
    compact.region_bytes = compact.segment_offset(compact.segment_count);

    let mut head = compact.encode();
    source
        .read_exact_at(&mut head[CHANGING], CHANGING.start as u64)
        .map_err(reading)?;
    output.block.extend_from_slice(&head[..]);
    let mut page = vec![0u8; LANE_BYTES];
    for lane in 0..u64::from(header.lane_count) {
        let at = header.lane_table_offset + lane * LANE_BYTES as u64;
        read_or_zero(&source, &mut page, at).map_err(reading)?;
        output.block.extend_from_slice(&page);
        output.flow()?;
    }

    // Two passes over the segments: their entries lie before all of them.
    let mut words = vec![0u64; header.segment_cells() * CELL_WORDS];
    let mut totals = Vec::with_capacity(kept.len());
    for segment in &kept {
        let cells =
            read_segment(&source, header, segment, options.session, &mut words).map_err(reading)?;
        let mut entry = segment.entry;
        entry[COMMITTED] = cells as u64;
        let whole = cells == segment.cells;
        if !whole || entry[CHECKED_CELLS] as usize > cells {
            let sealed = entry[CHECKSUM] != 0 && cells > 0;
            entry[CHECKSUM] = if sealed {
                hash::words(words[..cells * CELL_WORDS].iter().copied())
            } else {
                0
            };
            entry[CHECKED_CELLS] = if sealed { cells as u64 } else { 0 };
        }
        for word in entry {
            output.block.extend_from_slice(&word.to_le_bytes());
        }
        totals.push(cells);
        output.flow()?;
    }
    let padding = compact.segments_offset
        - compact.segment_table_offset
        - (kept.len() * SEGMENT_ENTRY_BYTES) as u64;
    output
        .block
        .extend(std::iter::repeat_n(0u8, padding as usize));
    for (at, (segment, &total)) in kept.iter().zip(&totals).enumerate() {
        // A live region may have grown since the first pass: what was counted then is what is copied.
        let cells = read_segment(&source, header, segment, options.session, &mut words)
            .map_err(reading)?
            .min(total);
        for word in &words[..cells * CELL_WORDS] {
            output.block.extend_from_slice(&word.to_le_bytes());
        }
        let rest = header.segment_bytes as usize - cells * CELL_WORDS * 8;
        output.block.extend(std::iter::repeat_n(0u8, rest));
        output.flow()?;
        if let Some(progress) = options.progress {
            progress(Progress {
                records: at as u64 + 1,
                records_total: kept.len() as u64,
                bytes: output.bytes(),
            });
        }
    }
    let (files, bytes) = output.commit()?;
    let takes = |record: &Record<'_>| {
        options
            .session
            .is_none_or(|session| u64::from(record.session()) == session)
    };
    let mut out_report = ExportReport {
        files,
        bytes,
        damage: trace.damage().len(),
        sessions,
        ..ExportReport::default()
    };
    for entry in trace.entries().filter(|entry| takes(&entry.record)) {
        out_report.records += 1;
        match entry.record.kind() {
            Some(Kind::Api) => out_report.calls += 1,
            Some(Kind::Dispatch) => out_report.kernels += 1,
            Some(Kind::Copy) => out_report.copies += 1,
            Some(Kind::Range) => out_report.ranges += 1,
            Some(Kind::Mark | Kind::Alloc | Kind::Scratch) => out_report.instants += 1,
            _ => {}
        }
    }
    Ok(out_report)
}

struct Segment {
    index: u32,
    entry: [u64; ENTRY_WORDS],
    cells: usize,
    kind: SegmentKind,
}

fn read_or_zero(source: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    buffer.fill(0);
    let mut done = 0;
    while done < buffer.len() {
        match source.read_at(&mut buffer[done..], at + done as u64) {
            // A file cut short: the rest reads as nothing.
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The segments that hold something that is sound, in order.
fn kept_segments(source: &File, header: &Header) -> io::Result<Vec<Segment>> {
    let mut kept = Vec::new();
    let mut bytes = [0u8; SEGMENT_ENTRY_BYTES];
    for index in 0..header.segment_count {
        let at = header.segment_table_offset + u64::from(index) * SEGMENT_ENTRY_BYTES as u64;
        read_or_zero(source, &mut bytes, at)?;
        let mut entry = [0u64; ENTRY_WORDS];
        for (word, eight) in entry.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*eight);
        }
        let Some(state) = StateWord::unpack(entry[STATE]) else {
            continue;
        };
        let cells = entry[COMMITTED] as usize;
        if state.state == SegmentState::Free
            || entry[COMMITTED] == 0
            || entry[COMMITTED] > header.segment_cells() as u64
            || u32::from(state.lane) >= header.lane_count
        {
            continue;
        }
        kept.push(Segment {
            index,
            entry,
            cells,
            kind: state.kind,
        });
    }
    Ok(kept)
}

/// Reads a segment's published cells, those of the session only if one is given; returns how many there are.
fn read_segment(
    source: &File,
    header: &Header,
    segment: &Segment,
    session: Option<u64>,
    words: &mut [u64],
) -> io::Result<usize> {
    let mut bytes = vec![0u8; segment.cells * CELL_WORDS * 8];
    let at = header.segment_offset(segment.index);
    read_or_zero(source, &mut bytes, at)?;
    let total = segment.cells * CELL_WORDS;
    for (word, eight) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*eight);
    }
    let Some(session) = session else {
        return Ok(segment.cells);
    };
    let (mut from, mut to) = (0, 0);
    while from < total {
        let Ok(record) = Record::parse(&words[from..total]) else {
            break;
        };
        let length = record.words().len();
        let of_session = match segment.kind {
            SegmentKind::Records => {
                record.kind() == Some(Kind::Thread) || u64::from(record.session()) == session
            }
            SegmentKind::Sticky => match record.kind() {
                Some(Kind::SessionBegin | Kind::SessionEnd) => record.word(1) == session,
                Some(Kind::Retired) => record.word(4) == session,
                Some(Kind::OpenCall | Kind::OpenRange) => u64::from(record.session()) == session,
                _ => true,
            },
            SegmentKind::Blob => true,
        };
        if of_session {
            words.copy_within(from..from + length, to);
            to += length;
        }
        from += length;
    }
    Ok(to / CELL_WORDS)
}
