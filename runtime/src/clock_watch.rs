//! Watching the clocks while a session is open: a suspended machine, a paused virtual machine, and a kernel that gives
//! the TSC up.
//!
//! Host times are converted between anchors, so what happens to a clock between two of them is spread over both. The
//! watch takes an anchor each round of the housekeeper (1 ms) and keeps it to itself; when a clock has jumped against
//! another one, it announces that anchor and the next, so that the jump lies in one round. When the kernel no longer
//! keeps its time by the TSC, ticks stay what they are (ticks of two sources must not meet in one region), the trace says
//! so, and anchors come ten times as often.
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
/// Between anchors once the TSC was given up, ns.
const UNSTABLE_NS: u64 = 100_000_000;

/// What the watch remembers.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    last: Option<ClockAnchor>,
    /// Vendor ns of the last look at the clock source, and of the last anchor because of it.
    looked_ns: u64,
    anchored_ns: u64,
    unstable: bool,
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
        let mut found = Found::default();
        if let Some(last) = self.last.replace(now)
            && jumped(&last, &now, ticks_per_second)
        {
            found.anchors.extend([last, now]);
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

/// Whether ticks, vendor clock, BOOTTIME and MONOTONIC went different ways between two moments.
fn jumped(last: &ClockAnchor, now: &ClockAnchor, ticks_per_second: u64) -> bool {
    let on = |now: u64, last: u64| i128::from(now) - i128::from(last);
    let ticks_ns = on(now.ticks, last.ticks) * 1_000_000_000 / i128::from(ticks_per_second.max(1));
    let vendor_ns = on(now.vendor_ns, last.vendor_ns);
    let parted = |one: i128, other: i128| {
        let by = (one - other).abs();
        by > JUMP_NS && by > other.abs() / 100
    };
    let suspended = on(now.boottime_ns, last.boottime_ns) - on(now.monotonic_ns, last.monotonic_ns);
    parted(vendor_ns, ticks_ns) || suspended.abs() > JUMP_NS
}

#[cfg(test)]
mod tests {
    use super::*;

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
            realtime_ns: 1,
        }
    }

    fn tsc() -> String {
        "tsc".to_owned()
    }

    #[test]
    fn a_suspend_is_held_between_two_anchors_a_round_apart() {
        let mut watch = ClockWatch::default();
        for ms in 0..50 {
            assert_eq!(watch.round(at(ms, 0), RATE, tsc), Found::default());
        }
        let found = watch.round(at(3_600_050, 3_600_000), RATE, tsc);
        assert_eq!(found.anchors, [at(49, 0), at(3_600_050, 3_600_000)]);
        assert_eq!(
            watch.round(at(3_600_051, 3_600_000), RATE, tsc),
            Found::default()
        );
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
    fn a_step_of_the_wall_clock_is_no_news() {
        let mut watch = ClockWatch::default();
        watch.round(at(0, 0), RATE, tsc);
        let now = ClockAnchor {
            realtime_ns: u64::MAX,
            ..at(1, 0)
        };
        assert_eq!(watch.round(now, RATE, tsc), Found::default());
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
        for ms in 0..3_000 {
            assert_eq!(watch.round(at(ms, 0), RATE, String::new), Found::default());
        }
    }
}
