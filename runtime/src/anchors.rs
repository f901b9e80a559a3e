//! Clock anchors: converting host ticks into the vendor's clock, and the vendor's clock into the kernel's.
//!
//! The timeline's clock is the vendor's. Vendor times are never touched; host times were taken as raw ticks and are
//! converted here, piecewise between anchors (pairs of ticks and vendor ns taken at the same moment: at start and stop,
//! whenever a lane opened a segment, and now and then). Integer arithmetic only, so that the same file always gives the
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

/// Converts host ticks into vendor ns.
#[derive(Clone, Debug, Default)]
pub struct TickMap {
    anchors: Vec<TickAnchor>,
    ticks_per_second: u64,
}

impl TickMap {
    /// A map from anchors in any order; anchors that would make time run backwards are left out. Beyond the outermost
    /// anchors, and with fewer than two, `ticks_per_second` counts.
    pub fn new(mut anchors: Vec<TickAnchor>, ticks_per_second: u64) -> Self {
        anchors.sort_unstable();
        anchors.dedup_by_key(|anchor| anchor.ticks);
        let mut newest = 0;
        anchors.retain(|anchor| {
            let forward = anchor.vendor_ns >= newest;
            if forward {
                newest = anchor.vendor_ns;
            }
            forward
        });
        Self {
            anchors,
            ticks_per_second: ticks_per_second.max(1),
        }
    }

    /// The anchors in use, in order.
    pub fn anchors(&self) -> &[TickAnchor] {
        &self.anchors
    }

    /// Vendor ns at `ticks`. Never wraps: what lies before the vendor clock's zero is 0.
    pub fn vendor_ns(&self, ticks: u64) -> u64 {
        let after = self.anchors.partition_point(|anchor| anchor.ticks <= ticks);
        let at = match after.checked_sub(1) {
            Some(before) => self.anchors[before],
            None => match self.anchors.first() {
                Some(&first) => first,
                None => {
                    return (i128::from(ticks) * 1_000_000_000 / i128::from(self.ticks_per_second))
                        as u64;
                }
            },
        };
        let ticks_on = i128::from(ticks) - i128::from(at.ticks);
        let inner = (after > 0).then(|| self.anchors.get(after)).flatten();
        let ns_on = match inner {
            Some(next) => {
                // Both factors are below 2^64 and not negative: their product needs all 128 bits.
                let ns = u128::from(next.vendor_ns - at.vendor_ns);
                (ticks_on as u128 * ns / u128::from(next.ticks - at.ticks)) as i128
            }
            None => ticks_on * 1_000_000_000 / i128::from(self.ticks_per_second),
        };
        (i128::from(at.vendor_ns) + ns_on).clamp(0, i128::from(u64::MAX)) as u64
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
            vec![anchor(10, 100), anchor(20, 50), anchor(30, 200)],
            1_000_000_000,
        );
        assert_eq!(map.anchors().len(), 2);
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
