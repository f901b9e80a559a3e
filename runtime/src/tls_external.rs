//! One thread-local word: the thread's external ids (see `embed`). Built as `tls` is, which says why; each word needs an
//! assembler symbol of its own.

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod word {
    use std::arch::{asm, global_asm};

    // A hidden symbol: each shared library that contains this crate has its own word.
    global_asm!(
        ".pushsection .tbss.strandline_external,\"awT\",@nobits",
        ".hidden strandline_tls_external",
        ".globl strandline_tls_external",
        ".type strandline_tls_external, @object",
        ".size strandline_tls_external, 8",
        ".p2align 3",
        "strandline_tls_external:",
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
                "mov {value}, qword ptr [rip + strandline_tls_external@GOTTPOFF]",
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
                "mov {offset}, qword ptr [rip + strandline_tls_external@GOTTPOFF]",
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
