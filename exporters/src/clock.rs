//! Host ticks to vendor ns, at the speed of an exporter: the very numbers that [`TickMap::vendor_ns`] gives, remembering
//! the pair of anchors that was used last.

use strandline::anchors::TickMap;

/// A [`TickMap`] with a memory of one interval.
#[derive(Debug)]
pub(crate) struct Clock<'a> {
    map: &'a TickMap,
    /// The interval: `first..end`, in ticks.
    first: u64,
    end: u64,
    at_ns: u64,
    /// `ns` for every `ticks`.
    ns: u64,
    ticks: u64,
}

impl<'a> Clock<'a> {
    pub(crate) fn new(map: &'a TickMap) -> Self {
        Self {
            map,
            first: 0,
            end: 0,
            at_ns: 0,
            ns: 0,
            ticks: 1,
        }
    }

    /// Vendor ns at `ticks`.
    #[inline]
    pub(crate) fn vendor_ns(&mut self, ticks: u64) -> u64 {
        if ticks < self.first || ticks >= self.end {
            self.find(ticks);
        }
        if ticks >= self.first && ticks < self.end {
            let on = ticks - self.first;
            if self.ns == self.ticks {
                return self.at_ns.saturating_add(on);
            }
            if let Some(product) = on.checked_mul(self.ns) {
                return self.at_ns.saturating_add(product / self.ticks);
            }
        }
        self.map.vendor_ns(ticks)
    }

    #[cold]
    fn find(&mut self, ticks: u64) {
        let anchors = self.map.anchors();
        let after = anchors.partition_point(|anchor| anchor.ticks <= ticks);
        let (Some(before), Some(&next)) = (
            after.checked_sub(1).map(|at| anchors[at]),
            anchors.get(after),
        ) else {
            // Beyond the outermost anchors the map's nominal rate counts.
            (self.first, self.end) = (0, 0);
            return;
        };
        *self = Self {
            map: self.map,
            first: before.ticks,
            end: next.ticks,
            at_ns: before.vendor_ns,
            ns: next.vendor_ns - before.vendor_ns,
            ticks: next.ticks - before.ticks,
        };
    }

    /// The lowest ticks at which the vendor clock has reached `vendor_ns`: the clock never runs backwards.
    pub(crate) fn ticks_at(&self, vendor_ns: u64) -> u64 {
        let (mut low, mut high) = (0u64, u64::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.map.vendor_ns(middle) >= vendor_ns {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline::anchors::TickAnchor;

    #[test]
    fn the_same_numbers_as_the_map_itself() {
        let anchor = |ticks, vendor_ns| TickAnchor { ticks, vendor_ns };
        let maps = [
            TickMap::new(vec![], 3_000_000_000),
            TickMap::new(vec![anchor(500, 1_000)], 2_900_000_000),
            TickMap::new(
                vec![
                    anchor(100, 1_000),
                    anchor(3_000_100, 1_001_003),
                    anchor(1 << 50, 1 << 49),
                    anchor((1 << 50) + 7, (1 << 49) + 7),
                ],
                3_000_000_000,
            ),
        ];
        for map in &maps {
            let mut clock = Clock::new(map);
            let mut ticks = 1u64;
            for step in 0..4_000u64 {
                ticks = ticks
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(step);
                for ticks in [ticks >> (step % 64), step * 2_000, (1 << 50) + step % 9] {
                    assert_eq!(clock.vendor_ns(ticks), map.vendor_ns(ticks), "{ticks}");
                }
            }
            for ns in [0, 1_000, 1_001, 900_000, 1 << 48] {
                let ticks = clock.ticks_at(ns);
                assert!(map.vendor_ns(ticks) >= ns);
                assert!(ticks == 0 || map.vendor_ns(ticks - 1) < ns);
            }
        }
    }
}
