//! What stands between two readings of the clock, and what of it they hide: where the limits of the append table come from.
//! No peer and nothing of ours is called here; each row is a few instructions.
//!
//! *Warm* rows repeat one reading and something behind it; the figure is the time of both, so "nothing" is R. *Cold* rows
//! put a word out of all caches, and then take readings around a load and a test of it, or a few of them. *Chase* rows
//! follow addresses through memory of one size, in huge pages: what a load from there takes.

use crate::arguments::Arguments;

/// Prints the rows.
///
/// # Errors
/// On another processor than x86-64.
#[cfg(not(target_arch = "x86_64"))]
pub fn run(_arguments: &Arguments) -> Result<(), String> {
    Err("readings: only on x86-64".to_owned())
}

#[cfg(target_arch = "x86_64")]
pub use rows::run;

#[cfg(target_arch = "x86_64")]
mod rows {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, _mm_clflush, _mm_lfence, _mm_mfence};
    use std::hint::black_box;

    use super::Arguments;
    use crate::clock::{self, Scale, median, percentile};

    /// Repetitions of a row, and what each repeats.
    const ROUNDS: usize = 41;
    const EACH: usize = 2_000;
    /// Samples of a cold row.
    const SAMPLES: usize = 401;

    /// A line of its own.
    #[repr(align(128))]
    struct Line([u64; 32]);

    pub fn run(arguments: &Arguments) -> Result<(), String> {
        let scale = Scale::measure();
        let print = |kind: &str, row: &str, ns: f64| {
            if arguments.json {
                println!("{{\"readings\":\"{kind}\",\"row\":\"{row}\",\"ns\":{ns:.2}}}");
            } else {
                println!("{kind:<6} {row:<60} {ns:>7.1} ns");
            }
        };
        warm(scale, |row, ns| print("warm", row, ns));
        cold(scale, |row, ns| print("cold", row, ns));
        for kib in [32, 512, 8 << 10, 64 << 10] {
            let row = format!("a load from {kib} KiB, its address from the load before");
            print("chase", &row, chase(kib << 10, scale)?);
        }
        Ok(())
    }

    /// Median time of one turn of `body`, ns.
    #[inline(always)]
    fn turns(scale: Scale, mut body: impl FnMut()) -> f64 {
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let first = clock::ticks();
            for _ in 0..EACH {
                body();
            }
            rounds.push((clock::ticks() - first) as f64 * scale.ns_per_tick / EACH as f64);
        }
        median(rounds)
    }

    fn warm(scale: Scale, mut print: impl FnMut(&str, f64)) {
        let mut line = Line([0; 32]);
        let words = line.0.as_mut_ptr();
        // A cell that holds its own address: a chain of loads through it.
        // SAFETY: word 16 of 32.
        let cell = unsafe { words.add(16) };
        // SAFETY: as above; nothing else refers to the line.
        unsafe { cell.write(cell as u64) };
        macro_rules! row {
            ($name:expr, $($code:expr),* ; $($register:tt)*) => {
                print($name, turns(scale, || {
                    black_box(clock::ticks());
                    // SAFETY: it reads the cell, which holds its own address, or writes the 16 words before it, which nothing
                    // else looks at.
                    unsafe { asm!($($code,)* $($register)* options(nostack)) };
                }))
            };
        }
        print(
            "nothing: R",
            turns(scale, || {
                black_box(clock::ticks());
            }),
        );
        row!("20 instructions that do nothing", ".rept 20", "nop", ".endr";);
        row!("60 instructions that do nothing", ".rept 60", "nop", ".endr";);
        row!("120 instructions that do nothing", ".rept 120", "nop", ".endr";);
        macro_rules! stores {
            ($count:literal) => {
                row!(concat!($count, " stores"),
                    concat!(".set strandline_at, 0\n .rept ", $count),
                    "mov qword ptr [{words} + 8 * (strandline_at % 16)], 1",
                    ".set strandline_at, strandline_at + 1", ".endr"; words = in(reg) words,)
            };
        }
        stores!(8);
        stores!(16);
        stores!(24);
        macro_rules! loads {
            ($count:literal) => {
                row!(concat!("loads in a chain, each from where the last one said: ", $count),
                    concat!(".rept ", $count), "mov {cell}, qword ptr [{cell}]", ".endr";
                    cell = inout(reg) cell => _,)
            };
        }
        loads!(1);
        loads!(3);
        loads!(4);
        loads!(6);
        loads!(8);
    }

    /// Median time between two readings, of `body` between them and the word in no cache, ns.
    #[inline(always)]
    fn sample(scale: Scale, word: *const u64, body: impl Fn()) -> f64 {
        let mut samples = Vec::with_capacity(SAMPLES);
        for _ in 0..SAMPLES {
            // SAFETY: SSE2 is part of x86-64; the line of a live word is put out of the caches, its content stays.
            unsafe {
                _mm_clflush(word.cast());
                _mm_mfence();
                _mm_lfence();
            }
            let first = clock::ticks();
            body();
            samples.push((clock::ticks() - first).min(u32::MAX.into()) as u32);
        }
        samples.sort_unstable();
        f64::from(percentile(&samples, 0.5)) * scale.ns_per_tick
    }

    fn cold(scale: Scale, mut print: impl FnMut(&str, f64)) {
        let line = Line([1; 32]);
        let word = line.0.as_ptr();
        let test = || {
            // SAFETY: a live word. Volatile: loaded each time, and where it stands.
            if unsafe { word.read_volatile() } == 0 {
                std::process::abort();
            }
        };
        let read = || {
            black_box(clock::ticks());
        };
        print("nothing between two readings", sample(scale, word, || ()));
        print("a cold word's test", sample(scale, word, test));
        print(
            "a reading, and then a cold word's test",
            sample(scale, word, || {
                read();
                test();
            }),
        );
        print(
            "a cold word's test, and then a reading",
            sample(scale, word, || {
                test();
                read();
            }),
        );
    }

    /// What one load of a chain through `bytes` of memory takes, ns.
    fn chase(bytes: usize, scale: Scale) -> Result<f64, String> {
        const HUGE: usize = 2 << 20;
        let length = bytes.next_multiple_of(HUGE) + HUGE;
        // SAFETY: new anonymous memory, nobody else's; it is given back below.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(format!(
                "mapping {length} bytes: {}",
                std::io::Error::last_os_error()
            ));
        }
        let start = memory.addr().next_multiple_of(HUGE) - memory.addr();
        let base: *mut u8 = memory.cast::<u8>().wrapping_add(start);
        // SAFETY: advice about the mapping made above.
        unsafe {
            libc::madvise(
                base.cast(),
                bytes.next_multiple_of(HUGE),
                libc::MADV_HUGEPAGE,
            )
        };
        // All lines in one ring, in an order that no prefetcher guesses: a shuffle by a fixed generator.
        let mut order: Vec<usize> = (0..bytes / 64).collect();
        let mut state = __cpuid(0).eax as u64 | 1;
        for at in (1..order.len()).rev() {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            order.swap(at, (state >> 33) as usize % (at + 1));
        }
        for (at, &line) in order.iter().enumerate() {
            let next = order[(at + 1) % order.len()];
            // SAFETY: both lines lie in the mapping.
            unsafe {
                base.add(line * 64)
                    .cast::<*mut u8>()
                    .write(base.add(next * 64))
            };
        }
        let mut place = base;
        let mut follow = |loads: usize| {
            for _ in 0..loads {
                // SAFETY: every line holds the address of another.
                place = unsafe { place.cast::<*mut u8>().read_volatile() };
            }
        };
        follow(order.len());
        let loads = order.len().max(1 << 20);
        let first = clock::ticks();
        follow(loads);
        let took = clock::ticks() - first;
        // SAFETY: the mapping made above, not used any more.
        unsafe { libc::munmap(memory, length) };
        Ok(took as f64 * scale.ns_per_tick / loads as f64)
    }
}
