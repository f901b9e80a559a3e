//! Clock anchors: converting host ticks into the vendor's clock, and the vendor's clock into the kernel's.
//!
//! The timeline's clock is the vendor's. Vendor times are never touched; host times were taken as raw ticks and are
//! converted here, piecewise between anchors (pairs of ticks and vendor ns taken at the same moment: at start and stop,
//! whenever a lane opened a segment, and whenever the clocks bend). Integer arithmetic only, so that the same file always gives the
//! same numbers.

/// One moment in the host's ticks and in the vendor's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TickAnchor {
    /// Host ticks.
    pub ticks: u64,
    /// Vendor clock, ns.
    pub vendor_ns: u64,
}

/// One moment in all clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockAnchor {
    /// Host ticks.
    pub ticks: u64,
    /// Vendor clock, ns.
    pub vendor_ns: u64,
    /// CLOCK_BOOTTIME, ns.
    pub boottime_ns: u64,
    /// CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_MONOTONIC_RAW, ns.
    pub monotonic_raw_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime_ns: u64,
}

/// A piece whose vendor time exceeds what its ticks account for by more than this, and by more than a hundredth, holds a
/// jump: the ticks stood still (a suspend, a paused virtual machine) while the vendor's clock went on. No slew of a clock
/// comes near (the kernel allows 500 ppm).
const JUMP_NS: i128 = 1_000_000;
/// Rates beyond the outermost anchors are taken over about this long, and never over less than a hundredth of it.
const RATE_SPAN_NS: u64 = 1_000_000_000;

/// `vendor_ns` of vendor time for every `ticks`.
#[derive(Clone, Copy, Debug)]
struct Rate {
    vendor_ns: u64,
    ticks: u64,
}

impl Rate {
    /// Vendor ns in `ticks`.
    fn ns(self, ticks: i128) -> i128 {
        // |ticks| is below 2^64 and so is the rate's numerator: the product of their sizes needs all 128 bits.
        let ns = ticks.unsigned_abs() * u128::from(self.vendor_ns) / u128::from(self.ticks.max(1));
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        if ticks < 0 { -ns } else { ns }
    }

    /// What the two anchors say, if that can be: within a hundredth of `nominal`.
    fn between(one: TickAnchor, other: TickAnchor, nominal: Self) -> Option<Self> {
        let rate = Self {
            vendor_ns: other.vendor_ns - one.vendor_ns,
            ticks: other.ticks - one.ticks,
        };
        let expected = nominal.ns(rate.ticks.into());
        let off = (i128::from(rate.vendor_ns) - expected).abs();
        (expected >= i128::from(RATE_SPAN_NS / 100) && off <= expected / 100).then_some(rate)
    }
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            vendor_ns: 1_000_000_000,
            ticks: 1_000_000_000,
        }
    }
}

/// Converts host ticks into vendor ns.
///
/// Between two anchors time is linear. Before the first and after the last one it goes on at the rate of the nearest
/// second of anchors, or, where there is none, at the nominal rate. docs/format.md says what error to expect.
#[derive(Clone, Debug, Default)]
pub struct TickMap {
    anchors: Vec<TickAnchor>,
    /// Ticks of those anchors that nobody took: the ends of pieces before a jump, in order.
    ends: Vec<u64>,
    before: Rate,
    after: Rate,
}

impl TickMap {
    /// A map from anchors in any order. As few as possible are left out so that time does not run backwards: one wrong
    /// anchor does not take the right ones with it.
    pub fn new(mut anchors: Vec<TickAnchor>, ticks_per_second: u64) -> Self {
        anchors.sort_unstable();
        anchors.dedup_by_key(|anchor| anchor.ticks);
        keep_forward(&mut anchors);
        let nominal = Rate {
            vendor_ns: 1_000_000_000,
            ticks: ticks_per_second.max(1),
        };
        let nominal = believed(&anchors, nominal);
        let ends = end_pieces_before_jumps(&mut anchors, nominal);
        Self {
            before: rate_at(&anchors, nominal, false).unwrap_or(nominal),
            after: rate_at(&anchors, nominal, true).unwrap_or(nominal),
            anchors,
            ends,
        }
    }

    /// The anchors in use, in order: time is linear between neighbours.
    pub fn anchors(&self) -> &[TickAnchor] {
        &self.anchors
    }

    /// Those of them that were taken, in order; the others follow from these.
    pub fn taken(&self) -> impl Iterator<Item = TickAnchor> + '_ {
        self.anchors
            .iter()
            .copied()
            .filter(|anchor| self.ends.binary_search(&anchor.ticks).is_err())
    }

    /// Vendor ns at `ticks`. Never wraps: what lies before the vendor clock's zero is 0.
    pub fn vendor_ns(&self, ticks: u64) -> u64 {
        let after = self.anchors.partition_point(|anchor| anchor.ticks <= ticks);
        let (at, rate) = match (after.checked_sub(1), self.anchors.get(after)) {
            (Some(before), Some(next)) => {
                let at = self.anchors[before];
                let rate = Rate {
                    vendor_ns: next.vendor_ns - at.vendor_ns,
                    ticks: next.ticks - at.ticks,
                };
                (at, rate)
            }
            (Some(last), None) => (self.anchors[last], self.after),
            (None, Some(&first)) => (first, self.before),
            (None, None) => {
                let zero = TickAnchor {
                    ticks: 0,
                    vendor_ns: 0,
                };
                (zero, self.after)
            }
        };
        let on = rate.ns(i128::from(ticks) - i128::from(at.ticks));
        i128::from(at.vendor_ns)
            .saturating_add(on)
            .clamp(0, i128::from(u64::MAX)) as u64
    }
}

/// Leaves the longest run of anchors whose vendor time does not fall.
///
/// # Source
/// Longest increasing subsequence by patience sorting (Fredman 1975).
fn keep_forward(anchors: &mut Vec<TickAnchor>) {
    if anchors.is_sorted_by_key(|anchor| anchor.vendor_ns) {
        return;
    }
    // Of all runs of length n + 1 so far, `tails[n]` ends in the lowest time; `previous` leads back through each run.
    let mut tails: Vec<usize> = Vec::new();
    let mut previous = vec![usize::MAX; anchors.len()];
    for (at, anchor) in anchors.iter().enumerate() {
        let length = tails.partition_point(|&tail| anchors[tail].vendor_ns <= anchor.vendor_ns);
        if let Some(before) = length.checked_sub(1) {
            previous[at] = tails[before];
        }
        if length == tails.len() {
            tails.push(at);
        } else {
            tails[length] = at;
        }
    }
    let mut kept = Vec::with_capacity(tails.len());
    let mut at = tails.last().copied();
    while let Some(index) = at {
        kept.push(anchors[index]);
        at = (previous[index] != usize::MAX).then_some(previous[index]);
    }
    kept.reverse();
    *anchors = kept;
}

/// The nominal rate, unless the anchors as a whole and most of their pieces say that it can't be: it was measured within a
/// millisecond, by a thread that may have lost the processor meanwhile.
fn believed(anchors: &[TickAnchor], nominal: Rate) -> Rate {
    let (Some(&first), Some(&last)) = (anchors.first(), anchors.last()) else {
        return nominal;
    };
    let long = |one: TickAnchor, other: TickAnchor| {
        other.vendor_ns - one.vendor_ns >= RATE_SPAN_NS / 100 && other.ticks > one.ticks
    };
    if !long(first, last) || Rate::between(first, last, nominal).is_some() {
        return nominal;
    }
    let mut rates: Vec<Rate> = anchors
        .windows(2)
        .filter(|pair| long(pair[0], pair[1]))
        .map(|pair| Rate {
            vendor_ns: pair[1].vendor_ns - pair[0].vendor_ns,
            ticks: pair[1].ticks - pair[0].ticks,
        })
        .collect();
    // By ns a tick.
    rates.sort_unstable_by_key(|rate| (u128::from(rate.vendor_ns) << 60) / u128::from(rate.ticks));
    match rates.get(rates.len() / 2) {
        // One piece alone may be the one in which the machine slept.
        Some(&median) if rates.len() >= 3 => median,
        _ => nominal,
    }
}

/// Adds an end to each piece that holds a jump, one tick before its next anchor: until then time goes on at the nominal
/// rate, and the whole jump lies in one tick. Returns the ticks of the ends.
fn end_pieces_before_jumps(anchors: &mut Vec<TickAnchor>, nominal: Rate) -> Vec<u64> {
    let ends: Vec<TickAnchor> = anchors
        .windows(2)
        .filter_map(|pair| {
            let (at, next) = (pair[0], pair[1]);
            let expected = nominal.ns(i128::from(next.ticks) - i128::from(at.ticks));
            let over = i128::from(next.vendor_ns) - i128::from(at.vendor_ns) - expected;
            let jumps = over > JUMP_NS && over > expected / 100 && next.ticks - at.ticks > 1;
            jumps.then(|| TickAnchor {
                ticks: next.ticks - 1,
                vendor_ns: at.vendor_ns + nominal.ns(i128::from(next.ticks - 1 - at.ticks)) as u64,
            })
        })
        .collect();
    let ticks = ends.iter().map(|end| end.ticks).collect();
    if !ends.is_empty() {
        anchors.extend(ends);
        anchors.sort_unstable();
    }
    ticks
}

/// The rate of the last second of anchors, or of the first.
fn rate_at(anchors: &[TickAnchor], nominal: Rate, last: bool) -> Option<Rate> {
    let span = i128::from(RATE_SPAN_NS);
    let ticks = span * i128::from(nominal.ticks) / i128::from(nominal.vendor_ns);
    let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
    let (first_anchor, last_anchor) = (*anchors.first()?, *anchors.last()?);
    if last {
        let until = last_anchor.ticks.saturating_sub(ticks);
        let from = anchors.partition_point(|anchor| anchor.ticks <= until);
        Rate::between(anchors[from.saturating_sub(1)], last_anchor, nominal)
    } else {
        let until = first_anchor.ticks.saturating_add(ticks);
        let to = anchors.partition_point(|anchor| anchor.ticks < until);
        Rate::between(first_anchor, anchors[to.min(anchors.len() - 1)], nominal)
    }
}

/// A clock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelClock {
    /// CLOCK_BOOTTIME: goes on while the machine is suspended.
    Boottime,
    /// CLOCK_MONOTONIC: stands still while the machine is suspended.
    Monotonic,
    /// CLOCK_MONOTONIC_RAW: as MONOTONIC, without the kernel's slewing.
    MonotonicRaw,
    /// CLOCK_REALTIME: the wall clock, ns since 1970; it may be stepped, also backwards.
    Realtime,
}

/// Converts vendor ns into a clock of the kernel, to lay a trace beside other logs. Nothing in a trace itself depends on
/// it, so a step of the wall clock moves nothing.
#[derive(Clone, Debug, Default)]
pub struct KernelMap {
    anchors: Vec<ClockAnchor>,
}

impl KernelMap {
    /// A map from anchors in any order, as `Facts::clock_anchors` has them. Anchors without times of the kernel (of
    /// synthetic regions) are left out.
    pub fn new(anchors: &[ClockAnchor]) -> Self {
        let mut anchors: Vec<ClockAnchor> = anchors
            .iter()
            .copied()
            .filter(|anchor| anchor.boottime_ns != 0)
            .collect();
        anchors.sort_by_key(|anchor| anchor.vendor_ns);
        Self { anchors }
    }

    /// The clock's time at `vendor_ns`, ns; `None` without anchors. Between two anchors the offset changes linearly, as
    /// drift and slewing do; an offset that differs by more than a millisecond was stepped (by a suspend or by hand), and
    /// the earlier one counts until the later anchor.
    pub fn at(&self, clock: KernelClock, vendor_ns: u64) -> Option<u64> {
        let offset = |anchor: &ClockAnchor| {
            let kernel_ns = match clock {
                KernelClock::Boottime => anchor.boottime_ns,
                KernelClock::Monotonic => anchor.monotonic_ns,
                KernelClock::MonotonicRaw => anchor.monotonic_raw_ns,
                KernelClock::Realtime => anchor.realtime_ns,
            };
            i128::from(kernel_ns) - i128::from(anchor.vendor_ns)
        };
        let after = self
            .anchors
            .partition_point(|anchor| anchor.vendor_ns <= vendor_ns);
        let before = &self.anchors[..after];
        let at = before.last().or(self.anchors.first())?;
        let mut by = offset(at);
        if let (false, Some(next)) = (before.is_empty(), self.anchors.get(after)) {
            let drift = offset(next) - by;
            if drift.abs() <= JUMP_NS {
                let on = i128::from(vendor_ns - at.vendor_ns);
                by += drift * on / i128::from(next.vendor_ns - at.vendor_ns);
            }
        }
        let ns = i128::from(vendor_ns).saturating_add(by);
        Some(ns.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(ticks: u64, vendor_ns: u64) -> TickAnchor {
        TickAnchor { ticks, vendor_ns }
    }

    #[test]
    fn between_and_beyond_anchors() {
        let map = TickMap::new(
            vec![
                anchor(3_000, 2_000),
                anchor(1_000, 1_000),
                anchor(2_000, 1_200),
            ],
            2_000_000_000,
        );
        assert_eq!(map.vendor_ns(1_500), 1_100);
        assert_eq!(map.vendor_ns(2_500), 1_600);
        assert_eq!(map.vendor_ns(3_002), 2_001);
        assert_eq!(map.vendor_ns(998), 999);
        assert_eq!(map.vendor_ns(0), 500);
    }

    #[test]
    fn an_anchor_that_runs_backwards_is_left_out_and_nothing_wraps() {
        let map = TickMap::new(
            vec![
                anchor(5, 90),
                anchor(10, 100),
                anchor(20, 50),
                anchor(30, 200),
            ],
            1_000_000_000,
        );
        assert_eq!(map.anchors().len(), 3);
        assert_eq!(map.vendor_ns(20), 150);
        assert_eq!(
            TickMap::new(vec![anchor(1 << 40, 5)], 1_000_000_000).vendor_ns(1),
            0
        );
        assert_eq!(TickMap::new(vec![], 1_000_000_000).vendor_ns(7), 7);
        let wide = TickMap::new(vec![anchor(0, 0), anchor(u64::MAX, u64::MAX)], 1);
        assert_eq!(wide.vendor_ns(u64::MAX - 1), u64::MAX - 1);
    }
}
