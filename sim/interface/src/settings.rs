//! Settings of the simulation: environment variables `ROCSIM_*`, read once when a stand-in is loaded.
//!
//! | variable | value | default |
//! |---|---|---|
//! | `ROCSIM_LATE` | how late a record's handler runs after the device finished: a [`Delay`] | on time |
//! | `ROCSIM_STALL` | `P:LO:HI`: with probability P a record's handler first blocks its thread | never |
//! | `ROCSIM_FAIL_TIMING` | probability that the device gives no times: id retired, no record | 0 |
//! | `ROCSIM_HANDLERS` | handler threads, 1 to 64 | 1 |
//! | `ROCSIM_HANDLER_NS` | time that each handler takes besides the tools' callbacks | 0 |
//! | `ROCSIM_ORDER` | `fifo`, or `newest-first` among the records that are due | fifo |
//! | `ROCSIM_SEED` | seed of all that is random | 1 |
//! | `ROCSIM_DEVICES` | GPUs, 0 to 64 | 1 |
//! | `ROCSIM_QUEUES` | hardware queues for each GPU, 1 to 64 | 4 |
//! | `ROCSIM_RING` | packets that fit a hardware queue; 0 = never full | 0 |
//! | `ROCSIM_THROTTLE` | 1: the SDK's process-wide count of 16 slows further dispatches | 0 |
//! | `ROCSIM_KERNEL_NS` | how long kernels run: a [`Delay`] | `fixed:1us` |
//! | `ROCSIM_COPY_NS` | what each copy takes besides its bytes | 2us |
//! | `ROCSIM_SCRATCH` | probability that a dispatch needs a scratch allocation | 0 |
//! | `ROCSIM_NESTED` | 1: hipMemcpy and hipMemset call their async forms as traced calls | 0 |
//! | `ROCSIM_CLOCK` | first time of the clock in ns (replays); `boottime` | boottime |
//! | `ROCSIM_GPU_NAME`, `ROCSIM_GPU_GFX` | product name, and target as `gfx942` | MI300X |
//! | `ROCSIM_LEDGER` | file for the ground truth, JSON lines | none |
//! | `ROCSIM_PLANTED_OVERFLOW` | N: the SDK writes 8 bytes past a heap block at the Nth completion | never |
//!
//! Durations take `ns`, `us`, `ms`, `s` (none = ns); probabilities are `0.001` or `0.1%`.
//! A bad value is reported once on stderr and the default used; the workload command checks
//! beforehand and refuses.

use std::env;
use std::str::FromStr;

/// A seeded distribution of durations in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// Always the same: `fixed:10ms`, or just `10ms`.
    Fixed(u64),
    /// Evenly between two values: `uniform:5ms:40ms`.
    Uniform(u64, u64),
    /// With a probability evenly between two values, else 0: `tail:0.1%:60ms:200ms`.
    Tail(f64, u64, u64),
}

impl Delay {
    /// The delay in ns that belongs to a random 64-bit number.
    #[inline]
    #[must_use]
    pub fn sample(&self, random: u64) -> u64 {
        match *self {
            Self::Fixed(ns) => ns,
            Self::Uniform(lo, hi) => between(lo, hi, random),
            Self::Tail(p, lo, hi) => {
                if unit(random) < p {
                    between(lo, hi, mix(random, 0x7a11))
                } else {
                    0
                }
            }
        }
    }

    /// Is it always 0?
    #[must_use]
    pub fn is_zero(&self) -> bool {
        matches!(*self, Self::Fixed(0))
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let range = |lo: &str, hi: &str| -> Result<(u64, u64), String> {
            let (lo, hi) = (duration_ns(lo)?, duration_ns(hi)?);
            if lo > hi {
                return Err(format!("`{text}`: the lower bound is above the upper"));
            }
            Ok((lo, hi))
        };
        match parts.as_slice() {
            ["none"] => Ok(Self::Fixed(0)),
            [value] => Ok(Self::Fixed(duration_ns(value)?)),
            ["fixed", value] => Ok(Self::Fixed(duration_ns(value)?)),
            ["uniform", lo, hi] => range(lo, hi).map(|(lo, hi)| Self::Uniform(lo, hi)),
            ["tail", p, lo, hi] => {
                let p = probability(p)?;
                range(lo, hi).map(|(lo, hi)| Self::Tail(p, lo, hi))
            }
            _ => Err(format!(
                "`{text}`: expected fixed:T, uniform:LO:HI or tail:P:LO:HI, such as tail:0.1%:60ms:200ms"
            )),
        }
    }
}

/// Blocking of a handler thread: probability for each record, and how long in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    /// Probability for each record, 0 to 1.
    pub probability: f64,
    /// Shortest in ns.
    pub lo_ns: u64,
    /// Longest in ns.
    pub hi_ns: u64,
}

impl Stall {
    /// The stall in ns for a random 64-bit number; 0 = none.
    #[inline]
    #[must_use]
    pub fn sample(&self, random: u64) -> u64 {
        if self.probability > 0.0 && unit(random) < self.probability {
            between(self.lo_ns, self.hi_ns, mix(random, 0x57a1))
        } else {
            0
        }
    }
}

impl FromStr for Stall {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let [p, lo, hi] = parts.as_slice() else {
            return Err(format!(
                "`{text}`: expected P:LO:HI, such as 0.1%:40ms:80ms"
            ));
        };
        let stall = Self {
            probability: probability(p)?,
            lo_ns: duration_ns(lo)?,
            hi_ns: duration_ns(hi)?,
        };
        if stall.lo_ns > stall.hi_ns {
            return Err(format!("`{text}`: the lower bound is above the upper"));
        }
        Ok(stall)
    }
}

/// All settings of one process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Lateness of records.
    pub late: Delay,
    /// Stalls of handler threads.
    pub stall: Stall,
    /// Probability of a failed timing.
    pub fail_timing: f64,
    /// Handler threads.
    pub handlers: usize,
    /// Time that each handler takes, in ns.
    pub handler_ns: u64,
    /// Newest first among the records that are due.
    pub newest_first: bool,
    /// Seed.
    pub seed: u64,
    /// GPUs.
    pub devices: usize,
    /// Hardware queues for each GPU.
    pub queues: usize,
    /// Packets that fit a hardware queue; 0 = never full.
    pub ring: usize,
    /// The SDK's throttle.
    pub throttle: bool,
    /// How long kernels run.
    pub kernel_ns: Delay,
    /// What each copy takes besides its bytes, in ns.
    pub copy_ns: u64,
    /// Probability that a dispatch needs a scratch allocation.
    pub scratch: f64,
    /// Nested HIP calls.
    pub nested: bool,
    /// First time of the clock in ns; 0 = the machine's clock.
    pub clock_ns: u64,
    /// Product name of the GPUs.
    pub gpu_name: String,
    /// Target of the GPUs, such as `gfx942`.
    pub gpu_gfx: String,
    /// Ground-truth file.
    pub ledger: Option<String>,
    /// Completion at which the SDK writes past a heap block; 0 = never.
    pub planted_overflow: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            late: Delay::Fixed(0),
            stall: Stall {
                probability: 0.0,
                lo_ns: 0,
                hi_ns: 0,
            },
            fail_timing: 0.0,
            handlers: 1,
            handler_ns: 0,
            newest_first: false,
            seed: 1,
            devices: 1,
            queues: 4,
            ring: 0,
            throttle: false,
            kernel_ns: Delay::Fixed(1000),
            copy_ns: 2_000,
            scratch: 0.0,
            nested: false,
            clock_ns: 0,
            gpu_name: "AMD Instinct MI300X (simulated)".to_owned(),
            gpu_gfx: "gfx942".to_owned(),
            ledger: None,
            planted_overflow: 0,
        }
    }
}

impl Settings {
    /// Reads the environment. Second: what was wrong with it, one line each.
    #[must_use]
    pub fn from_env() -> (Self, Vec<String>) {
        let mut settings = Self::default();
        let mut problems = Vec::new();
        for (name, value) in env::vars_os() {
            let Some(key) = name.to_str().and_then(|n| n.strip_prefix("ROCSIM_")) else {
                continue;
            };
            let result = match value.to_str() {
                Some(value) => settings.set(key, value),
                None => Err("not UTF-8".to_owned()),
            };
            if let Err(problem) = result {
                problems.push(format!("ROCSIM_{key}: {problem}; using the default"));
            }
        }
        (settings, problems)
    }

    /// Sets one value by its name without `ROCSIM_`.
    ///
    /// # Errors
    /// The value is malformed or out of range, or the name is unknown. The setting keeps its value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "LATE" => self.late = value.parse()?,
            "STALL" => self.stall = value.parse()?,
            "FAIL_TIMING" => self.fail_timing = probability(value)?,
            "HANDLERS" => self.handlers = count(value, 1, 64)?,
            "HANDLER_NS" => self.handler_ns = duration_ns(value)?,
            "ORDER" => {
                self.newest_first = match value {
                    "fifo" => false,
                    "newest-first" => true,
                    _ => return Err(format!("`{value}`: expected fifo or newest-first")),
                }
            }
            "SEED" => {
                self.seed = value
                    .parse()
                    .map_err(|_| format!("`{value}`: expected a whole number"))?;
            }
            "DEVICES" => self.devices = count(value, 0, 64)?,
            "QUEUES" => self.queues = count(value, 1, 64)?,
            "RING" => self.ring = count(value, 0, 1 << 24)?,
            "THROTTLE" => self.throttle = flag(value)?,
            "KERNEL_NS" => self.kernel_ns = value.parse()?,
            "COPY_NS" => self.copy_ns = duration_ns(value)?,
            "SCRATCH" => self.scratch = probability(value)?,
            "NESTED" => self.nested = flag(value)?,
            "CLOCK" => {
                self.clock_ns = if value == "boottime" {
                    0
                } else {
                    duration_ns(value)?
                }
            }
            "GPU_NAME" => self.gpu_name = value.to_owned(),
            "GPU_GFX" => self.gpu_gfx = value.to_owned(),
            "LEDGER" => self.ledger = Some(value.to_owned()).filter(|v| !v.is_empty()),
            "PLANTED_OVERFLOW" => self.planted_overflow = count(value, 0, usize::MAX)? as u64,
            _ => return Err("no such setting".to_owned()),
        }
        Ok(())
    }
}

/// Parses a duration such as `10ms`; without a unit it is ns.
///
/// # Errors
/// Not a number, or an unknown unit.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "" | "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000_u64,
        _ => {
            return Err(format!(
                "`{text}`: unknown unit `{unit}`; use ns, us, ms or s"
            ));
        }
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(scale)
            .ok_or_else(|| format!("`{text}`: too long"));
    }
    match number.parse::<f64>() {
        // Durations are far below 2^53 ns, so the conversion keeps them.
        Ok(number) if number >= 0.0 && number * (scale as f64) < 9e15 => {
            Ok((number * scale as f64) as u64)
        }
        _ => Err(format!("`{text}`: expected a duration such as 10ms")),
    }
}

/// Parses a probability: `0.001` or `0.1%`.
///
/// # Errors
/// Not a number between 0 and 1 (0% and 100%).
pub fn probability(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(p) if (0.0..=1.0).contains(&(p * scale)) => Ok(p * scale),
        _ => Err(format!(
            "`{text}`: expected a probability such as 0.001 or 0.1%"
        )),
    }
}

/// Well-mixed 64-bit number from a seed and a counter (splitmix64's finalizer).
#[inline]
#[must_use]
pub fn mix(seed: u64, counter: u64) -> u64 {
    let mut z = seed
        .wrapping_add(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Number in [0, 1) from 64 random bits.
#[inline]
#[must_use]
pub fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

fn between(lo: u64, hi: u64, random: u64) -> u64 {
    let span = u128::from(hi - lo) + 1;
    // The product shifted by 64 is below `span`, so it fits.
    lo + ((u128::from(random) * span) >> 64) as u64
}

fn count(text: &str, lo: usize, hi: usize) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if (lo..=hi).contains(&n) => Ok(n),
        _ => Err(format!(
            "`{text}`: expected a whole number from {lo} to {hi}"
        )),
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "1" | "on" | "true" => Ok(true),
        "0" | "off" | "false" | "" => Ok(false),
        _ => Err(format!("`{text}`: expected 1 or 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_parse() {
        assert_eq!("fixed:10ms".parse(), Ok(Delay::Fixed(10_000_000)));
        assert_eq!("10ms".parse(), Ok(Delay::Fixed(10_000_000)));
        assert_eq!(
            "uniform:5ms:40ms".parse(),
            Ok(Delay::Uniform(5_000_000, 40_000_000))
        );
        assert_eq!(
            "tail:0.1%:60ms:200ms".parse(),
            Ok(Delay::Tail(0.001, 60_000_000, 200_000_000))
        );
        for bad in [
            "",
            "fixed",
            "uniform:9ms:1ms",
            "tail:2:1ms:2ms",
            "5 parsecs",
        ] {
            assert!(bad.parse::<Delay>().is_err(), "{bad}");
        }
    }

    #[test]
    fn samples_stay_in_range_and_hit_the_probability() {
        let delay = Delay::Tail(0.1, 10, 20);
        let mut late = 0;
        for i in 0..100_000 {
            let ns = delay.sample(mix(7, i));
            assert!(ns == 0 || (10..=20).contains(&ns));
            late += u32::from(ns != 0);
        }
        assert!((9_500..10_500).contains(&late), "{late}");
    }

    #[test]
    fn a_bad_value_keeps_the_default() {
        let mut settings = Settings::default();
        assert!(settings.set("HANDLERS", "0").is_err());
        assert_eq!(settings.handlers, 1);
        assert!(settings.set("NO_SUCH", "1").is_err());
    }
}
