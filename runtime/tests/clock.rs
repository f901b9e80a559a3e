//! Goal: host times are where docs/format.md says, however the host's clock drifts against the vendor's, whatever is done
//! to the wall clock, and across a suspend. Method: a simulation. Its clocks are made here, its anchors are those that
//! the housekeeper reads, one a second with the error that reading them has, and all else is the product's: the region, the
//! trace and its conversion. (Which of them the housekeeper announces is tested beside it, in `clock_watch.rs`.)

use strandline::Trace;
use strandline::anchors::{ClockAnchor, KernelClock, KernelMap};
use strandline::builder::Builder;
use strandline::record::Kind;

const SECOND: u64 = 1_000_000_000;
/// Ticks a second, as the runtime measured them: the truth is up to 100 ppm away.
const NOMINAL: u64 = 2_600_000_000;

/// A vendor clock that goes by a rate of its own in each stretch of ticks.
struct World {
    /// Ticks and vendor ns at which a stretch begins, and its rate: ppb against `NOMINAL`.
    stretches: Vec<(u64, u64, i64)>,
    noise: u64,
}

impl World {
    /// Stretches of `stretch_ns` each, with the rate that `ppb` gives for its number.
    fn new(stretch_ns: u64, count: u64, ppb: impl Fn(u64) -> i64) -> Self {
        let (mut ticks, mut vendor_ns) = (987_654_321_000, 77 * SECOND);
        let mut stretches = Vec::new();
        for at in 0..count {
            stretches.push((ticks, vendor_ns, ppb(at)));
            let on = stretch_ns * (NOMINAL / 100_000_000) / 10;
            ticks += on;
            vendor_ns = Self::on(*stretches.last().expect("a stretch"), ticks);
        }
        Self {
            stretches,
            noise: 0x5eed,
        }
    }

    fn on((ticks, vendor_ns, ppb): (u64, u64, i64), at: u64) -> u64 {
        let on = i128::from(at - ticks) * i128::from(SECOND) * i128::from(1_000_000_000 + ppb);
        vendor_ns + (on / i128::from(NOMINAL) / 1_000_000_000) as u64
    }

    /// The truth.
    fn vendor_ns(&self, ticks: u64) -> u64 {
        let after = self.stretches.partition_point(|stretch| stretch.0 <= ticks);
        Self::on(self.stretches[after.max(1) - 1], ticks)
    }

    fn start(&self) -> u64 {
        self.stretches[0].0
    }

    fn random(&mut self) -> u64 {
        self.noise = strandline::hash::word(self.noise);
        self.noise
    }

    /// An anchor as `clock::tick_anchor` takes it: up to 100 ns off.
    fn anchor(&mut self, ticks: u64) -> ClockAnchor {
        let off = self.random() % 201;
        let vendor_ns = self.vendor_ns(ticks) + off - 100;
        ClockAnchor {
            ticks,
            vendor_ns,
            boottime_ns: vendor_ns + 5,
            monotonic_ns: vendor_ns - 60 * SECOND,
            monotonic_raw_ns: vendor_ns / 2,
            realtime_ns: 1_700_000_000 * SECOND + vendor_ns,
        }
    }
}

fn ticks_in(ns: u64) -> u64 {
    ns / 10 * (NOMINAL / 100_000_000)
}

/// A region with an anchor a second for `seconds`, and marks at random moments up to `marks_until_ns`.
fn record(
    world: &mut World,
    seconds: u64,
    marks: u64,
    marks_until_ns: u64,
    change: impl Fn(u64, &mut ClockAnchor),
) -> Trace {
    let mut region = Builder::new();
    region.header_mut().ticks_per_second = NOMINAL;
    region.session_begin(1, 77 * SECOND);
    let start = world.start();
    for second in 0..=seconds {
        // The housekeeper wakes when it wakes.
        let late = world.random() % 20_000_000;
        let mut anchor = world.anchor(start + ticks_in(second * SECOND + late));
        change(second, &mut anchor);
        region.anchor(anchor);
    }
    for _ in 0..marks {
        let at = start + ticks_in(world.random() % marks_until_ns);
        region.record(0, Kind::Mark, 1, &[at, 0, 0, 0, 0, 0, 0]);
    }
    region.trace()
}

/// The largest distance of a mark's time from the truth, ns.
fn worst(world: &World, trace: &Trace) -> u64 {
    let errors = trace.entries().map(|entry| {
        let ticks = entry.record.start();
        trace
            .clock()
            .vendor_ns(ticks)
            .abs_diff(world.vendor_ns(ticks))
    });
    errors.max().expect("marks")
}

const DAY: u64 = 86_400;

#[test]
fn a_day_of_drift_stays_within_a_microsecond() {
    // 50 ppm for good, and a step of 0.1 ppm each minute: always the same way, or at random.
    let same = |minute: u64| 50_000 + minute as i64 * 100;
    let random = |minute: u64| {
        let sum: i64 = (0..minute)
            .map(|at| (strandline::hash::word(at) & 1) as i64 * 200 - 100)
            .sum();
        50_000 + sum
    };
    for ppb in [&same as &dyn Fn(u64) -> i64, &random] {
        let mut world = World::new(60 * SECOND, DAY / 60 + 1, ppb);
        let trace = record(&mut world, DAY, 50_000, DAY * SECOND, |_, _| ());
        assert!(trace.damage().is_empty());
        let worst = worst(&world, &trace);
        assert!(worst <= 1_000, "{worst} ns");
    }
}

#[test]
fn a_day_without_the_last_anchor_too() {
    // A process that is killed has no anchor at its end: up to a second goes by the rate of the second before.
    let mut world = World::new(60 * SECOND, DAY / 60 + 1, |minute| {
        50_000 + minute as i64 * 100
    });
    let trace = record(&mut world, 600, 50_000, 601 * SECOND, |_, _| ());
    let worst = worst(&world, &trace);
    assert!(worst <= 1_000, "{worst} ns");
}

#[test]
fn a_slew_of_500_ppm_is_off_by_what_the_docs_say() {
    // The rate changes at any moment between two anchors, from one limit of the kernel's slewing to the other.
    let mut world = World::new(1_370_000_000, 600, |at| {
        if at % 2 == 0 { 500_000 } else { -500_000 }
    });
    let trace = record(&mut world, 800, 50_000, 800 * SECOND, |_, _| ());
    let off = worst(&world, &trace);
    // A quarter of the change (1,000 ppm) of a piece (a second and a bit): docs/format.md.
    assert!(off <= 256_000, "{off} ns");
    // From no slew to all of it: half of that.
    let mut world = World::new(1_370_000_000, 600, |at| (at % 2) as i64 * 500_000);
    let trace = record(&mut world, 800, 50_000, 800 * SECOND, |_, _| ());
    let off = worst(&world, &trace);
    assert!(off <= 128_000, "{off} ns");
    // A slew that goes on is no error at all.
    let mut world = World::new(SECOND * DAY, 1, |_| 500_000);
    let trace = record(&mut world, 800, 50_000, 801 * SECOND, |_, _| ());
    let off = worst(&world, &trace);
    assert!(off <= 1_000, "{off} ns");
}

#[test]
fn a_step_of_the_wall_clock_changes_nothing() {
    let times = |step: i64| -> (Vec<u64>, Vec<ClockAnchor>) {
        let mut world = World::new(60 * SECOND, 11, |_| 50_000);
        let trace = record(&mut world, 600, 10_000, 600 * SECOND, |second, anchor| {
            if second >= 300 {
                anchor.realtime_ns = anchor.realtime_ns.wrapping_add_signed(step);
            }
        });
        let times = trace
            .entries()
            .map(|entry| trace.clock().vendor_ns(entry.record.start()))
            .collect();
        (times, trace.facts().clock_anchors.clone())
    };
    let (plain, anchors) = times(0);
    for step in [3_600 * SECOND as i64, -3_600 * SECOND as i64] {
        let (stepped, stepped_anchors) = times(step);
        assert!(plain == stepped);
        // The map to the wall clock has the step, at the anchor that showed it, and the other clocks don't.
        let (map, plain_map) = (KernelMap::new(&stepped_anchors), KernelMap::new(&anchors));
        let step_at = stepped_anchors[300].vendor_ns;
        for vendor_ns in [0, 90 * SECOND, step_at - 1, step_at, step_at + 90 * SECOND] {
            let at = |map: &KernelMap, clock| map.at(clock, vendor_ns).expect("anchors") as i64;
            let by = at(&map, KernelClock::Realtime) - at(&plain_map, KernelClock::Realtime);
            assert_eq!(by, if vendor_ns < step_at { 0 } else { step });
            for clock in [KernelClock::Boottime, KernelClock::Monotonic] {
                assert_eq!(at(&map, clock), at(&plain_map, clock));
            }
        }
    }
}

#[test]
fn a_suspend_is_between_the_two_anchors_that_show_it() {
    const SLEPT: u64 = 3_600 * SECOND;
    // Ticks that stand still (MONOTONIC_RAW, or a TSC that stops), and ticks that go on.
    for stands_still in [true, false] {
        let mut region = Builder::new();
        region.header_mut().ticks_per_second = SECOND;
        region.session_begin(1, 100 * SECOND);
        // Asleep after 10.0005 s; the housekeeper had looked at 10.000 s and looks again 1 ms later.
        let asleep = 10_000_500_000;
        let slept = |ticks: u64| {
            let since = if stands_still {
                SLEPT
            } else {
                ticks.saturating_sub(asleep).min(SLEPT)
            };
            if ticks > asleep { since } else { 0 }
        };
        let vendor = |ticks: u64| {
            let slept = if stands_still { slept(ticks) } else { 0 };
            100 * SECOND + ticks + slept
        };
        let woken = if stands_still { 0 } else { SLEPT };
        let moments = (0..=10)
            .map(|second| second * SECOND)
            .chain([10_001_000_000 + woken])
            .chain((11..20).map(|second| second * SECOND + woken));
        for ticks in moments {
            let vendor_ns = vendor(ticks);
            region.anchor(ClockAnchor {
                ticks,
                vendor_ns,
                boottime_ns: vendor_ns,
                monotonic_ns: vendor_ns - slept(ticks),
                monotonic_raw_ns: ticks,
                realtime_ns: SECOND + vendor_ns,
            });
        }
        let trace = region.trace();
        let map = KernelMap::new(&trace.facts().clock_anchors);
        for (ticks, exact) in [
            (3_300_000_000, true),
            (10_000_000_000, true),
            (10_000_400_000, true),
            // Woken, but no anchor yet: it may be on the wrong side of the sleep, for a round of the housekeeper.
            (10_000_700_000 + woken, !stands_still),
            (10_001_000_000 + woken, true),
            (13_500_000_000 + woken, true),
            (30_000_000_000 + woken, true),
        ] {
            let vendor_ns = trace.clock().vendor_ns(ticks);
            if exact {
                assert_eq!(vendor_ns, vendor(ticks), "{ticks}");
            } else {
                assert!(vendor_ns <= vendor(ticks));
                continue;
            }
            let at = |clock| map.at(clock, vendor_ns).expect("anchors");
            assert_eq!(at(KernelClock::Boottime), vendor_ns);
            if ticks < asleep || ticks >= 10_001_000_000 + woken {
                assert_eq!(at(KernelClock::Monotonic), vendor_ns - slept(ticks));
            }
        }
    }
}

/// The nominal rate of a file can be several times wrong, where the thread that measured it lost the processor.
#[test]
fn a_nominal_rate_that_cannot_be_is_not_believed() {
    for nominal in [NOMINAL / 4, NOMINAL * 4] {
        let mut world = World::new(60 * SECOND, 11, |_| 50_000);
        let mut region = Builder::new();
        region.header_mut().ticks_per_second = nominal;
        region.session_begin(1, 77 * SECOND);
        let start = world.start();
        for second in 0..600 {
            region.anchor(world.anchor(start + ticks_in(second * SECOND)));
        }
        for _ in 0..10_000 {
            let at = start + ticks_in(world.random() % (600 * SECOND));
            region.record(0, Kind::Mark, 1, &[at, 0, 0, 0, 0, 0, 0]);
        }
        let worst = worst(&world, &region.trace());
        assert!(worst <= 1_000, "{worst} ns");
    }
}

#[test]
fn one_wrong_anchor_takes_no_right_one_with_it() {
    let mut world = World::new(60 * SECOND, 11, |_| 50_000);
    for (second, wrong) in [(0, u64::MAX), (300, u64::MAX), (300, 1), (450, 1 << 62)] {
        let trace = record(&mut world, 600, 10_000, 600 * SECOND, |at, anchor| {
            if at == second {
                anchor.vendor_ns = wrong;
            }
        });
        let worst = worst(&world, &trace);
        assert!(worst <= 1_000, "{worst} ns");
    }
}
