//! Decisions about work on GPUs: rows, lanes for what overlaps, arrows.

use std::cmp::Reverse;

use strandline::record::Kind;

use crate::lanes::FlatLanes;
use crate::model::Process;
use crate::order::Item;
use crate::pipeline::{Inserts, What};

use super::rows::{name_thread, stream_name};
use super::{ARROW, BY_ANCESTOR, Chrome, Decision, Early, LINKED, State, StreamRow};

impl State {
    /// Keeps work that began before its call, for as long as it runs.
    #[cold]
    fn add_early(&mut self, call: u64, now: u64, work: Early) {
        while let Some(&Reverse((end, call))) = self.early_ends.peek()
            && end <= now
        {
            self.early_ends.pop();
            if let Some(works) = self.early.get_mut(&call) {
                works.retain(|work| work.end > now);
                if works.is_empty() {
                    self.early.remove(&call);
                }
            }
        }
        self.early_ends.push(Reverse((work.end, call)));
        self.early.entry(call).or_default().push(work);
    }
}

impl Chrome<'_> {
    #[inline]
    fn stream_row(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> usize {
        let state = &self.states[item.process()];
        // Where there is one device, nobody need ask which.
        let agent = if process.devices.len() > 1 {
            process.shown.work_agent(&item.record)
        } else {
            0
        };
        let key = (agent, item.key);
        match state.newest_rows.get(key.1.into(), key) {
            Some(at) => at as usize,
            None => {
                let at = self.find_row(process, item, inserts);
                let state = &mut self.states[item.process()];
                state.newest_rows.keep(key.1.into(), key, at);
                at as usize
            }
        }
    }

    fn find_row(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) -> u32 {
        let (device, stream) = (process.device(&item.record), process.stream(&item.record));
        let state = &mut self.states[item.process()];
        let key = (device as u64) << 32 | stream as u64;
        if let Some(&at) = state.streams.get(&key) {
            return at;
        }
        let at = state.stream_rows.len() as u32;
        state.streams.insert(key, at);
        let stream = &process.streams[stream];
        let pid = state.gpu_pid + process.device_ids(device).0;
        state.stream_rows.push(StreamRow {
            lanes: FlatLanes::default(),
            tids: vec![stream.number as u32],
        });
        inserts.add(What::Definition, |out| {
            let name = stream_name(stream);
            name_thread(out, pid, stream.number, &name, stream.number);
        });
        at
    }

    #[inline]
    pub(super) fn work(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Decision {
        let record = &item.record;
        let row = self.stream_row(process, item, inserts);
        let state = &mut self.states[item.process()];
        let stream_row = &mut state.stream_rows[row];
        let lane = stream_row.lanes.place(item.place.start, item.place.end);
        if lane > 0 {
            self.report.overlaps += 1;
        }
        if lane == stream_row.tids.len() {
            let pid = state.gpu_pid + process.device_ids(process.device(record)).0;
            let tid = state.next_lane_tid;
            state.next_lane_tid += 1;
            stream_row.tids.push(tid);
            let stream = &process.streams[process.stream(record)];
            let name = format!("{} (overlap {lane})", stream_name(stream).trim_end());
            inserts.add(What::Definition, |out| {
                name_thread(out, pid, tid.into(), &name, stream.number);
            });
        }
        let tid = stream_row.tids[lane];
        if item.kind == Some(Kind::Dispatch) {
            self.report.kernels += 1;
        } else {
            self.report.copies += 1;
        }
        let mut flags = 0;
        match state.launches.target(item.id, || record.ancestor_id()) {
            None => self.report.unlinked += 1,
            Some(target) => {
                flags = if target == item.id {
                    LINKED
                } else {
                    BY_ANCESTOR
                };
                if state.launches.is_claimed(target) {
                    flags |= ARROW;
                    self.report.arrows += 1;
                } else {
                    // The call comes later in time.
                    self.report.before_launch += 1;
                    let early = Early {
                        end: item.place.end,
                        pid: state.gpu_pid + process.device_ids(process.device(record)).0,
                        tid,
                        number: self.decided - 1,
                    };
                    state.add_early(target, item.place.start, early);
                }
            }
        }
        Decision {
            tid,
            row: row as u32,
            flags,
        }
    }
}
