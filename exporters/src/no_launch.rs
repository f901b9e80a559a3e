//! How much device work leads to no recorded call of any session: what [`strandline::report::lacks_launch`] says, in bounded
//! memory.
//!
//! As many ids as have room are looked at at once, from the lowest up: usually all.

use strandline::record::{Kind, Record};

use crate::join::{Budget, Ids, LaunchTable, Sorted};
use crate::model::Process;

/// What the set of calls may have, bytes.
const SET_BYTES: u64 = 32 << 20;
/// Work whose second id has no place among the ids that are looked at, 16 bytes each.
const WAITING_MAX: usize = 1 << 18;

/// Counts it in the process's reports. `launches` are the recorded calls, if a table has them all and nothing else.
pub(crate) fn count(process: &mut Process<'_>, launches: Option<&LaunchTable>) {
    match launches {
        Some(launches) => count_by(process, launches),
        None => count_in(process, SET_BYTES, WAITING_MAX),
    }
}

fn count_by(process: &mut Process<'_>, launches: &LaunchTable) {
    let mut newest = 0;
    let leads = |id| launches.is_noted(id);
    for entry in process.trace.entries() {
        let record = entry.record;
        if is_work(&record)
            && let Some(at) = process.shown.span_index(record.session(), &mut newest)
            && !leads(record.correlation_id())
            && !leads(record.ancestor_id())
        {
            process.reports[at].flagged.no_launch += 1;
        }
    }
}

/// With so many bytes for the set, and so much work that waits.
fn count_in(process: &mut Process<'_>, set_bytes: u64, waiting_max: usize) {
    let mut from = 0;
    loop {
        let (calls, to) = calls_from(process, from, set_bytes);
        let is_here = |id| id >= from && to.is_none_or(|to| id < to);
        let (mut newest, mut waiting) = (0, Vec::new());
        for entry in process.trace.entries() {
            let record = entry.record;
            if !is_work(&record) {
                continue;
            }
            // It counts with the first of its ids.
            let mut ids = [record.correlation_id(), record.ancestor_id()];
            if ids[0] == 0 {
                ids.swap(0, 1);
            }
            let [id, other] = ids;
            if !is_here(id) || id != 0 && calls.contains(id) {
                continue;
            }
            let Some(at) = process.shown.span_index(record.session(), &mut newest) else {
                continue;
            };
            if other != 0 && !is_here(other) {
                waiting.push((other, at));
                if waiting.len() == waiting_max {
                    settle(process, &mut waiting);
                }
            } else if other == 0 || !calls.contains(other) {
                process.reports[at].flagged.no_launch += 1;
            }
        }
        settle(process, &mut waiting);
        match to {
            Some(to) => from = to,
            None => return,
        }
    }
}

fn is_work(record: &Record<'_>) -> bool {
    matches!(record.kind(), Some(Kind::Dispatch | Kind::Copy))
}

/// The ids of recorded calls from `from` on, all or those below the second result.
fn calls_from(process: &Process<'_>, from: u64, set_bytes: u64) -> (Ids, Option<u64>) {
    let mut to: Option<u64> = None;
    loop {
        let budget = Budget::new(set_bytes);
        let mut calls = Ids::new(0, budget.clone());
        each_call(process, |id| {
            if id >= from && to.is_none_or(|to| id < to) {
                calls.insert(id);
            }
            !budget.is_spent()
        });
        match calls.middle() {
            // One page has room in any case: the array of places takes 8 MiB at most.
            Some(middle) if budget.is_spent() => to = Some(middle),
            _ => return (calls, to),
        }
    }
}

/// All recorded calls' ids, as long as `take` says so.
fn each_call(process: &Process<'_>, mut take: impl FnMut(u64) -> bool) {
    let mut entries = process.trace.entries();
    let is_all = entries
        .all(|entry| entry.record.kind() != Some(Kind::Api) || take(entry.record.correlation_id()));
    if is_all {
        let open = process.facts.open.iter();
        open.filter(|words| words[0] & 0xff == Kind::OpenCall as u64)
            .all(|words| take(words[3]));
    }
}

/// Counts work that leads to no call by its second id either.
#[cold]
fn settle(process: &mut Process<'_>, waiting: &mut Vec<(u64, usize)>) {
    if waiting.is_empty() {
        return;
    }
    let mut ids = Sorted::default();
    ids.refill(|into| into.extend(waiting.iter().map(|work| work.0)));
    let mut has_call = vec![false; ids.len()];
    each_call(process, |id| {
        if let Some(at) = ids.find(id) {
            has_call[at] = true;
        }
        true
    });
    for (id, at) in waiting.drain(..) {
        if !ids.find(id).is_some_and(|at| has_call[at]) {
            process.reports[at].flagged.no_launch += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::Options;
    use crate::model::{Model, TimeBase};
    use strandline::Trace;
    use strandline::builder::Builder;
    use strandline::record::pair;
    use strandline::report;

    /// Calls and work whose ids are near, far and unknown.
    fn trace() -> Trace {
        let mut region = Builder::new();
        for session in [1, 2] {
            region.session_begin(session, 1_000);
        }
        let mut random = 7u64;
        let mut next = move || {
            random = (random.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1);
            random >> 33
        };
        for at in 0..3_000 {
            let mut id = || match next() % 4 {
                0 => 0,
                1 => next() % 2_000,
                2 => (next() % 300) * 600,
                _ => u64::MAX - next() % 300,
            };
            let session = 1 + at % 2;
            if at % 3 == 0 {
                let words = [10, 20, id(), 0, 1, 0, pair(1, 7)];
                region.record(0, Kind::Api, session, &words);
            } else {
                let mut words = [0; 15];
                words[..4].copy_from_slice(&[10, 20, id(), id()]);
                region.record(1, Kind::Dispatch, session, &words);
            }
        }
        region.trace()
    }

    #[test]
    fn the_counts_are_those_of_the_report_however_little_room_there_is() {
        let traces = [trace()];
        let counts = |reports: &[report::SessionReport]| -> Vec<u64> {
            let flagged = reports.iter().map(|report| report.flagged.no_launch);
            flagged.collect()
        };
        let expected = counts(&report::sessions(&traces[0]));
        assert!(expected.iter().all(|&count| count > 100), "{expected:?}");
        let mut model = Model::new(&traces, TimeBase::Unix, &Options::default());
        let process = &mut model.processes[0];
        assert_eq!(counts(&process.reports), expected);
        for (set_bytes, waiting_max) in [(1 << 20, 1_000), (6_000, 1_000), (2_500, 3)] {
            for report in &mut process.reports {
                report.flagged.no_launch = 0;
            }
            count_in(process, set_bytes, waiting_max);
            assert_eq!(counts(&process.reports), expected, "{set_bytes} bytes");
        }
    }
}
