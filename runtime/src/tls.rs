//! One thread-local word: the thread's lane.
//!
//! `thread_local!` in a shared library calls `__tls_get_addr`, and its first use in a thread may allocate. This word
//! uses the initial-exec model instead: one load of the offset from the GOT, one load relative to the thread pointer,
//! on every thread from its first instruction on. The price is 8 bytes of the static TLS block, which glibc keeps room
//! for when a library is loaded by `dlopen`.
//!
//! Usable everywhere: signal handlers, TLS destructors, after finalize.

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod word {
    use std::arch::{asm, global_asm};

    // A hidden symbol: each shared library that contains this crate has its own word.
    global_asm!(
        ".pushsection .tbss.strandline_lane,\"awT\",@nobits",
        ".hidden strandline_tls_lane",
        ".globl strandline_tls_lane",
        ".type strandline_tls_lane, @object",
        ".size strandline_tls_lane, 8",
        ".p2align 3",
        "strandline_tls_lane:",
        ".zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub(crate) fn get() -> u64 {
        let value: u64;
        // SAFETY: reads this thread's own word; the linker fills the GOT entry with the word's offset from the
        // thread pointer, which x86-64 keeps in FS.
        unsafe {
            asm!(
                "mov {value}, qword ptr [rip + strandline_tls_lane@GOTTPOFF]",
                "mov {value}, qword ptr fs:[{value}]",
                value = out(reg) value,
                options(nostack, readonly, preserves_flags),
            );
        }
        value
    }

    #[inline]
    pub(crate) fn set(value: u64) {
        // SAFETY: writes this thread's own word, as in `get`.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + strandline_tls_lane@GOTTPOFF]",
                "mov qword ptr fs:[{offset}], {value}",
                offset = out(reg) _,
                value = in(reg) value,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(any(not(target_arch = "x86_64"), loom))]
mod word {
    use std::cell::Cell;

    thread_local! {
        static LANE: Cell<u64> = const { Cell::new(0) };
    }

    #[inline]
    pub(crate) fn get() -> u64 {
        LANE.with(Cell::get)
    }

    #[inline]
    pub(crate) fn set(value: u64) {
        LANE.with(|lane| lane.set(value));
    }
}

pub(crate) use word::{get, set};

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn each_thread_has_its_own_word_and_it_starts_at_zero() {
        super::set(7);
        std::thread::spawn(|| {
            assert_eq!(super::get(), 0);
            super::set(8);
            assert_eq!(super::get(), 8);
        })
        .join()
        .unwrap();
        assert_eq!(super::get(), 7);
        super::set(0);
    }
}
