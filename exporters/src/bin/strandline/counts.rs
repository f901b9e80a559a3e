//! What a trace says of itself, in one line, and the exit code that follows from it. Promise 4 and 5 as the user sees
//! them: no command that reads a trace ends without these counts.

use strandline::loss::{LossReason, Losses};
use strandline::report::{self, SessionReport};
use strandline::{Trace, Verdict, Work};

use crate::failure::code;

/// The counts of one or several traces.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    dispatches: Tally,
    copies: Tally,
    sessions: usize,
    incomplete: usize,
    heuristic: usize,
    unfinished: usize,
    low_watermark: Option<u64>,
    late: u64,
    lost: Losses,
    damaged_places: usize,
    damaged_cells: u64,
    not_kept: u64,
}

#[derive(Debug, Default)]
struct Tally {
    issued: u64,
    recorded: u64,
    retired: u64,
    missing: u64,
}

impl Tally {
    fn add(&mut self, work: &Work) {
        self.issued += work.issued;
        self.recorded += work.recorded;
        self.retired += work.retired_without_record;
        self.missing += work.missing();
    }

    fn is_odd(&self) -> bool {
        self.retired > 0 || self.missing > 0
    }

    fn text(&self, what: &str) -> String {
        let (recorded, issued) = (self.recorded, self.issued);
        let mut text = format!("{recorded} of {issued} {what}");
        if self.retired > 0 {
            text += &format!(" recorded, {} retired without a record", self.retired);
        }
        if self.missing > 0 {
            text += &format!(", {} missing", self.missing);
        }
        text
    }
}

impl Counts {
    /// Reads the counts of a trace.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut counts = Self::default();
        counts.add(trace, &report::sessions(trace));
        counts
    }

    /// Adds a trace whose reports are at hand.
    pub(crate) fn add(&mut self, trace: &Trace, reports: &[SessionReport]) {
        let mut lost = Losses::default();
        for report in reports {
            self.dispatches.add(&report.dispatches);
            self.copies.add(&report.copies);
            self.sessions += 1;
            let incomplete = report.verdict == Verdict::Incomplete;
            if incomplete {
                self.incomplete += 1;
                let low = self.low_watermark.get_or_insert(report.low_watermark);
                *low = (*low).min(report.low_watermark);
            }
            self.heuristic += usize::from(report.verdict == Verdict::Heuristic);
            self.unfinished += usize::from(report.unfinished);
            self.late += report.late;
            self.not_kept += report.not_kept;
            lost.add(&report.lost);
        }
        // What no session counts (a fact that found no room, a thread without a lane) is lost all the same.
        let all = trace.losses();
        for (sum, total) in lost.0.iter_mut().zip(all.0) {
            *sum = (*sum).max(total);
        }
        self.lost.add(&lost);
        self.damaged_places += trace.damage().len();
        self.damaged_cells += trace
            .damage()
            .iter()
            .fold(0u64, |sum, damage| sum.saturating_add(damage.cells_lost));
    }

    /// True when the file itself is damaged.
    fn is_damaged(&self) -> bool {
        self.damaged_places > 0
    }

    /// Losses, late records and damage, also when there are none.
    pub(crate) fn loss_line(&self) -> String {
        let mut text = format!("lost {}", self.lost.total());
        let reasons: Vec<String> = LossReason::ALL
            .into_iter()
            .filter(|&reason| self.lost.get(reason) > 0)
            .map(|reason| format!("{} {}", reason.name(), self.lost.get(reason)))
            .collect();
        if !reasons.is_empty() {
            text += &format!(" ({})", reasons.join(", "));
        }
        text += &format!(", late {}", self.late);
        if self.unfinished > 0 {
            text += &format!(", sessions never closed {}", self.unfinished);
        }
        if self.is_damaged() {
            text += &format!(
                ", damaged places {} ({} cells left out)",
                self.damaged_places, self.damaged_cells
            );
        }
        text
    }

    /// The closing line.
    pub(crate) fn verdict_line(&self) -> String {
        let mut text = self.dispatches.text("dispatches");
        if self.copies.is_odd() || (self.dispatches.issued == 0 && self.copies.issued > 0) {
            text += &format!(", {}", self.copies.text("copies"));
        }
        if self.not_kept > 0 {
            text += &format!(
                "; {} older records are not in the file, whose mode keeps only the newest",
                self.not_kept
            );
        }
        if self.incomplete > 0 {
            let low = self.low_watermark.unwrap_or(0);
            format!("incomplete: {text}; whole up to correlation id {low}")
        } else if self.is_damaged() {
            format!("incomplete: {text}; the file is damaged")
        } else if self.heuristic > 0 {
            format!("heuristic: {text}, without proof")
        } else if self.sessions == 0 {
            format!("empty: {text}, no session was opened")
        } else if self.dispatches.issued + self.copies.issued + self.dispatches.recorded == 0 {
            format!("empty: {text}")
        } else {
            format!("complete: {text}")
        }
    }

    /// The exit code of a command that has read the traces.
    pub(crate) fn code(&self) -> u8 {
        let whole = self.incomplete == 0
            && !self.dispatches.is_odd()
            && !self.copies.is_odd()
            && self.late == 0
            && self.lost.total() == 0
            && !self.is_damaged();
        if whole { code::FINE } else { code::NOT_WHOLE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline::builder::Builder;
    use strandline::counters::Counter;
    use strandline::header::Mode;
    use strandline::record::Kind;
    use strandline::{Proof, SessionEnd};

    fn region(recorded: u64, dispatches: Work, change: impl Fn(&mut SessionEnd)) -> Counts {
        let mut region = Builder::new();
        region.session_begin(1, 1_000);
        for id in 1..=recorded {
            region.record(0, Kind::Dispatch, 1, &[1_100, 1_200, id, 0, id, 1]);
        }
        let mut end = SessionEnd {
            session: 1,
            verdict: Verdict::Complete,
            proof: Proof::Pairs,
            dispatches,
            begin_ns: 1_000,
            returned_ns: 2_000,
            ..SessionEnd::default()
        };
        change(&mut end);
        region.session_end(&end);
        Counts::of(&region.trace())
    }

    fn work(issued: u64, retired: u64) -> Work {
        Work {
            issued,
            recorded: 0,
            retired_without_record: retired,
        }
    }

    #[test]
    fn lines_of_the_contract() {
        let counts = region(64, work(64, 0), |_| {});
        assert_eq!(counts.verdict_line(), "complete: 64 of 64 dispatches");
        assert_eq!(counts.loss_line(), "lost 0, late 0");
        assert_eq!(counts.code(), 0);
        let counts = region(60, work(64, 4), |_| {});
        assert_eq!(
            counts.verdict_line(),
            "complete: 60 of 64 dispatches recorded, 4 retired without a record"
        );
        assert_eq!(counts.code(), 3);
        let counts = region(62, work(64, 0), |end| end.low_watermark = 17);
        assert_eq!(
            counts.verdict_line(),
            "incomplete: 62 of 64 dispatches, 2 missing; whole up to correlation id 17"
        );
        assert_eq!(counts.code(), 3);
    }

    #[test]
    fn what_flight_mode_has_overwritten_is_not_missing() {
        let counts = |mode, reused| {
            let mut region = Builder::new();
            region.header_mut().mode = mode;
            region.session_begin(1, 1_000);
            region.record(0, Kind::Dispatch, 1, &[1_100, 1_200, 9, 0, 9, 1]);
            region.reused_cells(0, reused);
            let mut end = SessionEnd {
                session: 1,
                verdict: Verdict::Complete,
                proof: Proof::Pairs,
                dispatches: work(64, 0),
                ..SessionEnd::default()
            };
            end.dispatches.recorded = 64;
            region.session_end(&end);
            Counts::of(&region.trace())
        };
        let flight = counts(Mode::Flight, 500);
        assert_eq!(
            (flight.verdict_line().as_str(), flight.code()),
            (
                "complete: 64 of 64 dispatches; 63 older records are not in the file, whose mode keeps only the newest",
                0
            )
        );
        // Where nothing was reused, and in window mode, a record that is not there is missing.
        for counts in [counts(Mode::Flight, 0), counts(Mode::Window, 500)] {
            assert_eq!(
                counts.verdict_line(),
                "incomplete: 1 of 64 dispatches, 63 missing; whole up to correlation id 0"
            );
        }
    }

    #[test]
    fn losses_late_records_and_copies_are_not_hidden() {
        let counts = region(4, work(4, 0), |end| {
            end.lost.0[LossReason::AfterClose as usize] = 2;
            end.late = 5;
        });
        assert_eq!(counts.loss_line(), "lost 2 (after_close 2), late 5");
        assert_eq!(
            (counts.verdict_line().as_str(), counts.code()),
            ("complete: 4 of 4 dispatches", 3)
        );
        let counts = region(4, work(4, 0), |end| end.copies = work(3, 1));
        assert_eq!(
            counts.verdict_line(),
            "incomplete: 4 of 4 dispatches, 0 of 3 copies recorded, 1 retired without a record, 2 missing; whole up to correlation id 0"
        );
    }

    #[test]
    fn a_loss_that_no_session_counts_still_counts() {
        let mut region = Builder::new();
        region.session_begin(1, 0);
        region.session_end(&SessionEnd {
            session: 1,
            verdict: Verdict::Empty,
            ..SessionEnd::default()
        });
        assert_eq!(Counts::of(&region.trace()).code(), 0);
        assert_eq!(
            Counts::of(&region.trace()).verdict_line(),
            "empty: 0 of 0 dispatches"
        );
        // Session 3 was never opened as far as the sticky log says; its counter is there.
        region.counter(0, 3, Counter::Lost, 1);
        let counts = Counts::of(&region.trace());
        assert_eq!(
            (counts.loss_line().as_str(), counts.code()),
            ("lost 1 (no_segment 1), late 0", 3)
        );
    }

    #[test]
    fn no_session_at_all() {
        let counts = Counts::of(&Builder::new().trace());
        assert_eq!(
            counts.verdict_line(),
            "empty: 0 of 0 dispatches, no session was opened"
        );
        assert_eq!(counts.code(), 0);
    }
}
