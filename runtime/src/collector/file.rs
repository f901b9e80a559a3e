//! The file that a stream goes to: a region in the same format, in which segments are never reused, so that any reader
//! of a region reads it, also while it grows.
//!
//! | step | what is written | a reader that comes after it, or after the process died there, sees |
//! |---|---|---|
//! | 1 | cells of a segment, at the next free place, or behind those that are there | nothing of it |
//! | 2 | its entry, with the count of cells and, once it is sealed, a checksum | the cells, once step 3 was made for its place |
//! | 3 | the header, with the number of places | all segments so far |
//!
//! The segment table has room for [`SEGMENT_COUNT_MAX`] entries; what is not used of it is a hole of the file (128 MiB
//! that take no space; `strandline export IN -o OUT.slt` makes a copy without it). When it is full, and when the disk is,
//! nothing more is taken: the region fills up, and what does not fit there is counted.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::hash;
use crate::header::{FEATURE_STREAM_OUTPUT, Header, PHASE_OFFSET};
use crate::limits::{
    CELL_BYTES, CELL_WORDS, HEADER_BYTES, LANE_BYTES, SEGMENT_COUNT_MAX, SEGMENT_ENTRY_BYTES,
};
use crate::map::ReadMap;
use crate::record::high;
use crate::region::{self, Region};
use crate::segment_entry::{SegmentState, StateWord, word};
use crate::sync::Ordering;

/// The header's words that change while a process lives, bytes; no checksum covers them.
const CHANGING: std::ops::Range<usize> = PHASE_OFFSET..1024;
/// Words of an entry that mean something.
const ENTRY_WORDS: usize = 8;

/// Where a segment lies in the file.
#[derive(Clone, Copy, Debug)]
struct Place {
    index: u32,
    generation: u32,
    cells: usize,
    sealed: bool,
}

/// The file, and what it holds of the segments of the region.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    path: PathBuf,
    header: Header,
    /// The newest place of each segment of the region.
    places: HashMap<u32, Place>,
    /// Whether the header has the number of places.
    header_is_new: bool,
}

impl OutputFile {
    /// Makes the file for the region with that header. Nothing is overwritten: see [`region::create_file`].
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn create(path: &Path, of: &Header) -> io::Result<Self> {
        let (file, path) = region::create_file(path, of.pid)?;
        let path = std::path::absolute(&path).unwrap_or(path);
        let mut header = of.clone();
        header.features_may_ignore |= FEATURE_STREAM_OUTPUT;
        header.lane_table_offset = HEADER_BYTES as u64;
        header.segment_table_offset =
            header.lane_table_offset + u64::from(header.lane_count) * LANE_BYTES as u64;
        header.segments_offset = (header.segment_table_offset
            + (SEGMENT_COUNT_MAX * SEGMENT_ENTRY_BYTES) as u64)
            .next_multiple_of(4096);
        header.segment_count = 0;
        header.region_bytes = header.segments_offset;
        let made = region::within_file_limit(header.region_bytes)
            .and_then(|()| file.set_len(header.region_bytes))
            .and_then(|()| file.write_all_at(&header.encode()[..], 0));
        if let Err(error) = made {
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        Ok(Self {
            file,
            path,
            header,
            places: HashMap::new(),
            header_is_new: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what a segment had published when it was looked at, and the file lacks. For the collector, under its lock:
    /// nobody frees the segment meanwhile.
    ///
    /// # Errors
    /// What the system said; or that the table is full, or that the process may not make files so large. What is in the
    /// file stays sound.
    pub(super) fn write_segment(&mut self, region: &Region, head: &Head) -> io::Result<()> {
        // SAFETY: published cells are never written again until the segment is freed (the caller), and lie within the
        // mapping, which is never unmapped.
        let words = unsafe {
            std::slice::from_raw_parts(region.cells(head.segment), head.cells * CELL_WORDS)
        };
        let mut entry = [0; ENTRY_WORDS];
        for (index, into) in entry.iter_mut().enumerate() {
            *into = region.entry(head.segment, index).load(Ordering::Relaxed);
        }
        self.write(head.segment, head.state, words, entry)
    }

    /// Writes what the file lacks of a segment that holds `words`.
    fn write(
        &mut self,
        segment: u32,
        state: StateWord,
        words: &[u64],
        mut entry: [u64; ENTRY_WORDS],
    ) -> io::Result<()> {
        let sealed = state.state == SegmentState::Sealed;
        let cells = words.len() / CELL_WORDS;
        let known = self.places.get(&segment).copied();
        let known = known.filter(|place| place.generation == state.generation);
        if cells == 0 || known.is_some_and(|place| place.cells == cells && place.sealed == sealed) {
            return Ok(());
        }
        let mut place = match known {
            Some(place) => place,
            None => {
                let place = self.next_place(state.generation)?;
                // Known from now on: what fails below is tried again at the same place.
                self.places.insert(segment, place);
                place
            }
        };
        let at = self.header.segment_offset(place.index);
        let new = &words[place.cells * CELL_WORDS..];
        self.file
            .write_all_at(bytes_of(new), at + (place.cells * CELL_BYTES) as u64)?;
        entry[word::STATE] = state.pack();
        entry[word::COMMITTED] = cells as u64;
        (entry[word::CHECKSUM], entry[word::CHECKED_CELLS]) = if sealed {
            (hash::words(words.iter().copied()), cells as u64)
        } else {
            (0, 0)
        };
        let at =
            self.header.segment_table_offset + u64::from(place.index) * SEGMENT_ENTRY_BYTES as u64;
        self.file.write_all_at(bytes_of(&entry), at)?;
        (place.cells, place.sealed) = (cells, sealed);
        self.places.insert(segment, place);
        Ok(())
    }

    fn next_place(&mut self, generation: u32) -> io::Result<Place> {
        let index = self.header.segment_count;
        if index as usize >= SEGMENT_COUNT_MAX {
            return Err(io::Error::other(format!(
                "{} has {SEGMENT_COUNT_MAX} segments, a region holds no more",
                self.path.display()
            )));
        }
        let bytes = self.header.segment_offset(index + 1);
        region::within_file_limit(bytes)?;
        self.file.set_len(bytes)?;
        self.header.region_bytes = bytes;
        self.header.segment_count = index + 1;
        self.header_is_new = true;
        Ok(Place {
            index,
            generation,
            cells: 0,
            sealed: false,
        })
    }

    /// Writes the lane table.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn write_lanes(&mut self, lanes: &[u64]) -> io::Result<()> {
        self.file
            .write_all_at(bytes_of(lanes), self.header.lane_table_offset)
    }

    /// Writes the header, with the number of segments and the words that change.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn write_header(&mut self, region: &Region) -> io::Result<()> {
        let changing: Vec<u64> = CHANGING
            .step_by(8)
            // ORD(copy): Relaxed. Counters and marks: each word stands for itself.
            .map(|offset| region.word(offset).load(Ordering::Relaxed))
            .collect();
        self.write_header_with(&changing)
    }

    fn write_header_with(&mut self, changing: &[u64]) -> io::Result<()> {
        if self.header_is_new {
            let bytes = self.header.encode();
            self.file.write_all_at(&bytes[..CHANGING.start], 0)?;
            self.header_is_new = false;
        }
        self.file
            .write_all_at(bytes_of(changing), CHANGING.start as u64)
    }
}

/// How far a segment is published, at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) segment: u32,
    pub(super) state: StateWord,
    cells: usize,
}

impl Head {
    /// Looks at a segment; `None`: it is free.
    pub(super) fn of(region: &Region, segment: u32) -> Option<Self> {
        // ORD(seal), ORD(claim): Acquire. Pairs with the Release stores in `Region::seal` and `Region::open`. Before the
        // head, so that "sealed" means that the head is final.
        let state = StateWord::unpack(region.entry(segment, word::STATE).load(Ordering::Acquire))?;
        // ORD(publish): Acquire. Pairs with the Release store in `handover::publish`.
        let committed = region
            .entry(segment, word::COMMITTED)
            .load(Ordering::Acquire);
        (state.state != SegmentState::Free).then_some(Self {
            segment,
            state,
            cells: (committed as usize).min(region.segment_cells()),
        })
    }
}

/// The lane table as it is now.
pub(super) fn lane_table(region: &Region) -> Vec<u64> {
    (0..region.header().lane_count as usize)
        // ORD(copy): Relaxed. Counters and marks: each word stands for itself.
        .flat_map(|lane| {
            region
                .lane_header(lane)
                .iter()
                .map(|word| word.load(Ordering::Relaxed))
        })
        .collect()
}

fn bytes_of(words: &[u64]) -> &[u8] {
    const {
        assert!(
            cfg!(target_endian = "little"),
            "the format is little-endian"
        )
    };
    // SAFETY: any initialized words are initialized bytes; the length is that of the words.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Finishes the file of a stream whose process died: brings what its live region holds and the file lacks into the file.
/// Returns how many segments it brought. Doing it twice brings nothing twice.
///
/// `region` is the live region's file, `output` the stream's. The process must be gone.
///
/// # Errors
/// What the system said, or that the two are not of one process: then nothing was written.
pub fn finish(region: &Path, output: &Path) -> io::Result<u64> {
    let open = |path: &Path, write: bool| -> io::Result<(File, ReadMap, Header)> {
        let file = OpenOptions::new().read(true).write(write).open(path)?;
        let map = ReadMap::file(&file)?;
        let header = Header::decode(map.bytes(), map.bytes().len() as u64)
            .map_err(|error| io::Error::other(format!("reading {}: {error}", path.display())))?;
        Ok((file, map, header))
    };
    let (_, live, from) = open(region, false)?;
    let (file, known, header) = open(output, true)?;
    let process = |header: &Header| {
        let process = (header.pid, header.process_start_ns, header.host_hash);
        (process, header.segment_bytes)
    };
    if process(&from) != process(&header) || !header.is_stream_output() {
        return Err(io::Error::other(format!(
            "{} is not what {} was streamed to",
            output.display(),
            region.display()
        )));
    }
    // What the file has, by lane and sequence: the table may be ahead of the header's count.
    let mut held = HashMap::new();
    let mut count = 0;
    for index in 0..SEGMENT_COUNT_MAX as u32 {
        let (state, entry) = entry_of(&known, &header, index);
        let Some(state) = state.filter(|_| entry[word::COMMITTED] != 0) else {
            break;
        };
        count = index + 1;
        held.insert(
            (state.lane, high(entry[word::ORIGIN])),
            (index, entry[word::COMMITTED] as usize, state.state),
        );
    }
    let mut stream = OutputFile {
        file,
        path: output.to_owned(),
        places: HashMap::new(),
        header_is_new: true,
        header,
    };
    stream.header.segment_count = count;
    stream.header.region_bytes = stream.header.segment_offset(count);
    let mut brought = 0;
    for segment in 0..from.segment_count {
        let (state, entry) = entry_of(&live, &from, segment);
        let cells = (entry[word::COMMITTED] as usize).min(from.segment_cells());
        let Some(state) = state.filter(|state| state.state != SegmentState::Free && cells > 0)
        else {
            continue;
        };
        let at = from.segment_offset(segment) as usize;
        let words = live.words(at, cells * CELL_WORDS);
        if let Some(&(index, cells, was)) = held.get(&(state.lane, high(entry[word::ORIGIN]))) {
            stream.places.insert(
                segment,
                Place {
                    index,
                    generation: state.generation,
                    cells: cells.min(words.len() / CELL_WORDS),
                    sealed: was == SegmentState::Sealed,
                },
            );
            brought += u64::from(cells < words.len() / CELL_WORDS);
        } else {
            brought += 1;
        }
        stream.write(segment, state, words, entry)?;
    }
    let lanes = from.lane_count as usize * LANE_BYTES / 8;
    stream.write_lanes(live.words(from.lane_table_offset as usize, lanes))?;
    stream.write_header_with(live.words(CHANGING.start, CHANGING.len() / 8))?;
    Ok(brought)
}

fn entry_of(map: &ReadMap, header: &Header, index: u32) -> (Option<StateWord>, [u64; ENTRY_WORDS]) {
    let at = header.segment_table_offset as usize + index as usize * SEGMENT_ENTRY_BYTES;
    let mut entry = [0; ENTRY_WORDS];
    for (word, &value) in entry.iter_mut().zip(map.words(at, ENTRY_WORDS)) {
        *word = value;
    }
    (StateWord::unpack(entry[word::STATE]), entry)
}
