//! Settings from the environment. A bad value is an error, never a guess: tracing is then off, with a status.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::header::Mode;
use crate::limits::{
    BUDGET_BYTES_DEFAULT, BUDGET_BYTES_MAX, BUDGET_BYTES_MIN, LANE_COUNT_DEFAULT, LANE_COUNT_MAX,
    SEGMENT_COUNT_MIN, default_segment_bytes, is_segment_bytes,
};

/// When sessions open and close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// One session from load to exit.
    #[default]
    Load,
    /// `roctxProfilerResume` opens, `roctxProfilerPause` closes.
    Roctx,
    /// Only the C API opens and closes.
    Api,
}

/// What host times are taken by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockSource {
    /// The TSC where the kernel relies on it, else `CLOCK_MONOTONIC_RAW`.
    #[default]
    Auto,
    /// `CLOCK_MONOTONIC_RAW`: a vDSO call for each host time, about 20 ns more than the TSC.
    MonotonicRaw,
}

/// What holds the live region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// A file: `out`, or one in `dir`.
    #[default]
    Dir,
    /// A memfd: a file without a name, which no other process can cut. It dies with the last process that has it open;
    /// `out` is written at a clean exit, or by the recorder.
    Memfd,
}

/// Who takes sealed segments out of the region: stream mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collector {
    /// A thread of the runtime, which writes them to `out`.
    #[default]
    Thread,
    /// The host, by [`crate::Runtime::collect`]. Only from code.
    Host,
}

/// Where the runtime may talk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// Nowhere.
    #[default]
    Off,
    /// Standard error.
    Stderr,
    /// A file, appended to.
    File(PathBuf),
}

/// All settings of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The region file; `None`: a file in `dir` that is removed at a clean exit. In stream mode the file that segments are
    /// moved to; the region itself then always lies in `dir`.
    pub out: Option<PathBuf>,
    /// When sessions open and close.
    pub start: Start,
    /// Mode.
    pub mode: Mode,
    /// Who collects, in stream mode.
    pub collector: Collector,
    /// Memory for segments, bytes; what is no whole segment is not used.
    pub budget_bytes: u64,
    /// Bytes of a segment, a power of two from 64 KiB to 1 MiB and at most a sixteenth of the budget; `None`: 256 KiB for a budget
    /// of 256 MiB or more, else 64 KiB. [`crate::limits`] says what a size costs.
    pub segment_bytes: Option<u64>,
    /// Back the whole budget at start, not in steps ahead of demand: for programs that make records faster than memory
    /// can be faulted in (about 2 GB/s).
    pub prefault: bool,
    /// Ask for huge pages. Best effort; `Runtime::memory` says what was got.
    pub huge_pages: bool,
    /// Lock the region in memory, so that it is never swapped out. Best effort, likewise.
    pub lock: bool,
    /// What holds the live region.
    pub backing: Backing,
    /// The recorder's socket: a memfd's descriptor is handed to it, so that the region outlives this process.
    pub keeper: Option<PathBuf>,
    /// Threads that append at the same time; the region has one lane more, for the facts of others.
    pub lane_count: usize,
    /// What host times are taken by. Counts when the process's first runtime is made.
    pub clock: ClockSource,
    /// How long a stop waits for its proof, ns.
    pub stop_timeout_ns: u64,
    /// Folder of live regions.
    pub dir: PathBuf,
    /// Where to talk.
    pub log: Log,
    /// Rank in a job, -1 unknown.
    pub rank: i32,
}

/// A setting that can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The variable.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What would be right.
    pub expected: &'static str,
}

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}={:?}: expected {}; tracing is off",
            self.name, self.value, self.expected
        )
    }
}

impl std::error::Error for SettingError {}

/// Bytes from a number with an optional K, M or G (powers of 1,024).
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Settings {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// [`SettingError`] for the first bad value.
    pub fn from_env() -> Result<Self, SettingError> {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads settings through `lookup`.
    ///
    /// # Errors
    /// [`SettingError`] for the first bad value.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, SettingError> {
        let text = |name: &str| {
            lookup(name)
                .map(|value| value.to_string_lossy().into_owned())
                .filter(|value| !value.is_empty())
        };
        let bad = |name, value: String, expected| {
            Err(SettingError {
                name,
                value,
                expected,
            })
        };
        let start = match text("STRANDLINE_START") {
            None => Start::Load,
            Some(value) => match value.as_str() {
                "load" => Start::Load,
                "roctx" => Start::Roctx,
                "api" => Start::Api,
                _ => return bad("STRANDLINE_START", value, "load, roctx or api"),
            },
        };
        let mode = match text("STRANDLINE_MODE") {
            None => Mode::Window,
            Some(value) => match value.as_str() {
                "window" => Mode::Window,
                "flight" => Mode::Flight,
                "stream" => Mode::Stream,
                _ => return bad("STRANDLINE_MODE", value, "window, flight or stream"),
            },
        };
        let budget_bytes = match text("STRANDLINE_BUDGET") {
            None => BUDGET_BYTES_DEFAULT,
            Some(value) => match parse_bytes(&value) {
                Some(bytes) if (BUDGET_BYTES_MIN..=BUDGET_BYTES_MAX).contains(&bytes) => bytes,
                _ => {
                    return bad("STRANDLINE_BUDGET", value, BUDGET_EXPECTED);
                }
            },
        };
        let segment_bytes = match text("STRANDLINE_SEGMENT") {
            None => None,
            Some(value) => match parse_bytes(&value) {
                Some(bytes) if segment_fits(bytes, budget_bytes) => Some(bytes),
                _ => return bad("STRANDLINE_SEGMENT", value, SEGMENT_EXPECTED),
            },
        };
        let switch = |name: &'static str| match text(name).as_deref() {
            None | Some("off") => Ok(false),
            Some("on") => Ok(true),
            Some(value) => Err(SettingError {
                name,
                value: value.to_owned(),
                expected: "on or off",
            }),
        };
        let prefault = switch("STRANDLINE_PREFAULT")?;
        let huge_pages = switch("STRANDLINE_HUGE_PAGES")?;
        let lock = switch("STRANDLINE_LOCK")?;
        let backing = match text("STRANDLINE_BACKING").as_deref() {
            None | Some("dir") => Backing::Dir,
            Some("memfd") => Backing::Memfd,
            Some(value) => return bad("STRANDLINE_BACKING", value.to_owned(), "dir or memfd"),
        };
        let lane_count = match text("STRANDLINE_LANES") {
            None => LANE_COUNT_DEFAULT,
            Some(value) => match value.parse::<usize>() {
                Ok(lanes) if (1..=LANE_COUNT_MAX).contains(&lanes) => lanes,
                _ => {
                    return bad(
                        "STRANDLINE_LANES",
                        value,
                        "a number of threads from 1 to 4096",
                    );
                }
            },
        };
        let clock = match text("STRANDLINE_CLOCK").as_deref() {
            None | Some("auto") => ClockSource::Auto,
            Some("raw") => ClockSource::MonotonicRaw,
            Some(value) => return bad("STRANDLINE_CLOCK", value.to_owned(), "auto or raw"),
        };
        let stop_timeout_ns = match text("STRANDLINE_STOP_TIMEOUT_MS") {
            None => 5_000_000_000,
            Some(value) => match value
                .parse::<u64>()
                .ok()
                .and_then(|ms| ms.checked_mul(1_000_000))
            {
                Some(ns) => ns,
                None => return bad("STRANDLINE_STOP_TIMEOUT_MS", value, "milliseconds"),
            },
        };
        let log = match text("STRANDLINE_LOG") {
            None => Log::Off,
            Some(value) => match value.as_str() {
                "off" | "0" => Log::Off,
                "stderr" => Log::Stderr,
                _ => Log::File(PathBuf::from(lookup("STRANDLINE_LOG").unwrap_or_default())),
            },
        };
        let rank = match text("STRANDLINE_RANK") {
            Some(value) => match value.parse::<i32>() {
                Ok(rank) if rank >= 0 => rank,
                _ => return bad("STRANDLINE_RANK", value, "a rank from 0 up"),
            },
            None => ["RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"]
                .iter()
                .find_map(|name| text(name)?.parse::<i32>().ok().filter(|&rank| rank >= 0))
                .unwrap_or(-1),
        };
        let set = |name: &str| {
            lookup(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Ok(Self {
            out: set("STRANDLINE_OUT"),
            start,
            mode,
            collector: Collector::Thread,
            budget_bytes,
            segment_bytes,
            prefault,
            huge_pages,
            lock,
            backing,
            keeper: set("STRANDLINE_KEEPER"),
            lane_count,
            clock,
            stop_timeout_ns,
            dir: set("STRANDLINE_DIR").unwrap_or_else(|| default_dir(set("XDG_RUNTIME_DIR"))),
            log,
            rank,
        })
    }
}

/// What a budget must be.
const BUDGET_EXPECTED: &str = "bytes from 1M to 64G, with K, M or G";
/// What a size of segments must be.
const SEGMENT_EXPECTED: &str =
    "64K, 128K, 256K, 512K or 1M, and at most a sixteenth of STRANDLINE_BUDGET";

/// True when segments of that size are legal, and a budget has enough of them.
fn segment_fits(segment_bytes: u64, budget_bytes: u64) -> bool {
    is_segment_bytes(segment_bytes) && budget_bytes / segment_bytes >= SEGMENT_COUNT_MIN as u64
}

impl Settings {
    /// Bytes of a segment: what was asked for, or what the budget gets.
    ///
    /// # Errors
    /// [`SettingError`] for a budget or a size that cannot be, or a size that the budget has too few of.
    pub fn segment_size(&self) -> Result<u64, SettingError> {
        let bad = |name, value: u64, expected| {
            Err(SettingError {
                name,
                value: value.to_string(),
                expected,
            })
        };
        let budget = self.budget_bytes;
        if !(BUDGET_BYTES_MIN..=BUDGET_BYTES_MAX).contains(&budget) {
            return bad("STRANDLINE_BUDGET", budget, BUDGET_EXPECTED);
        }
        let bytes = self
            .segment_bytes
            .unwrap_or_else(|| default_segment_bytes(budget));
        if !segment_fits(bytes, budget) {
            return bad("STRANDLINE_SEGMENT", bytes, SEGMENT_EXPECTED);
        }
        Ok(bytes)
    }

    /// True when more is asked of the region's memory than to be there.
    pub(crate) fn wishes_for_memory(&self) -> bool {
        self.huge_pages || self.lock || self.backing != Backing::Dir
    }
}

/// Where live regions lie unless asked otherwise.
pub fn default_dir(runtime_dir: Option<PathBuf>) -> PathBuf {
    match runtime_dir {
        Some(dir) if dir.is_dir() => dir.join("strandline"),
        // SAFETY: getuid has no preconditions and can't fail.
        _ => PathBuf::from(format!("/dev/shm/strandline-{}", unsafe { libc::getuid() })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<Settings, SettingError> {
        Settings::from_lookup(|name| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.into())
        })
    }

    #[test]
    fn defaults_and_values() {
        let plain = settings(&[]).unwrap();
        assert_eq!(
            (plain.start, plain.mode, plain.rank),
            (Start::Load, Mode::Window, -1)
        );
        let set = settings(&[
            ("STRANDLINE_START", "roctx"),
            ("STRANDLINE_MODE", "flight"),
            ("STRANDLINE_BUDGET", "64M"),
            ("STRANDLINE_LANES", "64"),
            ("STRANDLINE_STOP_TIMEOUT_MS", "20"),
            ("SLURM_PROCID", "3"),
            ("STRANDLINE_LOG", "stderr"),
        ])
        .unwrap();
        assert_eq!(
            (set.start, set.mode, set.rank),
            (Start::Roctx, Mode::Flight, 3)
        );
        assert_eq!(
            (set.budget_bytes, set.lane_count, set.stop_timeout_ns),
            (64 << 20, 64, 20_000_000)
        );
    }

    #[test]
    fn segments_are_as_large_as_was_asked_or_as_the_budget_says() {
        for (pairs, bytes) in [
            (&[][..], 256 << 10),
            (&[("STRANDLINE_BUDGET", "64M")], 64 << 10),
            (&[("STRANDLINE_BUDGET", "255M")], 64 << 10),
            (&[("STRANDLINE_BUDGET", "256M")], 256 << 10),
            (&[("STRANDLINE_SEGMENT", "64K")], 64 << 10),
            (&[("STRANDLINE_SEGMENT", "524288")], 512 << 10),
            (
                &[("STRANDLINE_BUDGET", "16M"), ("STRANDLINE_SEGMENT", "1M")],
                1 << 20,
            ),
        ] {
            assert_eq!(
                settings(pairs).unwrap().segment_size(),
                Ok(bytes),
                "{pairs:?}"
            );
        }
        let small = [("STRANDLINE_BUDGET", "15M"), ("STRANDLINE_SEGMENT", "1M")];
        assert_eq!(
            settings(&small).unwrap_err().to_string(),
            "STRANDLINE_SEGMENT=\"1M\": expected 64K, 128K, 256K, 512K or 1M, and at most a sixteenth of \
             STRANDLINE_BUDGET; tracing is off"
        );
        // Settings that were changed in code are held to the same.
        let mut changed = settings(&small[..1]).unwrap();
        changed.segment_bytes = Some(1 << 20);
        assert_eq!(
            changed.segment_size().unwrap_err().name,
            "STRANDLINE_SEGMENT"
        );
        (changed.segment_bytes, changed.budget_bytes) = (None, 1 << 19);
        assert_eq!(
            changed.segment_size().unwrap_err().name,
            "STRANDLINE_BUDGET"
        );
    }

    #[test]
    fn a_bad_value_is_named_with_what_would_be_right() {
        for (name, value) in [
            ("STRANDLINE_START", "later"),
            ("STRANDLINE_MODE", "windows"),
            ("STRANDLINE_BUDGET", "12 apples"),
            ("STRANDLINE_BUDGET", "1K"),
            ("STRANDLINE_BUDGET", "99999999999G"),
            ("STRANDLINE_SEGMENT", "32K"),
            ("STRANDLINE_SEGMENT", "96K"),
            ("STRANDLINE_SEGMENT", "2M"),
            ("STRANDLINE_SEGMENT", "big"),
            ("STRANDLINE_LANES", "0"),
            ("STRANDLINE_STOP_TIMEOUT_MS", "-1"),
            ("STRANDLINE_RANK", "x"),
            ("STRANDLINE_CLOCK", "tsc"),
            ("STRANDLINE_PREFAULT", "yes"),
            ("STRANDLINE_HUGE_PAGES", "1"),
            ("STRANDLINE_LOCK", "true"),
            ("STRANDLINE_BACKING", "disk"),
        ] {
            let error = settings(&[(name, value)]).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), (name, value));
        }
        let text = settings(&[("STRANDLINE_MODE", "x")])
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "STRANDLINE_MODE=\"x\": expected window, flight or stream; tracing is off"
        );
    }
}
