//! Sessions: opening, closing, waiting for the proof, closing the books.
//!
//! Promise 5. `complete` means that each issued dispatch and copy is recorded or retired without a record, and it rests
//! on counting: every issue that saw the session open is counted before its callback returns, every completion after
//! its record was stored. Silence is never taken for a proof.
//!
//! | step | who | what |
//! |---|---|---|
//! | open | anybody, also in a callback | takes the next number, announces it, sets the session word |
//! | close | anybody, also in a callback | clears the session word: nothing new belongs to the session |
//! | account | a stop, the housekeeper or the finalizer, never in a callback | waits for the proof, takes the session, closes its books |
//!
//! `account` waits for the gate twice: after closing, so that every issue is counted, and after taking, so that every
//! completion is either stored and counted or late.

use std::sync::TryLockError;
use std::sync::atomic::Ordering as StdOrdering;
use std::time::{Duration, Instant};

use crate::clock;
use crate::control::{STATES, SessionState};
use crate::counters::{Block, Counter};
use crate::gate;
use crate::header::{
    LANELESS_OFFSET, LANELESS_WORDS, NEWEST_SESSION_OFFSET, OPEN_SESSION_OFFSET, Phase,
    SDK_DROPPED_OFFSET,
};
use crate::lane::Laneless;
use crate::limits::{CELL_WORDS, LANE_COUNTERS_OFFSET, SESSION_SLOT_WORDS, SESSION_SLOTS};
use crate::loss::LossReason;
use crate::record::{Kind, flag, head_word, high, low, pair};
use crate::runtime::Runtime;
use crate::session_end::{Proof, SessionEnd, Verdict, Work};
use crate::status::Status;
use crate::sync::Ordering;

/// What the accounting remembers between calls, under its lock.
#[derive(Debug, Default)]
pub(crate) struct Accounting {
    /// Sessions that are closed and not taken, oldest first.
    closed: Vec<Pending>,
    /// Results of sessions that were taken, newest last; a few.
    taken: Vec<SessionEnd>,
}

#[derive(Debug)]
struct Pending {
    session: u32,
    requested_ns: u64,
    closed_at: Instant,
    begin_ns: u64,
    /// When the housekeeper asks after it at the SDK, and how long it waits then.
    next_ask: Instant,
    interval: Duration,
}

/// Results kept for a stop that comes after the session was accounted for by somebody else.
const TAKEN_KEPT: usize = 64;

/// How long the waiting sleeps between looks.
const LOOK: Duration = Duration::from_micros(100);
/// When a session that is still unpaired is first asked after at the SDK.
const ASK_FIRST: Duration = Duration::from_millis(1);
/// The longest interval between asking.
const ASK_LONGEST: Duration = Duration::from_millis(50);
/// How long the finalizer waits for a lane to leave its append, and for the lock.
const FINALIZE_PATIENCE: Duration = Duration::from_millis(200);

/// Issues and completions of threads without a lane, and the counters that they add to.
const LANELESS_COUNTERS: [(Laneless, Counter); 4] = [
    (Laneless::DispatchIssued, Counter::DispatchIssued),
    (Laneless::CopyIssued, Counter::CopyIssued),
    (Laneless::DispatchDone, Counter::DispatchDone),
    (Laneless::CopyDone, Counter::CopyDone),
];

/// How a stop may find out about work that will never get a record: makes the SDK deliver its retirements (flushes the
/// buffer). Called outside all locks of callbacks, never in a callback.
pub type Ask<'a> = &'a mut dyn FnMut();

impl Runtime {
    /// Opens a session. Any thread, also in a callback: no lock, no wait.
    ///
    /// # Errors
    /// [`Status::SessionOpen`], [`Status::TooManyPending`] when the session 8 before is still waiting for its proof,
    /// [`Status::Finalizing`], [`Status::NotReady`] in a forked child.
    pub fn session_open(&self) -> Result<u64, Status> {
        let control = self.control();
        control.barrier().ok_or(Status::NotReady)?;
        if self.finalizing.load(StdOrdering::Relaxed) {
            return Err(Status::Finalizing);
        }
        let newest = control.newest.load(Ordering::Acquire) as u32;
        if control.open_session() != 0 {
            return Err(Status::SessionOpen);
        }
        let mut session = newest.wrapping_add(1);
        if session as u16 == 0 {
            // A token's low 16 bits of 0 mean "no session".
            session += 1;
        }
        let oldest = session.saturating_sub(SESSION_SLOTS as u32);
        let waiting = (oldest.saturating_sub(1)..=oldest)
            .any(|old| control.state(old) != SessionState::Booked);
        if waiting {
            return Err(Status::TooManyPending);
        }
        // ORD(newest): AcqRel. Two threads that open at once: one gets the number, the other is told.
        let taken = control.newest.compare_exchange(
            newest.into(),
            session.into(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if taken.is_err() {
            return Err(Status::SessionOpen);
        }
        control.set_state(session, SessionState::Open);
        self.announce_anchor();
        let anchor = clock::tick_anchor();
        let words = [
            session.into(),
            anchor.ticks,
            anchor.vendor_ns,
            clock::kernel_ns(libc::CLOCK_REALTIME),
        ];
        self.fact(Kind::SessionBegin, session, &words);
        self.region()
            .word(NEWEST_SESSION_OFFSET)
            .store(session.into(), Ordering::Relaxed);
        self.region()
            .word(OPEN_SESSION_OFFSET)
            .store(session.into(), Ordering::Relaxed);
        self.begins[session as usize % STATES].store(anchor.vendor_ns, StdOrdering::Relaxed);
        // ORD(inside): Release. From here on first callbacks see the session, and its state before it.
        control.session.store(session.into(), Ordering::Release);
        Ok(session.into())
    }

    /// Closes the open session: nothing new belongs to it. Any thread, also in a callback: no lock, no wait. Its books
    /// are closed by [`Runtime::session_stop`] or by the housekeeper.
    ///
    /// # Errors
    /// [`Status::NoSuchSession`] when it is not the open one, [`Status::NotReady`] in a forked child.
    pub fn session_close(&self, session: u64) -> Result<(), Status> {
        let control = self.control();
        control.barrier().ok_or(Status::NotReady)?;
        if session == 0 || session > u64::from(u32::MAX) {
            return Err(Status::NoSuchSession);
        }
        // ORD(inside): SeqCst. Step 1 of stop in `gate`; the heavy barrier follows in `account`.
        control
            .session
            .compare_exchange(session, 0, Ordering::SeqCst, Ordering::Relaxed)
            .map_err(|_| Status::NoSuchSession)?;
        let slot = session as usize % STATES;
        self.requests[slot].store(clock::vendor_now(), StdOrdering::Relaxed);
        control.set_state(session as u32, SessionState::Closed);
        self.region()
            .word(OPEN_SESSION_OFFSET)
            .store(0, Ordering::Relaxed);
        self.pending.store(true, StdOrdering::Release);
        Ok(())
    }

    /// The session that is open, 0 = none.
    pub fn open_session(&self) -> u64 {
        self.control().open_session().into()
    }

    /// Stops a session: closes it, waits for the proof or the deadline, closes its books. Not in a callback.
    ///
    /// # Errors
    /// [`Status::NoSuchSession`]; [`Status::NotReady`] in a forked child. A session that is not complete is no error:
    /// its verdict says so.
    pub fn session_stop(
        &self,
        session: u64,
        timeout: Duration,
        ask: Option<Ask<'_>>,
    ) -> Result<SessionEnd, Status> {
        let deadline = Instant::now().checked_add(timeout);
        self.control().barrier().ok_or(Status::NotReady)?;
        let known = session != 0
            && session <= self.control().newest.load(Ordering::Acquire)
            && self.control().newest.load(Ordering::Acquire) - session < STATES as u64;
        let closed = self.session_close(session);
        let mut accounting = self
            .accounting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(end) = accounting.taken.iter().find(|end| end.session == session) {
            return Ok(*end);
        }
        if closed.is_err()
            && (!known || self.control().state(session as u32) != SessionState::Closed)
        {
            return Err(Status::NoSuchSession);
        }
        self.adopt_closed(&mut accounting);
        let Some(place) = accounting
            .closed
            .iter()
            .position(|pending| u64::from(pending.session) == session)
        else {
            return Err(Status::NoSuchSession);
        };
        let pending = accounting.closed.remove(place);
        self.set_phase(Phase::Stop);
        let end = self.account(&pending, deadline, ask, false);
        self.set_phase(Phase::Running);
        accounting.remember(end);
        self.pending
            .store(!accounting.closed.is_empty(), StdOrdering::Release);
        Ok(end)
    }

    /// The housekeeper's part: accounts for closed sessions whose proof holds, or whose time is up. Not in a callback.
    pub(crate) fn account_closed(&self, mut ask: Option<Ask<'_>>) {
        if !self.pending.load(StdOrdering::Acquire) || self.finalizing.load(StdOrdering::Relaxed) {
            return;
        }
        let Ok(mut accounting) = self.accounting.try_lock() else {
            return;
        };
        self.pending.store(false, StdOrdering::Release);
        self.adopt_closed(&mut accounting);
        let timeout = Duration::from_nanos(self.settings().stop_timeout_ns);
        let mut at = 0;
        while at < accounting.closed.len() {
            let pending = &accounting.closed[at];
            let age = pending.closed_at.elapsed();
            let proven = self.gate_is_quiet() && self.unpaired(pending.session) == 0;
            let crowded = accounting.closed.len() > SESSION_SLOTS - 2 && at == 0;
            let now = Instant::now();
            if proven || age >= timeout || crowded {
                let pending = accounting.closed.remove(at);
                let end = self.account(
                    &pending,
                    Some(now),
                    ask.as_deref_mut().map(|ask| ask as Ask<'_>),
                    false,
                );
                accounting.remember(end);
                continue;
            }
            let pending = &mut accounting.closed[at];
            if now < pending.next_ask {
                at += 1;
                continue;
            }
            pending.next_ask = now + pending.interval;
            pending.interval = (pending.interval * 2).min(ASK_LONGEST);
            let asked = ask.as_deref_mut().map(|ask| ask as Ask<'_>);
            match self.try_retired(&accounting.closed[at], asked) {
                Some(end) => {
                    accounting.closed.remove(at);
                    accounting.remember(end);
                }
                None => at += 1,
            }
        }
        if !accounting.closed.is_empty() {
            self.pending.store(true, StdOrdering::Release);
        }
    }

    /// For a session that waits in the background: asks once, and accounts for it if that proves the rest retired.
    fn try_retired(&self, pending: &Pending, ask: Option<Ask<'_>>) -> Option<SessionEnd> {
        let ask = ask?;
        ask();
        let proven = self.outstanding(pending.session).lock().prove(self);
        (proven >= self.unpaired(pending.session))
            .then(|| self.account(pending, Some(Instant::now()), None, false))
    }

    /// Sessions that were closed without anybody waiting, into the list.
    fn adopt_closed(&self, accounting: &mut Accounting) {
        let newest = self.control().newest.load(Ordering::Acquire) as u32;
        for session in newest.saturating_sub(STATES as u32 - 1).max(1)..=newest {
            let word = self.control().states[session as usize % STATES].load(Ordering::Acquire);
            let closed = word == u64::from(session) << 8 | SessionState::Closed as u64;
            if closed
                && !accounting
                    .closed
                    .iter()
                    .any(|pending| pending.session == session)
            {
                accounting.closed.push(Pending {
                    session,
                    requested_ns: self.requests[session as usize % STATES]
                        .load(StdOrdering::Relaxed),
                    begin_ns: self.begins[session as usize % STATES].load(StdOrdering::Relaxed),
                    closed_at: Instant::now(),
                    next_ask: Instant::now() + ASK_FIRST,
                    interval: ASK_FIRST,
                });
            }
        }
    }

    /// The finalizer's part: closes the open session, and the books of all. Calls no SDK function and waits for nobody
    /// beyond a fraction of a second.
    pub fn finalize(&self) {
        if self.control().barrier().is_none() || self.finalizing.swap(true, StdOrdering::AcqRel) {
            return;
        }
        self.set_phase(Phase::Finalize);
        let open = self.open_session();
        if open != 0 {
            let _ = self.session_close(open);
        }
        let until = Instant::now() + FINALIZE_PATIENCE;
        let mut accounting = loop {
            match self.accounting.try_lock() {
                Ok(accounting) => break accounting,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                // A stop is under way on another thread: it closes the books itself, or its deadline does.
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return,
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            }
        };
        self.adopt_closed(&mut accounting);
        for pending in std::mem::take(&mut accounting.closed) {
            let end = self.account(&pending, Some(Instant::now()), None, true);
            accounting.remember(end);
        }
        self.announce_anchor();
        self.name_threads();
        self.output_finished
            .store(self.finish_output(), StdOrdering::Relaxed);
        self.give_unused_back();
    }

    /// The result of a session that was accounted for lately.
    pub fn session_result(&self, session: u64) -> Option<SessionEnd> {
        // In a forked child the lock may be held for ever, by a thread that is not there.
        self.control().barrier()?;
        let accounting = self
            .accounting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        accounting
            .taken
            .iter()
            .find(|end| end.session == session)
            .copied()
    }

    fn gate_is_quiet(&self) -> bool {
        gate::heavy_barrier(self.barrier());
        self.lanes().iter().all(|lane| gate::left(&lane.inside))
    }

    /// Waits until each lane has left the append it was inside of at the barrier. False: the deadline came first.
    fn wait_for_gate(&self, deadline: Option<Instant>) -> bool {
        gate::heavy_barrier(self.barrier());
        self.lanes().iter().all(|lane| {
            let mut looks = 0u32;
            while !gate::left(&lane.inside) {
                looks += 1;
                if looks < 1_000 {
                    std::hint::spin_loop();
                    continue;
                }
                // At least a moment is given even when the deadline is now: a preempted append must not look lost.
                if looks == 1_050 {
                    // Its thread may have ended inside; then nobody else would ever leave.
                    self.reclaim_if_dead(lane);
                }
                if looks > 1_100 && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return false;
                }
                std::thread::sleep(LOOK);
            }
            true
        })
    }

    /// The lanes' counters for a session, summed; completions are read before issues.
    fn sum(&self, session: u32) -> Block {
        let slot = session as usize % SESSION_SLOTS * SESSION_SLOT_WORDS * 8 + LANE_COUNTERS_OFFSET;
        let mut sum = Block::default();
        let order = [Counter::DispatchDone as usize, Counter::CopyDone as usize];
        let rest = (1..SESSION_SLOT_WORDS).filter(|index| !order.contains(index));
        for index in order.into_iter().chain(rest) {
            let mut part = Block::default();
            for lane in 0..self.lanes().len() {
                // ORD(slot), ORD(count): Acquire. Pair with the Release stores in `take_block` and `bump`.
                if self.region().lane_word(lane, slot).load(Ordering::Acquire) == u64::from(session)
                {
                    let mut one = Block::default();
                    one.words[index] = self
                        .region()
                        .lane_word(lane, slot + index * 8)
                        .load(Ordering::Acquire);
                    part.add(&one);
                }
            }
            sum.words[index] = part.words[index];
        }
        sum.words[0] = session.into();
        let laneless = LANELESS_OFFSET + session as usize % SESSION_SLOTS * LANELESS_WORDS * 8;
        if self.region().word(laneless).load(Ordering::Relaxed) == u64::from(session) {
            for (index, reason) in [(1, LossReason::NoLane), (2, LossReason::Reentry)] {
                sum.words[Counter::Lost as usize + reason as usize] += self
                    .region()
                    .word(laneless + index * 8)
                    .load(Ordering::Relaxed);
            }
            for (index, counter) in LANELESS_COUNTERS {
                sum.words[counter as usize] += self
                    .region()
                    .word(laneless + index as usize * 8)
                    .load(Ordering::Relaxed);
            }
        }
        sum
    }

    /// Issues without a completion.
    fn unpaired(&self, session: u32) -> u64 {
        let sum = self.sum(session);
        let left = |issued, done| sum.get(issued).saturating_sub(sum.get(done));
        left(Counter::DispatchIssued, Counter::DispatchDone)
            + left(Counter::CopyIssued, Counter::CopyDone)
    }

    /// Waits for the proof, takes the session and closes its books.
    fn account(
        &self,
        pending: &Pending,
        deadline: Option<Instant>,
        mut ask: Option<Ask<'_>>,
        mut finalizing: bool,
    ) -> SessionEnd {
        let session = pending.session;
        let began = Instant::now();
        self.wait_for_gate(deadline);
        let outstanding = self.outstanding(session);
        let mut retired = 0;
        let (mut next_ask, mut interval) = (ASK_FIRST, ASK_FIRST);
        loop {
            let unpaired = self.unpaired(session);
            if unpaired == 0 {
                break;
            }
            // The process ends while a stop waits on another thread: the finalizer waits for these books, and whatever
            // the SDK forces from now on proves nothing.
            finalizing = finalizing || self.finalizing.load(StdOrdering::Relaxed);
            if finalizing {
                break;
            }
            let waited = began.elapsed();
            if waited >= next_ask
                && let Some(ask) = ask.as_mut()
            {
                ask();
                if outstanding.lock().prove(self) >= self.unpaired(session) {
                    break;
                }
                next_ask = began.elapsed() + interval;
                interval = (interval * 2).min(ASK_LONGEST);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        if self.unpaired(session) > 0 {
            // Before the session is taken: an id that retires later may have had its record, which was late.
            outstanding.lock().prove(self);
        }
        // From here on completions are late.
        self.control().set_state(session, SessionState::Taken);
        self.wait_for_gate(deadline);
        let sum = self.sum(session);
        let issued = sum.get(Counter::DispatchIssued) + sum.get(Counter::CopyIssued);
        let recorded = sum.get(Counter::DispatchRecorded) + sum.get(Counter::CopyRecorded);
        if issued > recorded {
            let mut outstanding = outstanding.lock();
            outstanding.scan(self);
            // With completions lost, what is outstanding is not all unpaired: never more retired than unpaired.
            retired = outstanding.proven().min(self.unpaired(session));
        }
        let (retired_dispatches, retired_copies) =
            outstanding.lock().announce_retired(self, retired);
        let open_at_stop = self.announce_open(session);
        let mut lost = sum.lost();
        lost.0[LossReason::SdkDropped as usize] += self
            .region()
            .word(SDK_DROPPED_OFFSET)
            .load(Ordering::Relaxed);
        let work = |issued, recorded, retired_without_record| Work {
            issued: sum.get(issued),
            recorded: sum.get(recorded),
            retired_without_record,
        };
        let dispatches = work(
            Counter::DispatchIssued,
            Counter::DispatchRecorded,
            retired_dispatches,
        );
        let copies = work(Counter::CopyIssued, Counter::CopyRecorded, retired_copies);
        let missing = dispatches.missing() + copies.missing();
        let verdict = match (issued, missing) {
            (0, _) => Verdict::Empty,
            (_, 0) => Verdict::Complete,
            _ => Verdict::Incomplete,
        };
        let proof = match (verdict, finalizing) {
            (_, true) => Proof::FinalizeDrain,
            (Verdict::Incomplete, _) => Proof::None,
            _ if retired > 0 => Proof::PairsAndRetirement,
            _ => Proof::Pairs,
        };
        let high_watermark = sum.get(Counter::HighId);
        let anchor = clock::tick_anchor();
        // 0 stays 0: it never happened.
        let when = |counter| match sum.get(counter) {
            0 => 0,
            ticks => arrival_ns(ticks, anchor, pending),
        };
        let end = SessionEnd {
            session: session.into(),
            verdict,
            proof,
            dispatches,
            copies,
            api_recorded: sum.get(Counter::ApiRecorded),
            open_at_stop,
            low_watermark: if missing == 0 {
                high_watermark
            } else {
                outstanding.lock().low_watermark(&sum)
            },
            high_watermark,
            late: sum.get(Counter::Late),
            lost,
            first_loss_ns: when(Counter::FirstLossTicks),
            last_loss_ns: when(Counter::LastLossTicks),
            requested_ns: pending.requested_ns,
            last_arrival_ns: when(Counter::LastArrivalTicks),
            returned_ns: anchor.vendor_ns,
            begin_ns: pending.begin_ns,
            waited_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            retirement_off: self.retirement_off.load(StdOrdering::Relaxed),
        };
        self.announce_anchor();
        self.fact(Kind::SessionEnd, session, &end.encode()[1..]);
        self.control().set_state(session, SessionState::Booked);
        self.forget_outstanding(session);
        end
    }

    /// Announces the calls and ranges of a session that are still open; marks them, so that their end is not late.
    fn announce_open(&self, session: u32) -> u64 {
        let mut open = 0;
        for lane in self.lanes() {
            let thread = lane.owner.load(Ordering::Acquire) as u32;
            for ([what, ticks, correlation], exported) in lane.open_calls() {
                if high(what) != session || thread == 0 {
                    continue;
                }
                let words = [
                    ticks,
                    0,
                    correlation,
                    0,
                    u64::from(low(what)),
                    0,
                    pair(0, thread),
                ];
                self.open_fact(Kind::OpenCall, session, &words);
                exported.store(session.into(), Ordering::Relaxed);
                open += 1;
            }
            for [owner, ticks, correlation, name] in lane.open_ranges() {
                if owner == u64::from(session) && thread != 0 {
                    let words = [ticks, 0, correlation, 0, 0, name, pair(0, thread)];
                    self.open_fact(Kind::OpenRange, session, &words);
                    open += 1;
                }
            }
        }
        open
    }

    fn open_fact(&self, kind: Kind, session: u32, words: &[u64; CELL_WORDS - 1]) {
        let lane = self.fact_lane(session);
        if let Some(inside) = lane.as_deref().and_then(|lane| lane.enter(session)) {
            let mut all = [head_word(kind, 1, flag::OPEN, session), 0, 0, 0, 0, 0, 0, 0];
            all[1..].copy_from_slice(words);
            inside.announce(&all);
        }
    }
}

impl Accounting {
    fn remember(&mut self, end: SessionEnd) {
        if self.taken.len() == TAKEN_KEPT {
            self.taken.remove(0);
        }
        self.taken.push(end);
    }
}

/// The vendor time of an arrival or a loss, from its ticks: backwards from now, at the nominal rate, never before the session.
fn arrival_ns(ticks: u64, now: crate::anchors::TickAnchor, pending: &Pending) -> u64 {
    let ago = u128::from(now.ticks.saturating_sub(ticks)) * 1_000_000_000
        / u128::from(clock::ticks_per_second());
    now.vendor_ns
        .saturating_sub(ago as u64)
        .max(pending.begin_ns)
}

mod outstanding;

pub(crate) use outstanding::OutstandingList;

#[cfg(test)]
mod tests;
