//! Decisions about what host threads did: calls and what they wait for, ranges, marks, memory.

use strandline::record::Kind;

use crate::lanes::{NestedLanes, Started};
use crate::model::Process;
use crate::order::Item;
use crate::pipeline::{Inserts, What};
use crate::proto::{message, text, uint};

use super::names::{ANNOTATION_NAMES, CATEGORY_NAMES, lane_uuid, thing, unique};
use super::packets::*;
use super::parts::WaitEnd;
use super::{Decision, Host, Perfetto, Thread, Wait, Waiting, field};

/// Calls that return when their stream, or the whole device, has done its work.
const STREAM_WAITS: [&[u8]; 3] = [
    b"hipStreamSynchronize",
    b"hipStreamSynchronize_spt",
    b"cudaStreamSynchronize",
];
const DEVICE_WAITS: [&[u8]; 2] = [b"hipDeviceSynchronize", b"cudaDeviceSynchronize"];

/// Which operations of a process wait for the device.
pub(super) fn waiting(process: &Process<'_>) -> Vec<Waiting> {
    process
        .operations
        .iter()
        .map(|operation| {
            if STREAM_WAITS.contains(&&operation.name[..]) {
                Waiting::Stream
            } else if DEVICE_WAITS.contains(&&operation.name[..]) {
                Waiting::Device
            } else {
                Waiting::Nothing
            }
        })
        .collect()
}

impl Perfetto<'_> {
    /// Index of a thread's state; its first packets are written when it is new.
    #[inline]
    fn thread(
        &mut self,
        process: &Process<'_>,
        index: usize,
        thread: u32,
        inserts: &mut Inserts,
    ) -> usize {
        let state = &mut self.states[index];
        if let Some(at) = state.newest_threads.get(thread.into(), thread) {
            return at as usize;
        }
        let at = match state.threads.get(&thread) {
            Some(&at) => at,
            None => self.add_thread(process, index, thread, inserts),
        };
        let newest = &mut self.states[index].newest_threads;
        newest.keep(thread.into(), thread, at);
        at as usize
    }

    /// Makes a thread's state and writes its first packet.
    #[cold]
    fn add_thread(
        &mut self,
        process: &Process<'_>,
        index: usize,
        thread: u32,
        inserts: &mut Inserts,
    ) -> u32 {
        let mut next = self.states[index].next_sequence;
        let sequence = self.sequence(&mut next);
        let state = &mut self.states[index];
        state.next_sequence = next;
        let uuid = unique(process.identity, thing::THREAD, thread.into());
        let at = state.thread_list.len() as u32;
        state.threads.insert(thread, at);
        inserts.add(What::Definition, |block| {
            packet(block, sequence, CLEARED, None, |out| {
                defaults(out, Some(uuid));
                message(out, field::INTERNED_DATA, |out| {
                    for (at, name) in CATEGORY_NAMES.iter().enumerate() {
                        named(out, field::CATEGORIES, at as u64 + 1, name.as_bytes());
                    }
                    for (at, name) in ANNOTATION_NAMES.iter().enumerate() {
                        named(out, field::ANNOTATION_NAMES, at as u64 + 1, name.as_bytes());
                    }
                });
                message(out, field::TRACK_DESCRIPTOR, |out| {
                    uint(out, 1, uuid);
                    uint(out, 5, state.process_uuid);
                    message(out, 4, |out| {
                        let known = process.threads.get(&thread);
                        let tid = known.map_or(u64::from(thread), |known| known.tid);
                        uint(out, 1, process.pid);
                        uint(out, 2, tid);
                        let own = known.and_then(|known| known.name.clone());
                        let name = match own {
                            Some(name) => name,
                            None if tid == process.pid => process.program().to_owned(),
                            None if thread == 0 => "unknown thread".to_owned(),
                            None => format!("thread {thread}"),
                        };
                        text(out, 5, name.as_bytes());
                    });
                });
            });
        });
        state.thread_list.push(Thread {
            sequence,
            uuid,
            lanes: NestedLanes::default(),
            lanes_named: 1,
            names: Vec::new(),
        });
        at
    }

    /// The lane of a span on its thread.
    #[inline]
    fn thread_lane(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> (usize, usize) {
        let (index, record) = (item.process(), &item.record);
        let at = self.thread(process, index, record.thread(), inserts);
        let thread = &mut self.states[index].thread_list[at];
        let lane = thread.lanes.place(item.place.start, item.place.end);
        if lane > 0 {
            self.report.host_overlaps += 1;
            if lane == thread.lanes_named {
                thread.lanes_named += 1;
                let uuid = lane_uuid(process, record.thread(), lane);
                let name = format!("overlap {lane}");
                inserts.add(What::Definition, |out| {
                    child_track(out, thread.sequence, uuid, thread.uuid, &name);
                });
            }
        }
        (at, lane)
    }

    /// Writes the ends of calls that waited for the device and ended by `now`, with the last work that each waited for.
    #[cold]
    pub(super) fn settle_waits(&mut self, index: usize, now: u64, inserts: &mut Inserts) {
        let state = &mut self.states[index];
        let waits = std::mem::take(&mut state.waits);
        state.next_wait_end = u64::MAX;
        let devices = state.row_list.iter().map(|row| row.key >> 32);
        let one_device = devices.clone().max() == devices.min();
        for wait in waits {
            let end = wait.end.end;
            if end > now {
                state.next_wait_end = state.next_wait_end.min(end);
                state.waits.push(wait);
                continue;
            }
            let mut works = Vec::new();
            for row in &state.row_list {
                let waited = match wait.stream {
                    Some(stream) => row.key & u64::from(u32::MAX) == stream as u64,
                    // Which device the thread had chosen, no record says.
                    None => one_device,
                };
                let within = |work: &&(u64, u64, u64)| (wait.start..=end).contains(&work.0);
                if waited && let Some(&(_, id, record)) = row.recent.iter().filter(within).max() {
                    works.push((id, record));
                }
            }
            inserts.add(What::End, |out| {
                let ids: Vec<u64> = works.iter().map(|work| work.0).collect();
                end_packet(out, &wait.end, &ids);
            });
            self.parts.add_end(index, wait.end, works);
        }
    }

    #[inline]
    pub(super) fn call(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Decision {
        let record = &item.record;
        let (at, lane) = self.thread_lane(process, item, inserts);
        let operation = process.operation(record);
        let id = record.correlation_id();
        let state = &mut self.states[item.process()];
        let (first, count) = match id {
            0 => (0, 0),
            id => state.launches.numbers(id),
        };
        // A second call with the same id does not claim the same work again.
        let count = if count > 0 && state.launches.claim(id) {
            count
        } else {
            0
        };
        let number = self.decided - 1;
        if count > 0
            && !state.early.is_empty()
            && let Some(works) = state.early.remove(&id)
        {
            self.parts.add_early(item.process(), number, works);
        }
        let waits_for = match state.waiting[operation] {
            Waiting::Nothing => None,
            Waiting::Stream => process.drawn_stream(record).map(Some),
            Waiting::Device => Some(None),
        };
        self.report.arrows += u64::from(count);
        self.report.calls += 1;
        let thread = &mut state.thread_list[at];
        let is_new = !intern(&mut thread.names, operation);
        if is_new {
            let name = &process.operations[operation].name;
            (self.parts).add_name(number, thread.sequence, operation as u64 + 1, name);
        }
        if let Some(stream) = waits_for {
            // What it waited for is known only when the records have come to its end.
            let (start, end) = (item.place.start, item.place.end);
            state.next_wait_end = state.next_wait_end.min(end);
            let end = WaitEnd {
                call: number,
                sequence: thread.sequence,
                end,
                track: (lane > 0).then(|| lane_uuid(process, record.thread(), lane)),
            };
            self.parts.add_wait(end);
            state.waits.push(Wait { start, end, stream });
        }
        Decision::Host(Host {
            sequence: thread.sequence as u32,
            name: operation as u32,
            is_new,
            lane: lane as u32,
            waits: waits_for.is_some(),
            count,
            first,
        })
    }

    /// Place of a range's or mark's name among the names of its process, and whether its thread does not know it yet.
    fn name_place(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        thread: usize,
    ) -> (usize, bool) {
        let state = &mut self.states[item.process()];
        let next = state.names.len() as u32;
        let at = *state.names.entry(item.record.name_id()).or_insert(next);
        let place = process.operations.len() + at as usize;
        let thread = &mut state.thread_list[thread];
        let is_new = !intern(&mut thread.names, place);
        if is_new {
            let name = process.name(item.record.name_id());
            let (record, iid) = (self.decided - 1, place as u64 + 1);
            self.parts.add_name(record, thread.sequence, iid, &name);
        }
        (place, is_new)
    }

    /// A range, mark or scratch event.
    pub(super) fn other(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Decision {
        let (index, kind) = (item.process(), item.record.kind());
        let is_range = matches!(kind, Some(Kind::Range | Kind::OpenRange));
        let (at, lane) = if is_range {
            self.report.ranges += 1;
            self.thread_lane(process, item, inserts)
        } else {
            self.report.instants += 1;
            let thread = item.record.thread();
            (self.thread(process, index, thread, inserts), 0)
        };
        let (name, is_new) = if kind == Some(Kind::Scratch) {
            (0, false)
        } else {
            self.name_place(process, item, at)
        };
        Decision::Host(Host {
            sequence: self.states[index].thread_list[at].sequence as u32,
            name: name as u32,
            is_new,
            lane: lane as u32,
            waits: false,
            count: 0,
            first: 0,
        })
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
        let track = |lane: usize| unique(process.identity, thing::RANGES, lane as u64);
        while state.range_rows <= started.lane {
            inserts.add(What::Definition, |out| {
                let (track, parent) = (track(state.range_rows), state.process_uuid);
                child_track(out, state.main, track, parent, "ranges by id");
            });
            state.range_rows += 1;
        }
        let (main, track) = (state.main, track(started.lane));
        let name = process.name(started.name);
        inserts.add(What::Event, |block| {
            packet(block, main, NEEDS_STATE, Some(started.start), |out| {
                message(out, field::TRACK_EVENT, |out| {
                    uint(out, field::EVENT_TYPE, BEGIN);
                    uint(out, field::TRACK_UUID, track);
                    uint(out, field::CATEGORY_IID, 4);
                    text(out, field::NAME, &name);
                    annotate(out, annotation!("thread"), started.thread.into());
                    keep_bytes(out, &name);
                    if open {
                        annotate_flag(out, annotation!("open"));
                    }
                });
            });
            packet(block, main, NEEDS_STATE, Some(end), |out| {
                message(out, field::TRACK_EVENT, |out| {
                    uint(out, field::EVENT_TYPE, END);
                    uint(out, field::TRACK_UUID, track);
                });
            });
        });
        self.report.ranges += 1;
    }

    pub(super) fn allocation(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) {
        let state = &mut self.states[item.process()];
        let change = state.memory.change(&item.record);
        self.report.instants += 1;
        let gpu = process
            .facts
            .agent(change.agent)
            .is_some_and(strandline::facts::Agent::is_gpu);
        if !gpu {
            return;
        }
        let device = process.device_index(change.agent);
        let (_, gpu_id) = process.device_ids(device);
        let (main, start) = (state.main, item.place.start);
        inserts.add(What::Event, |block| {
            for pid in [0, process.pid] {
                packet(block, main, NEEDS_STATE, Some(start), |out| {
                    message(out, field::GPU_MEMORY, |out| {
                        uint(out, 1, gpu_id);
                        uint(out, 2, pid);
                        uint(out, 3, change.total);
                    });
                });
            }
        });
    }
}

/// Notes that a name is interned now; true when it was before.
#[inline]
fn intern(names: &mut Vec<bool>, place: usize) -> bool {
    if names.len() <= place {
        names.resize(place + 1, false);
    }
    std::mem::replace(&mut names[place], true)
}
