//! The bench's own clock: the TSC, as cheap as reading a clock can be. R is what one reading costs.

use std::time::{Duration, Instant};

/// Ticks now.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC is part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        BEGAN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Nanoseconds of one tick, and the cost of one reading.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Nanoseconds of one tick.
    pub ns_per_tick: f64,
    /// R: nanoseconds of one reading, back to back.
    pub rdtsc_ns: f64,
}

impl Scale {
    /// Measures both, over about 25 ms.
    pub fn measure() -> Self {
        let (began, first) = (Instant::now(), ticks());
        while began.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let (took, last) = (began.elapsed(), ticks());
        let ns_per_tick = took.as_nanos() as f64 / (last - first).max(1) as f64;
        let mut rounds: Vec<f64> = (0..21)
            .map(|_| {
                const READS: usize = 1_000;
                let first = ticks();
                for _ in 0..READS {
                    std::hint::black_box(ticks());
                }
                (ticks() - first) as f64 * ns_per_tick / READS as f64
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        Self {
            ns_per_tick,
            rdtsc_ns: rounds[rounds.len() / 2],
        }
    }
}

/// The value at `share` (0 to 1) of sorted samples.
pub fn percentile(sorted: &[u32], share: f64) -> u32 {
    match sorted.len() {
        0 => 0,
        count => sorted[((count as f64 * share) as usize).min(count - 1)],
    }
}

/// The median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
