//! The gate between append and stop: after a stop has closed the gate and waited, no append that saw it open is still
//! under way, and none that starts later sees it open.
//!
//! It is a store/load race on both sides. An append stores its lane's `inside` word, then loads the session word; a
//! stop stores the session word, then loads every lane's `inside` word. Between the two steps each side needs a full
//! barrier. Append must not pay for one, so the stop pays for both: `membarrier(PRIVATE_EXPEDITED)` makes every running
//! thread of the process execute a barrier. Where the kernel refuses that, append executes a fence itself.
//!
//! | step | append (the lane's thread) | stop |
//! |---|---|---|
//! | 1 | `inside := place on the stack` | session word := closed |
//! | barrier | compiler fence (or `fence(SeqCst)`) | membarrier (or `fence(SeqCst)`) |
//! | 2 | load the session word; write; publish | load `inside` until it is 0 |
//! | 3 | `inside := 0` | read heads and counters |
//!
//! The models use SeqCst fences on both sides, which is what the membarrier amounts to.
//!
//! What the gate can't see: a signal handler that forks while its thread is inside an append (the child then finishes that
//! one append, in the parent's region); a stack that is switched under an append (it looks like a jump out of a handler,
//! see `was_jumped_over`); a jump out of the moment in which a sealed segment is handed to the ring (what lies behind that
//! place gets no checksum any more).
//!
//! Promise 3, and the "then reads the heads" of stop. Progress: append's side is wait-free; stop's side waits for other
//! threads, at most until its deadline.

use crate::sync::{Ordering, Word, fence};

/// How appends order their two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Barrier {
    /// The stop executes a membarrier; append only keeps the compiler in order.
    Membarrier = 1,
    /// Append executes a fence.
    #[cfg_attr(loom, allow(dead_code, reason = "the models always use fences"))]
    Fence = 2,
}

/// Append, steps 1 and barrier. `place` says where on its stack the thread is, and is not 0. False: the thread is inside
/// an append already (a signal handler interrupted it); then nothing was changed.
#[inline(always)]
pub(crate) fn enter(inside: &Word, barrier: Barrier, place: u64) -> bool {
    // ORD(inside): Relaxed. Only this thread writes the word; a handler of the same thread reads it.
    if inside.load(Ordering::Relaxed) != 0 {
        return false;
    }
    // ORD(inside): Relaxed store, ordered before the load of the session word by the barrier that follows; pairs with
    // the Acquire load in `left`. Model: `models::after_close_nobody_is_inside_with_an_open_session`.
    inside.store(place, Ordering::Relaxed);
    order(barrier);
    true
}

/// Where on its stack the calling thread is; never 0. What interrupts the caller runs below it, unless it has a stack of
/// its own.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn place() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let place: u64;
        // SAFETY: copies the stack pointer, touches nothing.
        unsafe {
            std::arch::asm!("mov {}, rsp", out(reg) place, options(nomem, nostack, preserves_flags));
        }
        place
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let here = 0u8;
        std::ptr::from_ref(std::hint::black_box(&here)) as u64
    }
}

/// For a thread that was refused: true when the append that it is said to be inside of was left by a jump out of a
/// signal handler, so that nobody will ever leave it. A handler on the same stack runs below the append that it
/// interrupted; so who stands at its place or above, and on no signal stack, has come back without it. A thread that
/// jumped and stays below keeps being refused. One system call, only for who stands above.
#[cfg(not(loom))]
#[cold]
pub(crate) fn was_jumped_over(inside: &Word, place: u64) -> bool {
    let interrupted = inside.load(Ordering::Relaxed);
    if interrupted == 0 || place < interrupted {
        return false;
    }
    // SAFETY: plain data, valid for writing; nothing is changed.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &mut stack) == 0
            && stack.ss_flags & libc::SS_ONSTACK == 0
    }
}

#[cfg(not(loom))]
#[inline(always)]
fn order(barrier: Barrier) {
    if barrier == Barrier::Fence {
        fence(Ordering::SeqCst);
    } else {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
}

#[cfg(loom)]
fn order(_barrier: Barrier) {
    fence(Ordering::SeqCst);
}

/// Append, step 3.
#[inline(always)]
pub(crate) fn leave(inside: &Word) {
    // ORD(inside): Release. Pairs with the Acquire load in `left`: whoever sees 0 sees all that the append wrote.
    inside.store(0, Ordering::Release);
}

/// Stop, the barrier between its two steps.
#[cfg(not(loom))]
pub(crate) fn heavy_barrier(barrier: Barrier) {
    fence(Ordering::SeqCst);
    if barrier == Barrier::Membarrier {
        membarrier(MEMBARRIER_PRIVATE_EXPEDITED);
    }
}

/// Stop, the barrier between its two steps.
#[cfg(loom)]
pub(crate) fn heavy_barrier(_barrier: Barrier) {
    fence(Ordering::SeqCst);
}

/// Stop, step 2 for one lane: true when its thread has left the append it was inside of.
#[inline]
pub(crate) fn left(inside: &Word) -> bool {
    // ORD(inside): Acquire. Pairs with the Release store in `leave`.
    inside.load(Ordering::Acquire) == 0
}

#[cfg(not(loom))]
const MEMBARRIER_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
#[cfg(not(loom))]
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

#[cfg(not(loom))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes no pointers and changes nothing but the order of memory accesses.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Registers the process for membarrier; once, at load. Says which barrier appends must use.
#[cfg(not(loom))]
pub(crate) fn register() -> Barrier {
    if membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_PRIVATE_EXPEDITED)
    {
        Barrier::Membarrier
    } else {
        Barrier::Fence
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn after_close_nobody_is_inside_with_an_open_session() {
        loom::model(|| {
            // session, inside, head: the lane publishes by raising head.
            let words = Arc::new([Word::new(1), Word::new(0), Word::new(0)]);
            let lane = Arc::clone(&words);
            let appender = thread::spawn(move || {
                let [session, inside, head] = &*lane;
                let mut accepted = 0;
                for _ in 0..2 {
                    assert!(enter(inside, Barrier::Membarrier, 1));
                    if session.load(Ordering::Relaxed) == 1 {
                        accepted += 1;
                        head.store(accepted, Ordering::Release);
                    }
                    leave(inside);
                }
                accepted
            });
            let [session, inside, head] = &*words;
            session.store(0, Ordering::Relaxed);
            heavy_barrier(Barrier::Membarrier);
            while !left(inside) {
                thread::yield_now();
            }
            let seen = head.load(Ordering::Acquire);
            assert_eq!(
                seen,
                appender.join().unwrap(),
                "an append was accepted after stop had read the head"
            );
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_handler_that_interrupts_an_append_is_refused() {
        let inside = Word::new(0);
        assert!(enter(&inside, Barrier::Fence, 1));
        assert!(!enter(&inside, Barrier::Fence, 1));
        assert!(!left(&inside));
        leave(&inside);
        assert!(left(&inside) && enter(&inside, register(), 1));
    }
}
