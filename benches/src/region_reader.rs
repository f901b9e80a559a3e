//! A reader of a live region, as another process would be: it maps the file and follows the published heads.
//!
//! It looks only at what a head has published, and reads each cell once. Where segments are reused (flight mode) it must
//! keep up: a segment that was reused while it was read is an error here.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use strandline::header::{Header, Mode};
use strandline::limits::{CELL_WORDS, SEGMENT_ENTRY_BYTES};
use strandline::record::{Kind, Record};

/// Free entries after the last used one that are still looked at: claims come nearly in order.
const FREE_RUN: usize = 64;

/// How far a segment was read.
#[derive(Debug, Default)]
struct Progress {
    /// Generation, and cells read of it, by segment.
    read: Vec<(u64, usize)>,
    /// All segments below are read to their end, and stay as they are.
    first: usize,
}

/// The mapped region.
#[derive(Debug)]
pub struct RegionReader {
    base: *const u8,
    bytes: usize,
    header: Header,
    progress: Mutex<Progress>,
}

// SAFETY: the mapping is read-only and lives as long as the value; what writers change is read atomically.
unsafe impl Send for RegionReader {}
// SAFETY: as above.
unsafe impl Sync for RegionReader {}

impl Drop for RegionReader {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`.
        unsafe { libc::munmap(self.base.cast_mut().cast(), self.bytes) };
    }
}

impl RegionReader {
    /// Maps the region.
    pub fn open(file: &File) -> Result<Self, String> {
        let bytes = file.metadata().map_err(|error| error.to_string())?.len() as usize;
        // SAFETY: a fresh read-only mapping.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(format!(
                "mapping the region: {}",
                std::io::Error::last_os_error()
            ));
        }
        // SAFETY: the header's bytes are mapped and do not change after the region was made.
        let head = unsafe { std::slice::from_raw_parts(base.cast::<u8>(), 4096.min(bytes)) };
        let header = Header::decode(head, bytes as u64).map_err(|error| error.to_string())?;
        Ok(Self {
            base: base.cast_const().cast(),
            bytes,
            progress: Mutex::new(Progress {
                read: vec![(0, 0); header.segment_count as usize],
                first: 0,
            }),
            header,
        })
    }

    /// Cells of one segment.
    pub fn segment_cells(&self) -> usize {
        self.header.segment_cells()
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes);
        // SAFETY: within the mapping and aligned (above); writers write it atomically.
        unsafe { &*self.base.add(offset).cast() }
    }

    /// Calls `body` with each record that was published since the last call.
    pub fn drain(
        &self,
        mut body: impl FnMut(Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut progress = self.progress.lock().map_err(|_| "poisoned".to_owned())?;
        let mut free = 0;
        for segment in progress.first..self.header.segment_count as usize {
            let entry = self.header.segment_table_offset as usize + segment * SEGMENT_ENTRY_BYTES;
            let state = self.word(entry).load(Ordering::Acquire);
            if state & 0xff == 0 {
                free += 1;
                if free > FREE_RUN {
                    break;
                }
                continue;
            }
            free = 0;
            let committed = self.word(entry + 8).load(Ordering::Acquire) as usize;
            let generation = state >> 32;
            let (known, mut read) = progress.read[segment];
            if known != generation {
                read = 0;
            }
            // Sticky segments hold facts.
            let whole = self.header.segment_cells();
            if state >> 8 & 0xff == 0 && read < committed && committed <= whole {
                // A head of the next generation, read beside a state of this one, is noticed below.
                self.records(segment, read, committed, &mut body)?;
                fence(Ordering::Acquire);
                if self.word(entry).load(Ordering::Relaxed) >> 32 != generation {
                    return Err(format!("segment {segment} was reused while it was read"));
                }
                progress.read[segment] = (generation, committed);
            }
            let stays = self.header.mode == Mode::Window;
            if stays && state & 0xff == 2 && segment == progress.first {
                progress.first += 1;
            }
        }
        Ok(())
    }

    fn records(
        &self,
        segment: usize,
        from: usize,
        to: usize,
        body: &mut impl FnMut(Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let [start, end] = [segment, segment + 1]
            .map(|segment| self.header.segment_offset(segment as u32) as usize);
        assert!(to <= self.header.segment_cells() && end <= self.bytes);
        // SAFETY: within the segment (above), below its published head (an Acquire load), and nobody writes there: a
        // published cell changes only when its segment is reused, which the bench's producers, that wait for this
        // reader, do not bring about; the caller's second look says so.
        let words = unsafe {
            std::slice::from_raw_parts(
                self.base.add(start + from * CELL_WORDS * 8).cast::<u64>(),
                (to - from) * CELL_WORDS,
            )
        };
        let mut left = words;
        while !left.is_empty() {
            let record = Record::parse(left).map_err(|error| error.to_string())?;
            left = &left[record.words().len()..];
            if !matches!(record.kind(), Some(Kind::Thread | Kind::Enqueue)) {
                body(record)?;
            }
        }
        Ok(())
    }
}
