//! The housekeeper: the one thread of the runtime, for all that must not happen in a callback.
//!
//! It backs memory ahead of demand, accounts for sessions that were closed without anybody waiting, takes sealed
//! segments from the ring and gives them their checksum, watches the clocks and looks for lanes of dead
//! threads when lanes run short. It blocks all signals, so that the host's handlers never run on it, and it does
//! nothing any more once the process finalizes. A forked child has none.

use std::sync::atomic::Ordering as StdOrdering;
use std::time::{Duration, Instant};

use crate::clock_watch::ClockWatch;
use crate::hash;
use crate::header::Mode;
use crate::limits::CELL_WORDS;
use crate::runtime::Runtime;
use crate::segment_entry::{SegmentState, StateWord, word};
use crate::session::Ask;
use crate::sync::Ordering;

/// Between rounds while a session is open or pending.
const BUSY: Duration = Duration::from_millis(1);
/// Between rounds otherwise.
const IDLE: Duration = Duration::from_millis(20);
/// How long the rounds stay short after the last session.
const AWAKE: Duration = Duration::from_secs(1);
/// Rounds between looks for threads without a name.
const NAMES_EVERY: u32 = 10;
/// Bytes of segments that get their checksum in one round: about a millisecond's work.
const CHECKSUM_BYTES: u64 = 4 << 20;

impl Runtime {
    /// Starts the housekeeper and, in stream mode with a file, the collector's thread. `ask` makes the SDK deliver its retirements (see [`Ask`]); `each_round` is the vendor
    /// layer's own housekeeping.
    ///
    /// # Errors
    /// The system's, when it makes no thread. The runtime works without, within what is backed already.
    pub fn start_housekeeper(
        &'static self,
        ask: Option<Box<dyn FnMut() + Send>>,
        each_round: Option<Box<dyn FnMut() + Send>>,
    ) -> std::io::Result<std::thread::JoinHandle<()>> {
        self.start_collector()?;
        let all_signals = block_signals();
        let thread = std::thread::Builder::new()
            .name("strandline".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || self.keep_house(ask, each_round));
        restore_signals(&all_signals);
        thread
    }

    fn keep_house(
        &'static self,
        mut ask: Option<Box<dyn FnMut() + Send>>,
        mut each_round: Option<Box<dyn FnMut() + Send>>,
    ) {
        let mut last_busy = Instant::now();
        let mut round = 0u32;
        let mut watch = ClockWatch::default();
        while !self.finalizing.load(StdOrdering::Relaxed) {
            self.beat();
            self.back_ahead();
            self.account_closed(ask.as_mut().map(|ask| &mut **ask as Ask<'_>));
            // In stream mode the ring is the collector's.
            if self.region().header().mode != Mode::Stream
                && let Ok(mut released) = self.released.try_lock()
            {
                let most = CHECKSUM_BYTES / self.region().segment_bytes();
                self.checksum_sealed(&mut released.ring_head, most as usize);
                self.free_released(&mut released);
            }
            self.reclaim_dead_lanes();
            if round.is_multiple_of(NAMES_EVERY) {
                self.name_threads();
            }
            round += 1;
            if let Some(each_round) = &mut each_round {
                each_round();
            }
            let busy = self.open_session() != 0 || self.pending.load(StdOrdering::Relaxed);
            if busy {
                last_busy = Instant::now();
                watch.look(self);
            }
            // Sessions may follow each other within a millisecond: awake a while longer, or 8 come and go in one nap.
            let awake = last_busy.elapsed() < AWAKE;
            std::thread::sleep(if awake { BUSY } else { IDLE });
        }
    }

    /// Takes up to `most` sealed segments from the ring and gives them their checksum. Under the lock of `Released`.
    pub(crate) fn checksum_sealed(&self, head: &mut u64, most: usize) {
        for _ in 0..most {
            let Some(segment) = self.region().ring().take(head) else {
                return;
            };
            self.checksum(segment);
        }
    }

    /// Gives a sealed segment its checksum. Nobody writes to it any more.
    pub(crate) fn checksum(&self, segment: u32) {
        let region = self.region();
        let state = StateWord::unpack(region.entry(segment, word::STATE).load(Ordering::Acquire));
        if state.is_none_or(|state| state.state != SegmentState::Sealed) {
            return;
        }
        let cells = (region
            .entry(segment, word::COMMITTED)
            .load(Ordering::Acquire) as usize)
            .min(region.segment_cells());
        let words = (0..cells * CELL_WORDS)
            .map(|index| region.cell_word(segment, index).load(Ordering::Relaxed));
        let sum = hash::words(words);
        // ORD(checksum): the covered cells first, so that a reader that sees a checksum knows what it covers.
        region
            .entry(segment, word::CHECKED_CELLS)
            .store(cells as u64, Ordering::Relaxed);
        region
            .entry(segment, word::CHECKSUM)
            .store(sum, Ordering::Release);
    }
}

pub(crate) fn block_signals() -> libc::sigset_t {
    // SAFETY: plain data; sigfillset and pthread_sigmask write to sets that are ours.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut old = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    }
}

pub(crate) fn restore_signals(old: &libc::sigset_t) {
    // SAFETY: restores this thread's own mask, as it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, std::ptr::null_mut()) };
}
