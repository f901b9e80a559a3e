//! The region header: what the file is, where its parts lie, and which process wrote it.
//!
//! The first 1 KiB minus the words named below is written once, before the file has its name, and is covered by a
//! checksum. The words that change later (phase, heartbeat, control, sessions) lie between bytes 256 and 1024 and are
//! covered by none: a reader trusts nothing that depends on them.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic `STRNDLN1` |
//! | 8..12, 12..16 | format version (1), header bytes (4096) |
//! | 16..24, 24..32 | feature bits that a reader may ignore, that it must understand |
//! | 32..40 | region bytes |
//! | 40..48, 48..52, 52..56 | lane table: offset, lanes, bytes of one |
//! | 56..64, 64..68, 68..72 | segment table: offset, segments, bytes of one entry |
//! | 72..80, 80..84, 84..88 | segments: offset, bytes of one, bytes of a cell |
//! | 88..92, 92..96 | mode (0 window, 1 flight, 2 stream), flags (1 simulated SDK) |
//! | 96..100, 100..104, 104..108, 108..112 | pid, parent's pid, rank (-1 unknown), user id |
//! | 112..120, 120..128, 128..136 | process start (BOOTTIME ns), hash of the host, pid namespace (inode) |
//! | 136..152 | boot id |
//! | 152..160 | when the region was made (REALTIME ns) |
//! | 160..164, 164..168 | host clock (0 TSC, 1 CLOCK_MONOTONIC_RAW), vendor (0 none, 1 rocprofiler-sdk, 2 CUPTI) |
//! | 168..176 | ticks a second, as the kernel or a calibration gave them; the anchors are what counts |
//! | 176..180, 180..184 | runtime version, SDK version (10000*major + 100*minor + patch; 0 unknown) |
//! | 248..256 | checksum of bytes 0..248 and 1024..4096 |
//! | 256..264 | phase (see [`Phase`]) |
//! | 264..272 | heartbeat: counts up while a housekeeper runs |
//! | 272..280 | control word (reserved for other processes) |
//! | 280..288 | newest session number |
//! | 288..296 | session that is open, 0 = none |
//! | 296..304 | records that the SDK said it dropped |
//! | 512..1024 | counters of those that have no lane: 8 slots and a shared one, 7 words each: session, losses no_lane and reentry, dispatches issued, copies issued, dispatches done, copies done |
//! | 1024..2048 | program, UTF-8 |
//! | 2048..2560 | host name |
//! | 2560..3072 | SDK's description |

use crate::hash;
use crate::limits::{CELL_BYTES, HEADER_BYTES, LANE_BYTES, SEGMENT_ENTRY_BYTES, is_segment_bytes};

/// First 8 bytes of every region.
pub const MAGIC: u64 = u64::from_le_bytes(*b"STRNDLN1");
/// The format version that this crate writes, and the newest that it reads.
pub const VERSION: u32 = 1;
/// Feature bits of "must understand" that this crate knows.
pub const KNOWN_FEATURES: u64 = 0;

/// Feature bit of "may ignore": the file that a stream was written to. No segment of it is ever reused.
pub const FEATURE_STREAM_OUTPUT: u64 = 1;

/// Byte offset of the phase word.
pub const PHASE_OFFSET: usize = 256;
/// Byte offset of the heartbeat word.
pub const HEARTBEAT_OFFSET: usize = 264;
/// Byte offset of the newest session's number.
pub const NEWEST_SESSION_OFFSET: usize = 280;
/// Byte offset of the open session's number.
pub const OPEN_SESSION_OFFSET: usize = 288;
/// Byte offset of the SDK's drop count.
pub const SDK_DROPPED_OFFSET: usize = 296;
/// Byte offset of the counters of threads without a lane.
pub const LANELESS_OFFSET: usize = 512;
/// Words of one slot of those counters.
pub const LANELESS_WORDS: usize = 7;

/// How far the process has come, as its runtime knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub enum Phase {
    /// The region was made.
    Load = 1,
    /// The SDK runs our initializer.
    Init = 2,
    /// Callbacks can come.
    Running = 3,
    /// A stop is waiting for its proof.
    Stop = 4,
    /// The SDK has finalized us.
    Finalize = 5,
    /// The process runs its exit handlers.
    Exit = 6,
}

impl Phase {
    /// The phase with that number.
    pub const fn from_u64(value: u64) -> Option<Self> {
        Some(match value {
            1 => Self::Load,
            2 => Self::Init,
            3 => Self::Running,
            4 => Self::Stop,
            5 => Self::Finalize,
            6 => Self::Exit,
            _ => return None,
        })
    }

    /// The phase's name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Init => "init",
            Self::Running => "running",
            Self::Stop => "stop",
            Self::Finalize => "finalize",
            Self::Exit => "exit",
        }
    }
}

/// What is kept, and what happens when the budget is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// Keep all from start to stop; when full, count and drop.
    #[default]
    Window = 0,
    /// Keep the newest.
    Flight = 1,
    /// Move sealed segments to the output.
    Stream = 2,
}

impl Mode {
    /// The mode with that number.
    pub const fn from_u32(value: u32) -> Option<Self> {
        Some(match value {
            0 => Self::Window,
            1 => Self::Flight,
            2 => Self::Stream,
            _ => return None,
        })
    }

    /// The mode's name as the command line spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Flight => "flight",
            Self::Stream => "stream",
        }
    }
}

/// The part of the header that is written once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format version.
    pub version: u32,
    /// Feature bits that a reader may ignore.
    pub features_may_ignore: u64,
    /// Feature bits that a reader must understand.
    pub features_must_understand: u64,
    /// Size of the whole region, bytes.
    pub region_bytes: u64,
    /// Where the lane table lies, bytes from the start.
    pub lane_table_offset: u64,
    /// Lanes.
    pub lane_count: u32,
    /// Where the segment table lies, bytes from the start.
    pub segment_table_offset: u64,
    /// Segments.
    pub segment_count: u32,
    /// Where the first segment lies, bytes from the start.
    pub segments_offset: u64,
    /// Bytes of one segment: a size that [`is_segment_bytes`] accepts.
    pub segment_bytes: u32,
    /// Mode.
    pub mode: Mode,
    /// True when the SDK said that it is a simulation.
    pub simulated: bool,
    /// Process id in its own namespace.
    pub pid: u32,
    /// Parent's process id.
    pub parent_pid: u32,
    /// Rank in a job, -1 when unknown.
    pub rank: i32,
    /// User id.
    pub uid: u32,
    /// When the process started, BOOTTIME ns.
    pub process_start_ns: u64,
    /// Hash of the host's name and machine id.
    pub host_hash: u64,
    /// Inode of the pid namespace.
    pub pid_namespace: u64,
    /// The kernel's boot id.
    pub boot_id: [u8; 16],
    /// When the region was made, REALTIME ns.
    pub created_unix_ns: u64,
    /// Host clock: 0 TSC, 1 CLOCK_MONOTONIC_RAW.
    pub clock: u32,
    /// Vendor: 0 none, 1 rocprofiler-sdk, 2 CUPTI.
    pub vendor: u32,
    /// Ticks a second, nominal.
    pub ticks_per_second: u64,
    /// Version of the runtime that wrote it, 10000*major + 100*minor + patch.
    pub runtime_version: u32,
    /// Version of the SDK, likewise; 0 unknown.
    pub sdk_version: u32,
    /// Program.
    pub program: String,
    /// Host name.
    pub host: String,
    /// The SDK's description.
    pub sdk: String,
}

/// Why bytes are no header that this version can read. `offset` is in bytes from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// Shorter than a header.
    Short {
        /// Bytes there are.
        bytes: u64,
    },
    /// Another kind of file.
    Magic,
    /// Written by a newer version.
    Newer {
        /// The file's version.
        version: u32,
    },
    /// Needs features that this version does not know.
    Features {
        /// The unknown bits.
        bits: u64,
    },
    /// The checksum does not match.
    Checksum,
    /// A field has an impossible value.
    Field {
        /// Its name.
        name: &'static str,
        /// Its offset, bytes.
        offset: usize,
        /// What it holds.
        found: u64,
    },
}

impl std::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Short { bytes } => {
                write!(
                    f,
                    "offset {bytes}: the file ends here, expected a header of {HEADER_BYTES} bytes"
                )
            }
            Self::Magic => write!(
                f,
                "offset 0: not a Strandline region (expected the bytes STRNDLN1)"
            ),
            Self::Newer { version } => write!(
                f,
                "offset 8: format version {version}, this program reads up to {VERSION}; read it with a newer strandline"
            ),
            Self::Features { bits } => write!(
                f,
                "offset 24: needs features {bits:#x} that this program does not know; read it with a newer strandline"
            ),
            Self::Checksum => write!(
                f,
                "offset 248: the header's checksum does not match, the header is damaged"
            ),
            Self::Field {
                name,
                offset,
                found,
            } => write!(f, "offset {offset}: {name} is {found}, which cannot be"),
        }
    }
}

impl std::error::Error for HeaderError {}

struct Cursor<'a>(&'a mut [u8]);

impl Cursor<'_> {
    fn put32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    fn put64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    fn put_text(&mut self, at: usize, room: usize, text: &str) {
        let mut end = text.len().min(room - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0[at..at + end].copy_from_slice(&text.as_bytes()[..end]);
    }
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn get64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn get_text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn checksum(bytes: &[u8]) -> u64 {
    hash::bytes(&bytes[..248]) ^ hash::bytes(&bytes[1024..HEADER_BYTES]).rotate_left(1)
}

impl Header {
    /// True for the file that a stream was written to; false for the region that it came from.
    pub fn is_stream_output(&self) -> bool {
        self.features_may_ignore & FEATURE_STREAM_OUTPUT != 0
    }

    /// Cells of one segment.
    #[inline]
    pub fn segment_cells(&self) -> usize {
        self.segment_bytes as usize / CELL_BYTES
    }

    /// Where a segment lies, bytes from the start.
    #[inline]
    pub fn segment_offset(&self, segment: u32) -> u64 {
        self.segments_offset + u64::from(segment) * u64::from(self.segment_bytes)
    }

    /// The header as bytes, with its checksum and all changing words 0.
    pub fn encode(&self) -> Box<[u8; HEADER_BYTES]> {
        let mut bytes = Box::new([0u8; HEADER_BYTES]);
        let mut out = Cursor(&mut bytes[..]);
        out.put64(0, MAGIC);
        out.put32(8, self.version);
        out.put32(12, HEADER_BYTES as u32);
        out.put64(16, self.features_may_ignore);
        out.put64(24, self.features_must_understand);
        out.put64(32, self.region_bytes);
        out.put64(40, self.lane_table_offset);
        out.put32(48, self.lane_count);
        out.put32(52, LANE_BYTES as u32);
        out.put64(56, self.segment_table_offset);
        out.put32(64, self.segment_count);
        out.put32(68, SEGMENT_ENTRY_BYTES as u32);
        out.put64(72, self.segments_offset);
        out.put32(80, self.segment_bytes);
        out.put32(84, CELL_BYTES as u32);
        out.put32(88, self.mode as u32);
        out.put32(92, u32::from(self.simulated));
        out.put32(96, self.pid);
        out.put32(100, self.parent_pid);
        out.put32(104, self.rank as u32);
        out.put32(108, self.uid);
        out.put64(112, self.process_start_ns);
        out.put64(120, self.host_hash);
        out.put64(128, self.pid_namespace);
        out.0[136..152].copy_from_slice(&self.boot_id);
        out.put64(152, self.created_unix_ns);
        out.put32(160, self.clock);
        out.put32(164, self.vendor);
        out.put64(168, self.ticks_per_second);
        out.put32(176, self.runtime_version);
        out.put32(180, self.sdk_version);
        out.put_text(1024, 1024, &self.program);
        out.put_text(2048, 512, &self.host);
        out.put_text(2560, 512, &self.sdk);
        let sum = checksum(&bytes[..]);
        bytes[248..256].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads and checks a header. `file_bytes` is the size of the whole file: parts that lie beyond it are refused
    /// here, segments beyond it are the caller's to skip (a file cut short is still readable up to the cut).
    ///
    /// # Errors
    /// [`HeaderError`], each with its offset.
    pub fn decode(bytes: &[u8], file_bytes: u64) -> Result<Self, HeaderError> {
        if bytes.len() < HEADER_BYTES {
            return Err(if bytes.len() >= 8 && get64(bytes, 0) != MAGIC {
                HeaderError::Magic
            } else {
                HeaderError::Short { bytes: file_bytes }
            });
        }
        if get64(bytes, 0) != MAGIC {
            return Err(HeaderError::Magic);
        }
        let version = get32(bytes, 8);
        if version > VERSION {
            return Err(HeaderError::Newer { version });
        }
        if get64(bytes, 248) != checksum(bytes) {
            return Err(HeaderError::Checksum);
        }
        let unknown = get64(bytes, 24) & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(HeaderError::Features { bits: unknown });
        }
        let field = |name, offset: usize, found: u64, ok: bool| {
            if ok {
                Ok(())
            } else {
                Err(HeaderError::Field {
                    name,
                    offset,
                    found,
                })
            }
        };
        field("version", 8, version.into(), version == VERSION)?;
        for (name, offset, expected) in [
            ("header size", 12, HEADER_BYTES),
            ("lane size", 52, LANE_BYTES),
            ("segment entry size", 68, SEGMENT_ENTRY_BYTES),
            ("cell size", 84, CELL_BYTES),
        ] {
            let found = get32(bytes, offset);
            field(name, offset, found.into(), found as usize == expected)?;
        }
        let segment_bytes = get32(bytes, 80);
        let known_size = is_segment_bytes(segment_bytes.into());
        field("segment size", 80, segment_bytes.into(), known_size)?;
        let mode = Mode::from_u32(get32(bytes, 88));
        field("mode", 88, get32(bytes, 88).into(), mode.is_some())?;
        let header = Self {
            version,
            features_may_ignore: get64(bytes, 16),
            features_must_understand: get64(bytes, 24),
            region_bytes: get64(bytes, 32),
            lane_table_offset: get64(bytes, 40),
            lane_count: get32(bytes, 48),
            segment_table_offset: get64(bytes, 56),
            segment_count: get32(bytes, 64),
            segments_offset: get64(bytes, 72),
            segment_bytes,
            mode: mode.unwrap_or_default(),
            simulated: get32(bytes, 92) & 1 != 0,
            pid: get32(bytes, 96),
            parent_pid: get32(bytes, 100),
            rank: get32(bytes, 104) as i32,
            uid: get32(bytes, 108),
            process_start_ns: get64(bytes, 112),
            host_hash: get64(bytes, 120),
            pid_namespace: get64(bytes, 128),
            boot_id: bytes[136..152].try_into().expect("16 bytes"),
            created_unix_ns: get64(bytes, 152),
            clock: get32(bytes, 160),
            vendor: get32(bytes, 164),
            ticks_per_second: get64(bytes, 168),
            runtime_version: get32(bytes, 176),
            sdk_version: get32(bytes, 180),
            program: get_text(&bytes[1024..2048]),
            host: get_text(&bytes[2048..2560]),
            sdk: get_text(&bytes[2560..3072]),
        };
        let within = |offset: u64, count: u32, size: usize| {
            offset.is_multiple_of(CELL_BYTES as u64)
                && u64::from(count)
                    .checked_mul(size as u64)
                    .and_then(|bytes| bytes.checked_add(offset))
                    .is_some_and(|end| end <= header.region_bytes)
        };
        let lanes_fit = within(header.lane_table_offset, header.lane_count, LANE_BYTES);
        field("lane table", 40, header.lane_table_offset, lanes_fit)?;
        let table_fits = within(
            header.segment_table_offset,
            header.segment_count,
            SEGMENT_ENTRY_BYTES,
        );
        field("segment table", 56, header.segment_table_offset, table_fits)?;
        let segments_fit = within(
            header.segments_offset,
            header.segment_count,
            segment_bytes as usize,
        );
        field("segments", 72, header.segments_offset, segments_fit)?;
        // The segments are the region's last part: another size or count of them would show here.
        let ends = header.segment_offset(header.segment_count) == header.region_bytes;
        field("region size", 32, header.region_bytes, ends)?;
        if file_bytes < header.segments_offset {
            return Err(HeaderError::Short { bytes: file_bytes });
        }
        Ok(header)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::limits::SEGMENT_BYTES_MIN;

    pub(crate) fn sample() -> Header {
        Header {
            version: VERSION,
            features_may_ignore: 0,
            features_must_understand: 0,
            region_bytes: 4096 + 2 * 4096 + 4096 + 4 * SEGMENT_BYTES_MIN as u64,
            lane_table_offset: 4096,
            lane_count: 2,
            segment_table_offset: 3 * 4096,
            segment_count: 4,
            segments_offset: 4 * 4096,
            segment_bytes: SEGMENT_BYTES_MIN as u32,
            mode: Mode::Window,
            simulated: true,
            pid: 42,
            parent_pid: 1,
            rank: -1,
            uid: 0,
            process_start_ns: 5,
            host_hash: 6,
            pid_namespace: 7,
            boot_id: [9; 16],
            created_unix_ns: 8,
            clock: 0,
            vendor: 1,
            ticks_per_second: 2_600_000_000,
            runtime_version: 100,
            sdk_version: 10_000,
            program: "π".repeat(800),
            host: "node1".into(),
            sdk: "stand-in".into(),
        }
    }

    #[test]
    fn round_trip_cuts_text_at_a_character() {
        let header = sample();
        let bytes = header.encode();
        let read = Header::decode(&bytes[..], header.region_bytes).unwrap();
        assert_eq!(read.program, "π".repeat(511));
        assert_eq!(
            Header {
                program: String::new(),
                ..read
            },
            Header {
                program: String::new(),
                ..header
            }
        );
    }

    #[test]
    fn every_flipped_byte_of_the_fixed_part_is_noticed() {
        let header = sample();
        let bytes = header.encode();
        for at in (0..256).chain(1024..HEADER_BYTES) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(
                Header::decode(&flipped[..], header.region_bytes).is_err(),
                "byte {at}"
            );
        }
    }

    #[test]
    fn every_size_of_a_segment_is_read_and_no_other() {
        let with = |segment_bytes: u32, region_bytes: u64| {
            let mut header = sample();
            (header.segment_bytes, header.region_bytes) = (segment_bytes, region_bytes);
            Header::decode(&header.encode()[..], region_bytes)
        };
        let region = |bytes: u64| 4 * 4096 + 4 * bytes;
        for shift in 0..32 {
            let bytes = 1u32 << shift;
            let read = with(bytes, region(bytes.into()));
            if (16..=20).contains(&shift) {
                let header = read.unwrap();
                assert_eq!(header.segment_cells(), bytes as usize / 64);
                assert_eq!(header.segment_offset(4), header.region_bytes);
            } else {
                assert_eq!(
                    read.unwrap_err().to_string(),
                    format!("offset 80: segment size is {bytes}, which cannot be")
                );
            }
        }
        for bytes in [0, 65_535, 65_537, 65_600, 96 << 10, u32::MAX] {
            assert!(with(bytes, region(bytes.into())).is_err(), "{bytes}");
        }
        // A size that is legal, and not that of this file: with its checksum mended it is still refused.
        for (said, is) in [(1 << 16, 1 << 17), (1 << 18, 1 << 20), (1 << 18, 1 << 16)] {
            let error = with(said, region(is)).unwrap_err().to_string();
            assert!(error.contains("which cannot be"), "{error}");
        }
    }

    #[test]
    fn messages_name_the_offset_and_what_to_do() {
        let bytes = sample().encode();
        let mut newer = bytes.clone();
        newer[8] = 2;
        let text = Header::decode(&newer[..], 1 << 20).unwrap_err().to_string();
        assert_eq!(
            text,
            "offset 8: format version 2, this program reads up to 1; read it with a newer strandline"
        );
        let text = Header::decode(&bytes[..100], 100).unwrap_err().to_string();
        assert_eq!(
            text,
            "offset 100: the file ends here, expected a header of 4096 bytes"
        );
        assert_eq!(
            Header::decode(b"{\"traceEvents\":[]}", 18).unwrap_err(),
            HeaderError::Magic
        );
    }
}
