//! Watching the clocks while a session is open: when they need another anchor, a suspended machine, a paused virtual
//! machine, a wall clock that was stepped, and a kernel that gives the TSC up.
//!
//! Anchors are facts and are kept for ever: one a second would be 5 MB a day, out of the budget of a flight recorder
//! that runs for months. So the watch looks once a second, and announces what it sees only when the line through the last
//! two anchors misses it, with the second before it, so that a bend lies within one second; and once a minute anyhow.
//! Readers are linear between anchors, so they are off by no more than the watch let pass.
//!
//! What happens to a clock between two anchors is spread over both. The watch takes an anchor each round of the
//! housekeeper (1 ms) and keeps it to itself; when a clock has jumped against another one, it announces that anchor and
//! the next, so that the jump lies in one round. When the kernel no longer
//! keeps its time by the TSC, ticks stay what they are (ticks of two sources must not meet in one region), the trace says
//! so, and anchors come ten times as often.
//!
//! Whatever the clocks seem to do, there is a bound: [`BURST`] anchors at once, and one a second in the long run. A machine
//! that is starved makes readings look torn, and a rate that was measured badly makes each round look like a jump; therefore
//! rounds are judged by the rate of the last tenth of a second and more, once there is one.
//!
//! Runs on the housekeeper only; about 0.3 us a round.

use crate::anchors::ClockAnchor;
use crate::clock;
use crate::runtime::Runtime;

/// Metadata key under which a trace says that its host clock can't be relied on.
pub(crate) const CLOCK_KEY: &[u8] = b"strandline.clock";
/// Two clocks that part by more than this within a round were not slewed, ns: the kernel slews by 500 ppm at most, and
/// rounds come every few ms.
const JUMP_NS: i128 = 1_000_000;
/// Between looks at the kernel's clock source, ns.
const LOOK_NS: u64 = 1_000_000_000;
/// Between looks at how far the last line holds, ns.
const SECOND_NS: u64 = 1_000_000_000;
/// How far the vendor's clock may be off the line, ns: reading two clocks at one moment is about 0.1 us uncertain.
const HOLD_NS: i128 = 250;
/// From this on a miss is a bend: the second before it is announced too.
const BEND_NS: i128 = 500;
/// How much less certain BOOTTIME is, ns: it is read a little later than the ticks.
const KERNEL_LATE_NS: i128 = 750;
/// Longest time without an anchor, ns.
const LONGEST_NS: u64 = 60_000_000_000;
/// Anchors that may be announced at once; one more comes free each second.
const BURST: u64 = 64;
/// From this span on a rate is measured, not nominal, ns.
const RATE_NS: u64 = 100_000_000;
/// Between anchors once the TSC was given up, ns.
const UNSTABLE_NS: u64 = 100_000_000;

/// What the watch remembers.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    last: Option<ClockAnchor>,
    /// The last look at the line.
    second: Option<ClockAnchor>,
    /// The line: the last two anchors that were announced.
    line: Option<[ClockAnchor; 2]>,
    /// Vendor ns of the last look at the clock source, and of the last anchor because of it.
    looked_ns: u64,
    anchored_ns: u64,
    unstable: bool,
    /// Where the measured rate begins: the first reading, or the last jump.
    origin: Option<ClockAnchor>,
    /// Anchors announced, and the vendor ns from which a second brings one more.
    spent: u64,
    refilled_ns: u64,
}

/// What a round found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// To be announced, in order.
    pub(crate) anchors: Vec<ClockAnchor>,
    /// To be said once.
    pub(crate) note: Option<String>,
}

impl ClockWatch {
    /// One round.
    pub(crate) fn look(&mut self, runtime: &Runtime) {
        let source = || {
            if clock::is_tsc() {
                clock::kernel_source()
            } else {
                String::new()
            }
        };
        let rate = runtime.region().header().ticks_per_second;
        let found = self.round(clock::clock_anchor(), rate, source);
        for anchor in &found.anchors {
            runtime.announce(anchor);
        }
        if let Some(note) = found.note {
            runtime.metadata(CLOCK_KEY, note.as_bytes());
        }
    }

    /// One round with the clocks at `now`. `source` says what the kernel keeps its time by; "" where ticks do not depend
    /// on it, or it can't be known.
    pub(crate) fn round(
        &mut self,
        now: ClockAnchor,
        ticks_per_second: u64,
        source: impl FnOnce() -> String,
    ) -> Found {
        let mut found = self.unbounded_round(now, ticks_per_second, source);
        let seconds = now.vendor_ns.saturating_sub(self.refilled_ns) / SECOND_NS;
        self.refilled_ns += seconds * SECOND_NS;
        self.spent = self.spent.saturating_sub(seconds);
        let left = usize::try_from(BURST - self.spent).unwrap_or(usize::MAX);
        found.anchors.truncate(left);
        self.spent += found.anchors.len() as u64;
        found
    }

    fn unbounded_round(
        &mut self,
        now: ClockAnchor,
        nominal: u64,
        source: impl FnOnce() -> String,
    ) -> Found {
        let mut found = Found::default();
        let since = |then: u64| now.vendor_ns.saturating_sub(then);
        let origin = *self.origin.get_or_insert(now);
        let measured = self.last.and_then(|last| rate(&origin, &last));
        let ticks_per_second = measured.unwrap_or(nominal);
        if let Some(last) = self.last.replace(now) {
            // A nominal rate may itself have been measured on a starved machine.
            let jumped = if measured.is_some() {
                jumped(&last, &now, ticks_per_second, 0.01)
            } else {
                jumped(&last, &now, ticks_per_second, 4.0)
            };
            if jumped {
                self.origin = Some(now);
            }
            if since(last.vendor_ns) >= LONGEST_NS && !jumped {
                // No session was open for a while.
                self.line = None;
            } else if jumped {
                found.anchors.extend([last, now]);
                (self.line, self.second) = (Some([now; 2]), Some(now));
            }
        }
        match (self.line, self.second) {
            (Some(line), Some(second)) if since(second.vendor_ns) >= SECOND_NS => {
                let missed = missed(&line, &now, ticks_per_second);
                if missed > HOLD_NS || since(line[1].vendor_ns) >= LONGEST_NS {
                    let mut from = line[1];
                    if missed > BEND_NS && second != from {
                        found.anchors.push(second);
                        from = second;
                    }
                    found.anchors.push(now);
                    self.line = Some([from, now]);
                }
                self.second = Some(now);
            }
            (Some(_), Some(_)) => {}
            _ => {
                found.anchors.push(now);
                (self.line, self.second) = (Some([now; 2]), Some(now));
            }
        }
        if !self.unstable && now.vendor_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = now.vendor_ns;
            let source = source();
            if !source.is_empty() && !clock::can_be_tsc(&source) {
                self.unstable = true;
                found.note = Some(format!(
                    "the kernel gave the TSC up for {source}, seen at vendor time {} ns: host times after that, and up to a second before, may be off",
                    now.vendor_ns
                ));
            }
        }
        if self.unstable && now.vendor_ns.saturating_sub(self.anchored_ns) >= UNSTABLE_NS {
            self.anchored_ns = now.vendor_ns;
            if found.anchors.is_empty() {
                found.anchors.push(now);
            }
        }
        found
    }
}

/// Ticks a second between two readings, when they are far enough apart.
fn rate(from: &ClockAnchor, to: &ClockAnchor) -> Option<u64> {
    let ns = to.vendor_ns.checked_sub(from.vendor_ns)?;
    let ticks = to.ticks.checked_sub(from.ticks)?;
    let rate = u128::from(ticks) * 1_000_000_000 / u128::from(ns.max(1));
    (ns >= RATE_NS && rate > 0).then_some(u64::try_from(rate).ok()?)
}

/// How far the line misses the vendor's clock, ns, or BOOTTIME, as far as that is more than it is uncertain.
fn missed(line: &[ClockAnchor; 2], now: &ClockAnchor, ticks_per_second: u64) -> i128 {
    let [from, to] = line;
    let ticks =
        |one: &ClockAnchor, other: &ClockAnchor| i128::from(other.ticks) - i128::from(one.ticks);
    let by = |clock: fn(&ClockAnchor) -> u64| {
        let on = |one, other| i128::from(clock(other)) - i128::from(clock(one));
        let expected = match ticks(from, to) {
            // No line yet: the nominal rate.
            0 => ticks(to, now) * 1_000_000_000 / i128::from(ticks_per_second.max(1)),
            span => ticks(to, now) * on(from, to) / span,
        };
        (on(to, now) - expected).abs()
    };
    by(|anchor| anchor.vendor_ns).max(by(|anchor| anchor.boottime_ns) - KERNEL_LATE_NS)
}

/// Whether ticks, vendor clock, BOOTTIME, MONOTONIC and REALTIME went different ways between two moments. `slack` is how
/// far the rate of ticks may be off, as a part of it.
fn jumped(last: &ClockAnchor, now: &ClockAnchor, ticks_per_second: u64, slack: f64) -> bool {
    let on = |now: u64, last: u64| i128::from(now) - i128::from(last);
    let ticks_ns = on(now.ticks, last.ticks) * 1_000_000_000 / i128::from(ticks_per_second.max(1));
    let vendor_ns = on(now.vendor_ns, last.vendor_ns);
    let parted = |one: i128, other: i128| {
        let by = (one - other).abs();
        by > JUMP_NS && by as f64 > one.abs().min(other.abs()) as f64 * slack
    };
    let suspended = on(now.boottime_ns, last.boottime_ns) - on(now.monotonic_ns, last.monotonic_ns);
    let stepped = on(now.realtime_ns, last.realtime_ns) - on(now.boottime_ns, last.boottime_ns);
    parted(vendor_ns, ticks_ns) || suspended.abs() > JUMP_NS || stepped.abs() > JUMP_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchors::{TickAnchor, TickMap};

    const RATE: u64 = 2_000_000_000;

    /// All clocks `ms` after one moment, the machine having slept for `slept_ms` of them.
    fn at(ms: u64, slept_ms: u64) -> ClockAnchor {
        let ns = 1_000_000;
        ClockAnchor {
            ticks: 7 + (ms - slept_ms) * 2 * ns,
            vendor_ns: (5_000 + ms) * ns,
            boottime_ns: (5_000 + ms) * ns,
            monotonic_ns: (5_000 + ms - slept_ms) * ns,
            monotonic_raw_ns: (4_000 + ms - slept_ms) * ns,
            realtime_ns: (1_000_000_000 + ms) * ns,
        }
    }

    fn tsc() -> String {
        "tsc".to_owned()
    }

    #[test]
    fn a_suspend_is_held_between_two_anchors_a_round_apart() {
        let mut watch = ClockWatch::default();
        assert_eq!(watch.round(at(0, 0), RATE, tsc).anchors, [at(0, 0)]);
        for ms in 1..50 {
            assert_eq!(watch.round(at(ms, 0), RATE, tsc), Found::default());
        }
        let found = watch.round(at(3_600_050, 3_600_000), RATE, tsc);
        assert_eq!(found.anchors, [at(49, 0), at(3_600_050, 3_600_000)]);
        assert_eq!(
            watch.round(at(3_600_051, 3_600_000), RATE, tsc),
            Found::default()
        );
    }

    /// Seen in a soak on a starved machine: 46,000 anchors in a few minutes filled a flight recorder's facts.
    #[test]
    fn a_rate_that_is_wrong_and_clocks_that_look_torn_bring_a_bounded_number_of_anchors() {
        // Rounds of 3 ms for 10 minutes, with a nominal rate that is half of the true one.
        let mut watch = ClockWatch::default();
        let rounds = (0..200_000).map(|round| at(3 * round, 0));
        let anchors: usize = rounds
            .map(|now| watch.round(now, RATE / 2, tsc).anchors.len())
            .sum();
        assert!(anchors < 200, "{anchors}");
        // Every second reading of the wall clock is 2 ms late.
        let mut watch = ClockWatch::default();
        let rounds = (0..200_000u64).map(|round| ClockAnchor {
            realtime_ns: at(3 * round, 0).realtime_ns + round % 2 * 2_000_000,
            ..at(3 * round, 0)
        });
        let anchors: usize = rounds
            .map(|now| watch.round(now, RATE, tsc).anchors.len())
            .sum();
        assert!(anchors < 64 + 600 + 10, "{anchors}: one a second");
    }

    #[test]
    fn ticks_that_went_on_through_a_suspend_leave_two_anchors_too() {
        let mut watch = ClockWatch::default();
        watch.round(at(0, 0), RATE, tsc);
        let now = ClockAnchor {
            ticks: at(5_000, 0).ticks,
            ..at(5_000, 4_000)
        };
        assert_eq!(watch.round(now, RATE, tsc).anchors.len(), 2);
    }

    #[test]
    fn a_step_of_the_wall_clock_is_held_between_two_anchors_too() {
        let mut watch = ClockWatch::default();
        watch.round(at(0, 0), RATE, tsc);
        watch.round(at(1, 0), RATE, tsc);
        let now = ClockAnchor {
            realtime_ns: 1,
            ..at(2, 0)
        };
        assert_eq!(watch.round(now, RATE, tsc).anchors, [at(1, 0), now]);
    }

    #[test]
    fn after_a_time_without_sessions_the_clocks_are_anchored_at_once() {
        let mut watch = ClockWatch::default();
        watch.round(at(0, 0), RATE, tsc);
        watch.round(at(1, 0), RATE, tsc);
        let later = at(500_000, 0);
        assert_eq!(watch.round(later, RATE, tsc).anchors, [later]);
    }

    /// A simulation: the clocks are made here, the anchors are those that the watch announces, the conversion is the
    /// readers'.
    #[test]
    fn a_day_needs_few_anchors_and_stays_within_a_microsecond() {
        const ROUND_NS: u64 = 50_000_000;
        let day = 86_400 * SECOND_NS / ROUND_NS;
        // What a minute changes, what the noise of an anchor is, how many anchors a day may have.
        for (step_ppb, noise_ns, most) in [(0, 50, 2_000), (100, 50, 6_000), (100, 150, 25_000)] {
            let mut watch = ClockWatch::default();
            let (mut random, mut vendor_ps) = (0x5eed, 77_000_000_000_000_000u128);
            let (mut anchors, mut truth) = (Vec::new(), Vec::new());
            for round in 0..day {
                random = crate::hash::word(random);
                let minute = round * ROUND_NS / LONGEST_NS;
                let ppb = 50_000 + minute * step_ppb;
                vendor_ps += u128::from(ROUND_NS) * (1_000_000_000 + u128::from(ppb)) / 1_000_000;
                let true_ns = (vendor_ps / 1_000) as u64;
                let vendor_ns = true_ns + random % (2 * noise_ns + 1) - noise_ns;
                let now = ClockAnchor {
                    ticks: (round + 1) * (ROUND_NS * (RATE / SECOND_NS)),
                    vendor_ns,
                    boottime_ns: vendor_ns,
                    monotonic_ns: vendor_ns,
                    monotonic_raw_ns: 0,
                    realtime_ns: vendor_ns,
                };
                let found = watch.round(now, RATE, tsc);
                anchors.extend(found.anchors.iter().map(|anchor| TickAnchor {
                    ticks: anchor.ticks,
                    vendor_ns: anchor.vendor_ns,
                }));
                if random % 64 == 0 || round + 20 >= day {
                    truth.push((now.ticks, true_ns));
                }
            }
            println!(
                "{step_ppb} ppb a minute, {noise_ns} ns: {} anchors",
                anchors.len()
            );
            assert!(anchors.len() <= most, "{} anchors", anchors.len());
            let map = TickMap::new(anchors, RATE);
            let off = truth
                .iter()
                .map(|&(ticks, ns)| map.vendor_ns(ticks).abs_diff(ns));
            let worst = off.max().unwrap();
            assert!(worst <= 1_000, "{worst} ns");
        }
    }

    #[test]
    fn a_bend_lies_within_the_second_in_which_it_came() {
        let mut watch = ClockWatch::default();
        // 500 ppm from 10.5 s on.
        let bent = |ms: u64| ClockAnchor {
            vendor_ns: at(ms, 0).vendor_ns + ms.saturating_sub(10_500) * 500,
            ..at(ms, 0)
        };
        let anchors: Vec<_> = (0..20_000)
            .flat_map(|ms| watch.round(bent(ms), RATE, tsc).anchors)
            .collect();
        let seconds = [0, 10_000, 11_000, 12_000];
        assert_eq!(anchors, seconds.map(bent));
    }

    #[test]
    fn a_kernel_that_gives_the_tsc_up_is_said_once_and_anchored_often() {
        let mut watch = ClockWatch::default();
        let hpet = || "hpet".to_owned();
        for ms in 0..500 {
            watch.round(at(ms, 0), RATE, tsc);
        }
        let (mut notes, mut anchors) = (Vec::new(), 0);
        for ms in 500..3_500 {
            let found = watch.round(at(ms, 0), RATE, hpet);
            notes.extend(found.note);
            anchors += found.anchors.len();
        }
        let text = "the kernel gave the TSC up for hpet, seen at vendor time 6000000000 ns: host times after that, and up to a second before, may be off";
        assert_eq!(notes, [text]);
        assert_eq!(anchors, 25);
        // Where ticks are not the TSC, nobody asks.
        let mut watch = ClockWatch::default();
        watch.round(at(0, 0), RATE, String::new);
        for ms in 1..3_000 {
            assert_eq!(watch.round(at(ms, 0), RATE, String::new), Found::default());
        }
    }
}
