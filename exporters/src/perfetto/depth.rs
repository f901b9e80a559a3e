//! Counters of how many kernels a stream's queue holds.

use std::cmp::Reverse;

use crate::model::Process;
use crate::order::Item;
use crate::pipeline::{Inserts, What};
use crate::proto::{bytes, message, uint};

use super::names::{thing, unique};
use super::packets::*;
use super::{Depth, Perfetto, field};

/// Samples of a queue's depth are at least this far apart, but the last of a burst is always there.
const DEPTH_STEP_NS: u64 = 10_000;

impl Perfetto<'_> {
    /// A dispatch was issued: its stream's queue grows.
    pub(super) fn issue(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) {
        let (index, record, start) = (item.process(), &item.record, item.place.start);
        self.settle_depths(index, start, inserts);
        if !item.is_drawn {
            return;
        }
        let agent = process
            .facts
            .queues
            .iter()
            .find(|(queue, _)| *queue == record.queue())
            .map(|&(_, agent)| agent);
        let (Some(device), Some(stream)) = (
            agent.map(|agent| process.device_index(agent)),
            process.drawn_stream(record),
        ) else {
            return;
        };
        let at = self.depth(process, index, (device, stream), inserts);
        self.change_depth(index, at, start, 1, inserts);
    }

    fn depth(
        &mut self,
        process: &Process<'_>,
        index: usize,
        (device, stream): (usize, usize),
        inserts: &mut Inserts,
    ) -> usize {
        let state = &mut self.states[index];
        let key = (device as u64) << 32 | stream as u64;
        if let Some(&at) = state.depths.get(&key) {
            return at as usize;
        }
        let at = state.depth_list.len();
        state.depths.insert(key, at as u32);
        let uuid = unique(process.identity, thing::DEPTH, key);
        let (number, _) = process.device_ids(device);
        let name = format!("queue depth d{number} s{}", process.streams[stream].number);
        inserts.add(What::Definition, |out| {
            packet(out, state.main, NEEDS_STATE, None, |out| {
                message(out, field::TRACK_DESCRIPTOR, |out| {
                    uint(out, 1, uuid);
                    uint(out, 5, state.process_uuid);
                    bytes(out, 2, name.as_bytes());
                    message(out, 8, |out| uint(out, 3, 2));
                });
            });
        });
        state.depth_list.push(Depth {
            uuid,
            value: 0,
            written_ns: 0,
            changed_ns: 0,
            pending: false,
        });
        at
    }

    pub(super) fn depth_at_end(&mut self, index: usize, device: usize, stream: usize, end: u64) {
        let state = &mut self.states[index];
        let key = (device as u64) << 32 | stream as u64;
        if let Some(&at) = state.depths.get(&key) {
            state.ends.push(Reverse((end, at)));
        }
    }

    /// Takes account of all kernels that ended up to `now`.
    pub(super) fn settle_depths(&mut self, index: usize, now: u64, inserts: &mut Inserts) {
        while let Some(&Reverse((end, at))) = self.states[index].ends.peek() {
            if end > now {
                break;
            }
            self.states[index].ends.pop();
            self.change_depth(index, at as usize, end, -1, inserts);
        }
    }

    fn change_depth(&mut self, index: usize, at: usize, now: u64, by: i64, inserts: &mut Inserts) {
        if now
            >= self.states[index].depth_list[at]
                .written_ns
                .saturating_add(DEPTH_STEP_NS)
        {
            self.write_depth(index, at, inserts);
        }
        let depth = &mut self.states[index].depth_list[at];
        depth.value = depth.value.saturating_add_signed(by);
        depth.changed_ns = now;
        depth.pending = true;
        if now >= depth.written_ns.saturating_add(DEPTH_STEP_NS) {
            self.write_depth(index, at, inserts);
        }
    }

    pub(super) fn write_depth(&mut self, index: usize, at: usize, inserts: &mut Inserts) {
        let state = &mut self.states[index];
        let depth = &mut state.depth_list[at];
        if !depth.pending {
            return;
        }
        depth.pending = false;
        depth.written_ns = depth.changed_ns;
        inserts.add(What::Event, |out| {
            packet(
                out,
                state.main,
                NEEDS_STATE,
                Some(depth.changed_ns),
                |out| {
                    message(out, field::TRACK_EVENT, |out| {
                        uint(out, field::EVENT_TYPE, COUNTER);
                        uint(out, field::TRACK_UUID, depth.uuid);
                        uint(out, field::COUNTER_VALUE, depth.value);
                    });
                },
            );
        });
    }
}
