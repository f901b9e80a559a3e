//! Decisions about kernels and copies: their numbers, the calls that launched them, and what is interned for them.

use strandline::record::{Kind, Record, high, low};

use crate::model::{Kernel, Process, copy_names};
use crate::order::Item;
use crate::pipeline::{Inserts, What};
use crate::proto::{bytes, message, text, uint};
use crate::text::is_utf8;

use super::packets::*;
use super::{
    Decision, FIRST_KERNEL, KernelShapes, Link, Perfetto, QUEUE_FIRST, RECENT, Shape, State,
    StreamRow, field,
};

/// Shapes of one kernel that are interned; more of them are written out each time.
const SHAPES_MAX: usize = 16;
/// Stands for the queue of copies.
const COPY_QUEUE: u64 = u64::MAX;

impl State {
    /// Row, device and stream of a device and stream.
    fn find_row(&mut self, device: usize, stream: usize) -> (u32, u32, u32) {
        let key = (device as u64) << 32 | stream as u64;
        let rows = &mut self.row_list;
        let at = *self.rows.entry(key).or_insert_with(|| {
            rows.push(StreamRow {
                key,
                ..StreamRow::default()
            });
            rows.len() as u32 - 1
        });
        (at, device as u32, stream as u32)
    }
}

impl Perfetto<'_> {
    /// Index of the row of the device and stream that work is drawn on, and theirs.
    #[inline]
    fn stream_row(&mut self, process: &Process<'_>, item: &Item<'_>) -> (usize, usize, usize) {
        let record = &item.record;
        let state = &mut self.states[item.process()];
        let key = (process.shown.work_agent(record), item.key);
        let (at, device, stream) = match state.newest_rows.get(key.1.into(), key) {
            Some(found) => found,
            None => {
                let found = state.find_row(process.device(record), process.stream(record));
                state.newest_rows.keep(key.1.into(), key, found);
                found
            }
        };
        (at as usize, device as usize, stream as usize)
    }

    /// Interned id of a queue, and whether it is new. Copies have no queue: one row of their own for each device.
    fn queue(state: &mut State, device: usize, queue: u64) -> (u32, bool) {
        let next = QUEUE_FIRST + state.queues.len() as u32;
        let iid = *state.queues.entry((device as u64, queue)).or_insert(next);
        (iid, iid == next)
    }

    /// Interns what a stage needs and the sequence does not know yet; `kernel` is a number and an interned id, and
    /// whether its name is new.
    fn intern_work(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        (queue_iid, new_queue): (u32, bool),
        (device, stream): (usize, usize),
        kernel: Option<(usize, u32, bool)>,
        inserts: &mut Inserts,
    ) {
        let record = &item.record;
        let state = &mut self.states[item.process()];
        let handle = process.streams[stream].handle;
        let new_handle = handle != 0 && !std::mem::replace(&mut state.stream_handles[stream], true);
        let operation = record.operation().min(5) as usize;
        let is_copy = record.kind() == Some(Kind::Copy);
        let new_copy = is_copy && !std::mem::replace(&mut state.copies[operation], true);
        if !new_queue && !new_handle && !new_copy && kernel.is_none() {
            return;
        }
        let intern = |out: &mut Vec<u8>| {
            if new_queue {
                let pid = process.pid;
                let name = if is_copy {
                    format!("Copies [{pid}]")
                } else {
                    format!("Queue {:#x} [{pid}]", record.queue())
                };
                specification(out, queue_iid.into(), &name, "Hardware queue", 2);
            }
            if new_handle {
                message(out, field::STRINGS, |out| {
                    uint(out, 1, stream as u64 + 1);
                    bytes(out, 2, format!("{handle:#x}").as_bytes());
                });
            }
            if new_copy {
                let (iid, name) = (1 + operation as u64, copy_names(record.operation()).1);
                named(out, field::EVENT_NAMES, iid, name.as_bytes());
            }
            if let Some((number, iid, new_name)) = kernel {
                let kernel = process.kernel(record.kernel_id());
                if new_name {
                    let iid = FIRST_KERNEL + number as u64;
                    named(out, field::EVENT_NAMES, iid, &kernel.display);
                }
                let place = (device, stream);
                interned_kernel(out, process, (&kernel, iid.into()), place, record);
            }
        };
        inserts.add(What::Definition, |out| {
            packet(out, state.gpu, NEEDS_STATE, None, |out| {
                message(out, field::INTERNED_DATA, intern);
            });
        });
    }

    /// Finds the shape of a dispatch, or makes it; interned ids of the kernel and of the queue, and whether the kernel
    /// has too many shapes already.
    #[inline]
    fn shape(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        number: usize,
        place: (usize, usize),
        inserts: &mut Inserts,
    ) -> (u32, u32, bool) {
        let record = &item.record;
        let state = &mut self.states[item.process()];
        while state.kernels.len() <= number {
            state.kernels.push(KernelShapes::default());
        }
        let row = (place.0 as u64) << 32 | place.1 as u64;
        let words: [u64; 5] = std::array::from_fn(|word| record.word(11 + word));
        let is_it = |shape: &Shape| {
            shape.words == words && shape.queue == record.queue() && shape.row == row
        };
        let kernel = &mut state.kernels[number];
        if let Some(shape) = kernel.shapes.get(kernel.newest)
            && is_it(shape)
        {
            return (shape.iid, shape.queue_iid, false);
        }
        if let Some(found) = kernel.shapes.iter().position(is_it) {
            kernel.newest = found;
            let shape = &kernel.shapes[found];
            return (shape.iid, shape.queue_iid, false);
        }
        let (count, first_iid) = (kernel.shapes.len(), kernel.first_iid);
        let queue = Self::queue(state, place.0, record.queue());
        if count == SHAPES_MAX {
            // It borrows the first one's kernel and says everything itself.
            self.intern_work(process, item, queue, place, None, inserts);
            return (first_iid, queue.0, true);
        }
        let iid = state.next_kernel;
        state.next_kernel += 1;
        let kernel = Some((number, iid, count == 0));
        self.intern_work(process, item, queue, place, kernel, inserts);
        let kernel = &mut self.states[item.process()].kernels[number];
        kernel.shapes.push(Shape {
            words,
            queue: record.queue(),
            row,
            iid,
            queue_iid: queue.0,
        });
        kernel.newest = count;
        if count == 0 {
            kernel.first_iid = iid;
        }
        (iid, queue.0, false)
    }

    #[inline]
    pub(super) fn work(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Decision {
        let (index, record) = (item.process(), &item.record);
        let (row, device, stream) = self.stream_row(process, item);
        let state = &mut self.states[index];
        let target = (state.launches).target(item.id, || record.ancestor_id());
        let number = state.launches.next_number(target);
        let event = state.event_base.wrapping_add(number);
        let row = &mut state.row_list[row];
        if row.lanes.place(item.place.start, item.place.end) > 0 {
            self.report.overlaps += 1;
        }
        let work = self.decided - 1;
        row.recent[row.next % RECENT] = (item.place.end, event, work);
        row.next += 1;
        let link = match target {
            None => Link::None,
            Some(call) if state.launches.is_claimed(call) => Link::After,
            Some(call) => {
                self.report.before_launch += 1;
                state.early.entry(call).or_default().push(work);
                Link::Before
            }
        };
        self.report.unlinked += u64::from(link == Link::None);
        let target = target.unwrap_or(record.correlation_id());
        if record.kind() != Some(Kind::Dispatch) {
            let queue = Self::queue(state, device, COPY_QUEUE);
            self.intern_work(process, item, queue, (device, stream), None, inserts);
            self.report.copies += 1;
            return Decision::Copy {
                event,
                target,
                queue: queue.0,
                link,
            };
        }
        let (number, _) = state.kernel_numbers.of(record.kernel_id());
        let (iid, queue, is_odd) = self.shape(process, item, number, (device, stream), inserts);
        self.report.kernels += 1;
        if process.scan.has_issues {
            self.depth_at_end(index, device, stream, item.place.end);
        }
        Decision::Kernel {
            event,
            target,
            number: number as u32,
            iid,
            queue,
            is_odd,
            link,
        }
    }
}

/// A kernel with one of its shapes.
fn interned_kernel(
    out: &mut Vec<u8>,
    process: &Process<'_>,
    (kernel, iid): (&Kernel, u64),
    (device, stream): (usize, usize),
    record: &Record<'_>,
) {
    let agent = process
        .facts
        .agent(kernel.agent)
        .or_else(|| process.devices.get(device).and_then(|device| device.agent));
    message(out, field::KERNELS, |out| {
        uint(out, 1, iid);
        text(out, 2, &kernel.mangled);
        text(out, 3, &kernel.display);
        if let Some(agent) = agent {
            bytes(out, 4, agent.name.as_bytes());
        }
        let symbol = &kernel.symbol;
        for (name, value) in [
            (arg!("registers_per_thread"), symbol.vgpr_count),
            (arg!("accum_vgpr_count"), symbol.accum_vgpr_count),
            (arg!("sgpr_count"), symbol.sgpr_count),
            (arg!("shared_mem_static"), symbol.group_bytes),
            (arg!("scratch_bytes"), symbol.private_bytes),
        ] {
            arg(out, 5, name, value.into());
        }
        shape_args(out, 5, process, record, kernel);
        stream_args(out, 5, process, stream);
        arg(out, 5, arg!("process_id"), process.pid);
        let mut string = |name: u64, value: &str| {
            message(out, 5, |out| {
                uint(out, 1, name);
                bytes(out, 6, value.as_bytes());
            });
        };
        string(arg!("process_name"), process.program());
        if !is_utf8(&kernel.mangled) {
            string(arg!("name_bytes"), &hex(&kernel.mangled));
        }
    });
}

/// Sizes, queue, memory and graph of a dispatch; dynamic memory also when there is none.
pub(super) fn shape_args(
    out: &mut Vec<u8>,
    number: u32,
    process: &Process<'_>,
    record: &Record<'_>,
    kernel: &Kernel,
) {
    let (grid, block) = (process.grid(record), record.block());
    let product = |size: [u32; 3]| {
        size.iter()
            .fold(1u64, |all, &one| all.saturating_mul(one.into()))
    };
    arg(out, number, arg!("workgroup_size"), product(block));
    arg(out, number, arg!("grid_size"), product(grid));
    arg(out, number, arg!("queue"), record.queue());
    let (private, group) = (low(record.word(14)), high(record.word(14)));
    let of_symbol = kernel.symbol.group_bytes;
    let dynamic = group.saturating_sub(of_symbol);
    arg(out, number, arg!("shared_mem_dynamic"), dynamic.into());
    if private != 0 {
        arg(out, number, arg!("scratch_bytes"), private.into());
    }
    let graph = record.word(15);
    if graph != 0 {
        arg(out, number, arg!("graph_id"), low(graph).into());
        arg(out, number, arg!("graph_node_id"), high(graph).into());
    }
}

/// The handle of a stream, and whether anybody knows the stream.
pub(super) fn stream_args(out: &mut Vec<u8>, number: u32, process: &Process<'_>, stream: usize) {
    let known = &process.streams[stream];
    if known.handle != 0 {
        message(out, number, |out| {
            uint(out, 1, arg!("stream_handle"));
            uint(out, 7, stream as u64 + 1);
        });
    }
    if !known.known {
        arg(out, number, arg!("stream_known"), 0);
    }
}
