//! Decisions about what host threads did: calls and the arrows they end late, ranges, marks, memory.

use strandline::record::Kind;

use crate::lanes::{NestedLanes, Started};
use crate::model::Process;
use crate::order::Item;
use crate::pipeline::{Inserts, What};
use crate::text::{push_micros, push_u64};

use super::format::instant;
use super::rows::{name_thread, thread_name};
use super::texts::named;
use super::{ARROW, Chrome, Decision, NOTHING, RANGES_TID_FIRST, State, ThreadRow};

impl State {
    /// Index of a thread's row.
    #[inline]
    pub(super) fn thread(&mut self, process: &Process<'_>, thread: u32) -> usize {
        if let Some(at) = self.newest_threads.get(thread.into(), thread) {
            return at as usize;
        }
        let rows = &mut self.thread_rows;
        let at = *self.threads.entry(thread).or_insert_with(|| {
            let tid = process
                .threads
                .get(&thread)
                .map_or(thread, |thread| thread.tid as u32);
            rows.push(ThreadRow {
                lanes: NestedLanes::default(),
                tids: vec![tid],
            });
            rows.len() as u32 - 1
        });
        self.newest_threads.keep(thread.into(), thread, at);
        at as usize
    }
}

impl Chrome<'_> {
    /// Thread id of the lane of a span.
    #[inline]
    fn thread_lane(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> u32 {
        let state = &mut self.states[item.process()];
        let thread = item.key;
        let at = state.thread(process, thread);
        let row = &mut state.thread_rows[at];
        let lane = row.lanes.place(item.place.start, item.place.end);
        if lane > 0 {
            self.report.host_overlaps += 1;
        }
        if lane == row.tids.len() {
            let tid = state.next_lane_tid;
            state.next_lane_tid += 1;
            row.tids.push(tid);
            let own = process.threads.get(&thread).map_or(0, |thread| thread.tid);
            let name = format!("{} (overlap {lane})", thread_name(process, thread, own));
            inserts.add(What::Definition, |out| {
                name_thread(out, state.pid, tid.into(), &name, own);
            });
        }
        row.tids[lane]
    }

    #[inline]
    pub(super) fn call(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Decision {
        let tid = self.thread_lane(process, item, inserts);
        let id = item.id;
        let state = &mut self.states[item.process()];
        // A second call with the same id would start the same arrows again.
        let launched = id != 0 && state.launches.claim(id);
        if launched && !state.early.is_empty() {
            self.end_early(process, item, inserts);
        }
        self.report.calls += 1;
        Decision {
            tid,
            row: 0,
            flags: if launched { ARROW } else { 0 },
        }
    }

    /// Ends the arrows of a call on work that began before it and still runs.
    #[cold]
    fn end_early(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) {
        let (id, start) = (item.record.correlation_id(), item.place.start);
        let early = self.states[item.process()].early.remove(&id);
        for work in early.unwrap_or_default() {
            // An event holds the moments before its end, not the end.
            if work.end <= start {
                continue;
            }
            self.report.arrows += 1;
            inserts.add_behind(What::Arrow(work.number), |out| {
                out.extend_from_slice(b",\n{\"ph\":\"f\",\"id\":");
                push_u64(out, process.correlation(id));
                out.extend_from_slice(b",\"pid\":");
                push_u64(out, work.pid);
                out.extend_from_slice(b",\"tid\":");
                push_u64(out, work.tid.into());
                out.extend_from_slice(b",\"ts\":");
                push_micros(out, start - self.base_ns);
                out.extend_from_slice(b",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
            });
        }
    }

    pub(super) fn range_by_id(
        &mut self,
        process: &Process<'_>,
        index: usize,
        started: &Started,
        end: u64,
        open: bool,
        inserts: &mut Inserts,
    ) {
        let state = &mut self.states[index];
        while state.range_rows <= started.lane {
            let tid = RANGES_TID_FIRST + state.range_rows as u64;
            state.range_rows += 1;
            inserts.add(What::Definition, |out| {
                name_thread(out, state.pid, tid, "ranges by id", RANGES_TID_FIRST);
            });
        }
        let text = named("user_annotation", &process.name(started.name));
        inserts.add(What::Event, |block| {
            block.extend_from_slice(&text.head);
            push_u64(block, state.pid);
            block.extend_from_slice(b",\"tid\":");
            push_u64(block, RANGES_TID_FIRST + started.lane as u64);
            block.extend_from_slice(b",\"ts\":");
            push_micros(block, started.start - self.base_ns);
            block.extend_from_slice(b",\"dur\":");
            push_micros(block, end.saturating_sub(started.start));
            block.extend_from_slice(b",\"args\":{\"thread\":");
            push_u64(block, started.thread.into());
            block.extend_from_slice(&text.args);
            if open {
                block.extend_from_slice(b",\"open\":true");
            }
            block.extend_from_slice(b"}}");
        });
        self.report.ranges += 1;
    }

    /// What is rare, or has no event of its own.
    pub(super) fn rare(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Decision {
        let (index, record, start) = (item.process(), &item.record, item.place.start);
        let nothing = Decision {
            tid: 0,
            row: 0,
            flags: NOTHING,
        };
        match record.kind() {
            Some(Kind::Range | Kind::OpenRange) => {
                let tid = self.thread_lane(process, item, inserts);
                self.report.ranges += 1;
                return Decision {
                    tid,
                    row: 0,
                    flags: 0,
                };
            }
            Some(Kind::Mark | Kind::Alloc | Kind::Scratch) => {
                let state = &mut self.states[index];
                let row = state.thread(process, item.key);
                let tid = state.thread_rows[row].tids[0];
                self.report.instants += 1;
                if record.kind() != Some(Kind::Alloc) {
                    return Decision {
                        tid,
                        row: 0,
                        flags: 0,
                    };
                }
                let change = state.memory.change(record);
                let (device, kind) = match process.facts.agent(record.agent()) {
                    Some(agent) if agent.is_gpu() => (i64::from(agent.type_index), 6),
                    _ => (-1, 0),
                };
                let args = format!(
                    "\"Addr\":{},\"Bytes\":{},\"Total Allocated\":{},\"Total Reserved\":{},\"Device Id\":{device},\"Device Type\":{kind},\"correlation\":{}",
                    record.word(11),
                    change.bytes,
                    change.total,
                    change.total,
                    process.correlation(record.correlation_id()),
                );
                inserts.add(What::Event, |out| {
                    let place = (state.pid, tid, start - self.base_ns);
                    instant(out, b"[memory]", place, args.as_bytes());
                });
            }
            Some(Kind::RangeStart) => self.states[index].ranges.start_by(record, start),
            Some(Kind::RangeStop) => {
                if let Some(started) = self.states[index].ranges.stop_by(record) {
                    self.range_by_id(process, index, &started, start, false, inserts);
                }
            }
            _ => {}
        }
        nothing
    }
}
