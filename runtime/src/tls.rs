//! Thread-local words: the thread's lane, and its external ids (see `embed`).
//!
//! `thread_local!` in a shared library calls `__tls_get_addr`, and its first use in a thread may allocate. These words
//! use the initial-exec model instead: one load of the offset from the GOT, one load relative to the thread pointer, on
//! every thread from its first instruction on. The price is 8 bytes each of the static TLS block, which glibc keeps room
//! for when a library is loaded by `dlopen`.
//!
//! Usable everywhere: signal handlers, TLS destructors, after finalize.

/// A word under an assembler symbol of its own. The symbol is hidden: each shared library that contains this crate has
/// its own word.
#[cfg(all(target_arch = "x86_64", not(loom)))]
macro_rules! tls_word {
    ($(#[$doc:meta])* $name:ident, $symbol:literal) => {
        $(#[$doc])*
        pub(crate) mod $name {
            use std::arch::{asm, global_asm};

            global_asm!(
                concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
                concat!(".hidden ", $symbol),
                concat!(".globl ", $symbol),
                concat!(".type ", $symbol, ", @object"),
                concat!(".size ", $symbol, ", 8"),
                ".p2align 3",
                concat!($symbol, ":"),
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
                        concat!("mov {value}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
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
                        concat!("mov {offset}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                        "mov qword ptr fs:[{offset}], {value}",
                        offset = out(reg) _,
                        value = in(reg) value,
                        options(nostack, preserves_flags),
                    );
                }
            }
        }
    };
}

/// A word as the standard library makes it, where there is no assembler form.
#[cfg(any(not(target_arch = "x86_64"), loom))]
macro_rules! tls_word {
    ($(#[$doc:meta])* $name:ident, $symbol:literal) => {
        $(#[$doc])*
        pub(crate) mod $name {
            use std::cell::Cell;

            thread_local! {
                static WORD: Cell<u64> = const { Cell::new(0) };
            }

            #[inline]
            pub(crate) fn get() -> u64 {
                WORD.with(Cell::get)
            }

            #[inline]
            pub(crate) fn set(value: u64) {
                WORD.with(|word| word.set(value));
            }
        }
    };
}

tls_word! {
    /// The thread's lane, 0 = none.
    lane, "strandline_tls_lane"
}
tls_word! {
    /// The thread's external ids, 0 = none.
    external, "strandline_tls_external"
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn each_thread_has_its_own_words_and_they_start_at_zero() {
        super::lane::set(7);
        super::external::set(70);
        std::thread::spawn(|| {
            assert_eq!((super::lane::get(), super::external::get()), (0, 0));
            super::lane::set(8);
            assert_eq!((super::lane::get(), super::external::get()), (8, 0));
            super::lane::set(0);
        })
        .join()
        .unwrap();
        assert_eq!((super::lane::get(), super::external::get()), (7, 70));
        super::lane::set(0);
        super::external::set(0);
    }
}
