//! The control page: the few words that every append tests.
//!
//! It is one private page with `MADV_WIPEONFORK`: a forked child finds zeros, which read as "not armed, no session", so
//! everything is refused there at no cost and nothing is written to the parent's region.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `armed` | load (a [`Barrier`] number) | every append |
//! | `session` | start, stop: number of the open session, 0 = none | every first callback |
//! | `newest` | start | decoding a token |
//! | `states` | start, stop, accounting: session << 8 and state | every completion |

use crate::gate::Barrier;
use crate::sync::{Ordering, Word};

/// States that the page keeps apart; a session this far behind the newest counts as taken.
pub(crate) const STATES: usize = 16;

/// What a session is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum SessionState {
    /// Issues belong to it.
    Open = 1,
    /// Nothing new belongs to it; completions still do.
    Closed = 2,
    /// Being accounted for: completions are late, the counters are still read.
    Taken = 3,
    /// Its books are closed: its counters' place may go to another session.
    Booked = 4,
}

/// The page.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Control {
    pub(crate) armed: Word,
    pub(crate) session: Word,
    pub(crate) newest: Word,
    pub(crate) states: [Word; STATES],
}

/// The process's control page. All zero until the runtime is armed.
///
/// On x86-64 it is an assembler symbol of its own, as the thread-local words are (`tls`), so that appends reach it from
/// the instruction pointer. A Rust static is reached through the GOT where the linker does not know better: one more
/// line that may miss the cache before every test, and what stands behind it waits for both (docs/benchmarks.md, "cold").
/// The symbol is hidden: each shared library that contains this crate has its own page.
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod page {
    use super::Control;
    use std::arch::{asm, global_asm};
    use std::mem::offset_of;

    global_asm!(
        ".pushsection .bss.strandline_control,\"aw\",@nobits",
        ".hidden strandline_control",
        ".globl strandline_control",
        ".type strandline_control, @object",
        ".size strandline_control, {bytes}",
        ".p2align 12",
        "strandline_control:",
        ".zero {bytes}",
        ".popsection",
        bytes = const size_of::<Control>(),
    );

    unsafe extern "C" {
        static strandline_control: Control;
    }

    /// The process's page.
    #[inline(always)]
    pub(crate) fn process() -> &'static Control {
        let page: *const Control;
        // SAFETY: the address of the symbol above; touches nothing.
        unsafe {
            asm!(
                "lea {page}, [rip + strandline_control]",
                page = out(reg) page,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        // SAFETY: the symbol is as large and as aligned as a `Control` and there as long as the process; zeros are one,
        // and all its words are atomics.
        unsafe { &*page }
    }

    /// As `process().session_word()`, in one load.
    #[inline(always)]
    pub(crate) fn process_session() -> u64 {
        let session: u64;
        // ORD(inside): Relaxed, as `Control::session_word`: an aligned load of 8 bytes is atomic on x86-64. Not `nomem`, so
        // the gate's compiler fence holds it back.
        // SAFETY: reads a word of the symbol above.
        unsafe {
            asm!(
                "mov {session}, qword ptr [rip + strandline_control + {offset}]",
                session = out(reg) session,
                offset = const offset_of!(Control, session),
                options(readonly, nostack, preserves_flags),
            );
        }
        session
    }

    /// Where the session word lies.
    pub(crate) const fn session_place() -> *const u64 {
        // SAFETY: only the address is taken.
        unsafe { (&raw const strandline_control.session).cast() }
    }
}

/// The same as a static, where there is no assembler form.
#[cfg(not(any(target_arch = "x86_64", loom)))]
mod page {
    use super::Control;

    static CONTROL: Control = Control::new();

    #[inline(always)]
    pub(crate) fn process() -> &'static Control {
        &CONTROL
    }

    #[inline(always)]
    pub(crate) fn process_session() -> u64 {
        CONTROL.session_word()
    }

    pub(crate) const fn session_place() -> *const u64 {
        (&raw const CONTROL.session).cast()
    }
}

#[cfg(not(loom))]
pub(crate) use page::{process, process_session, session_place};

impl Control {
    /// A page that is not armed: of the process where it is a static, and of a test.
    #[cfg(all(not(loom), any(test, not(target_arch = "x86_64"))))]
    #[allow(clippy::declare_interior_mutable_const, reason = "array initialiser")]
    pub(crate) const fn new() -> Self {
        const ZERO: Word = Word::new(0);
        Self {
            armed: ZERO,
            session: ZERO,
            newest: ZERO,
            states: [ZERO; STATES],
        }
    }

    /// Number of the open session, 0 when none is. One load: the "no session" test.
    #[inline(always)]
    pub fn open_session(&self) -> u32 {
        // ORD(inside): Relaxed. Ordered after the lane's `inside` store by the gate's barrier (see `gate`).
        self.session.load(Ordering::Relaxed) as u32
    }

    /// The whole session word: the open session's number, 0 when none is.
    #[inline(always)]
    pub(crate) fn session_word(&self) -> u64 {
        // ORD(inside): Relaxed, as for `open_session`.
        self.session.load(Ordering::Relaxed)
    }

    /// How appends must order themselves; `None` when the runtime is not armed (or this is a forked child).
    #[inline(always)]
    pub(crate) fn barrier(&self) -> Option<Barrier> {
        // ORD(armed): Relaxed. Set before the first callback can come, which the SDK's registration orders.
        match self.armed.load(Ordering::Relaxed) {
            1 => Some(Barrier::Membarrier),
            2 => Some(Barrier::Fence),
            _ => None,
        }
    }

    /// The full number of the session whose low 16 bits travelled in a token.
    #[inline(always)]
    pub(crate) fn expand(&self, low: u16) -> u32 {
        // ORD(newest): Relaxed. The token was made after the session became the newest, on this thread or on one that
        // the SDK ordered before it.
        let newest = self.newest.load(Ordering::Relaxed) as u32;
        newest.wrapping_sub(u32::from((newest as u16).wrapping_sub(low)))
    }

    /// True when a completion of `session` still belongs to it.
    #[inline(always)]
    pub(crate) fn accepts(&self, session: u32) -> bool {
        // ORD(inside): Relaxed, as for the session word.
        let word = self.states[session as usize % STATES].load(Ordering::Relaxed);
        word >> 8 == u64::from(session) && word & 0xff < SessionState::Taken as u64
    }

    pub(crate) fn state(&self, session: u32) -> SessionState {
        let word = self.states[session as usize % STATES].load(Ordering::Acquire);
        match (word >> 8 == u64::from(session), word & 0xff) {
            (true, 1) => SessionState::Open,
            (true, 2) => SessionState::Closed,
            (true, 3) => SessionState::Taken,
            _ => SessionState::Booked,
        }
    }

    pub(crate) fn set_state(&self, session: u32, state: SessionState) {
        // ORD(state): Release. Whoever reads the new state sees the books that were closed before.
        let word = u64::from(session) << 8 | state as u64;
        self.states[session as usize % STATES].store(word, Ordering::Release);
    }
}

/// What travels in the SDK's `user_data` from a first callback to the last: 48 bits of the caller's, and below them the
/// session's low 16 bits. All zero = no session saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Token(pub u64);

impl Token {
    /// No session.
    pub const NONE: Self = Self(0);

    #[inline(always)]
    pub(crate) fn new(session: u32, payload: u64) -> Self {
        Self(payload << 16 | u64::from(session as u16))
    }

    /// True when no session saw the first callback.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(crate) fn session(self) -> u16 {
        self.0 as u16
    }

    /// The whole number of ticks whose low 48 bits travelled: the newest such before `end`.
    #[inline(always)]
    pub(crate) fn start_before(self, end: u64) -> u64 {
        // The ones below keep the session's bits from borrowing.
        end.wrapping_sub((end << 16 | 0xffff).wrapping_sub(self.0) >> 16)
    }

    /// The 48 bits that the first callback put in.
    #[inline(always)]
    pub fn payload(self) -> u64 {
        self.0 >> 16
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tokens_find_their_session_across_the_wrap_of_16_bits() {
        let control = Control::new();
        for newest in [1u32, 70_000, 65_535, 65_537, u32::MAX] {
            control.newest.store(newest.into(), Ordering::Relaxed);
            for back in [0u32, 1, 3, 15, 60_000] {
                let Some(session) = newest.checked_sub(back).filter(|session| *session > 0) else {
                    continue;
                };
                assert_eq!(control.expand(Token::new(session, 5).session()), session);
            }
        }
        assert_eq!(Token::new(3, u64::MAX).payload(), (1 << 48) - 1);
        for session in [1, 3, 0xffff, 0x1_0000, 0x1_0001] {
            for (start, end) in [
                (0, 0),
                (5, 5),
                (5, 70_000),
                ((1 << 48) - 1, 1 << 48),
                (u64::MAX - 3, u64::MAX),
                (1 << 50, (1 << 50) + (1 << 48) - 1),
            ] {
                assert_eq!(Token::new(session, start).start_before(end), start);
            }
        }
    }

    #[test]
    fn a_session_is_accepted_until_it_is_taken_and_its_slot_is_its_own() {
        let control = Control::new();
        assert!(!control.accepts(5));
        control.set_state(5, SessionState::Open);
        assert!(control.accepts(5) && !control.accepts(5 + STATES as u32));
        control.set_state(5, SessionState::Closed);
        assert!(control.accepts(5));
        control.set_state(5, SessionState::Taken);
        assert!(!control.accepts(5));
    }
}
