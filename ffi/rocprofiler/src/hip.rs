//! HIP calls: which stream a call names, which arguments are worth keeping. By the generated tables of
//! `strandline-rocprofiler-sys`; nothing here allocates or looks anything up by name.
//!
//! Streams 0, 1 and 2 are the null, legacy and per-thread streams. In the `_spt` variants the null stream is the calling
//! thread's own. The multi-device launches keep one stream a device behind a pointer: unknown.

use strandline::Runtime;
use strandline::events::ApiArgs;
use strandline::record::{StreamKind, api_arg, pair};
use strandline_rocprofiler_sys as sys;
use sys::hip::{self, HipArgs, HipArgsClass, NO_OFFSET};

/// `hipLaunchKernelExC` and `hipDrvLaunchKernelEx`: the stream lies in the struct behind the first argument, at byte 32
/// (hip_runtime_api.h, hipLaunchConfig_t and HIP_LAUNCH_CONFIG).
const CONFIG_STREAM: usize = 32;

/// The argument union of a HIP payload.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a>(&'a [u64; 11]);

impl<'a> Args<'a> {
    /// The arguments of `payload`.
    #[inline(always)]
    pub fn new(payload: &'a sys::rocprofiler_callback_tracing_hip_api_data_t) -> Self {
        // SAFETY: the union is 88 bytes, all of them readable as words; unset bytes are whatever was there before.
        Self(unsafe { &payload.args.words })
    }

    #[inline(always)]
    fn u64(self, offset: u8) -> u64 {
        if offset == NO_OFFSET {
            return 0;
        }
        let offset = usize::from(offset);
        match (offset % 8, self.0.get(offset / 8)) {
            (0, Some(&word)) => word,
            _ => 0,
        }
    }

    #[inline(always)]
    fn u32(self, offset: u8) -> u32 {
        if offset == NO_OFFSET {
            return 0;
        }
        let offset = usize::from(offset);
        self.0
            .get(offset / 8)
            .map_or(0, |word| (word >> (offset % 8 * 8)) as u32)
    }
}

/// The stream number of a call, 0 = the call names none.
#[inline]
pub fn stream(runtime: &Runtime, op: u32, args: Args<'_>, thread: u32) -> u32 {
    let offset = hip::HIP_STREAM_OFFSET
        .get(op as usize)
        .copied()
        .unwrap_or(NO_OFFSET);
    let handle = if offset != NO_OFFSET {
        args.u64(offset)
    } else {
        match op {
            hip::op::hipLaunchKernelExC | hip::op::hipDrvLaunchKernelEx => {
                let config = args.u64(0) as *const u8;
                if config.is_null() {
                    return 0;
                }
                // SAFETY: HIP itself reads the caller's struct during the call; the field is 8 bytes at that offset.
                unsafe { config.add(CONFIG_STREAM).cast::<u64>().read_unaligned() }
            }
            _ => return implied_stream(runtime, op, thread),
        }
    };
    number(runtime, op, handle, thread)
}

/// Calls without a stream argument that put work on the default stream.
fn implied_stream(runtime: &Runtime, op: u32, thread: u32) -> u32 {
    match hip::hip_args(op).map(|args| args.class) {
        Some(HipArgsClass::Copy | HipArgsClass::Set) => number(runtime, op, 0, thread),
        _ => 0,
    }
}

#[inline]
fn number(runtime: &Runtime, op: u32, handle: u64, thread: u32) -> u32 {
    let (kind, thread) = match handle {
        0 if hip::hip_is_per_thread_variant(op) => (StreamKind::PerThread, thread),
        0 => (StreamKind::Null, 0),
        1 => (StreamKind::Legacy, 0),
        2 => (StreamKind::PerThread, thread),
        _ => (StreamKind::Seen, 0),
    };
    runtime.stream(handle, kind, thread)
}

/// A stream was created or is being destroyed. Creation is known at EXIT, destruction at ENTER: the handle may come back
/// on another thread before the destroying call has returned.
pub fn stream_life(runtime: &Runtime, op: u32, args: Args<'_>, entering: bool, return_value: i32) {
    let created = hip::HIP_STREAM_OUT_OFFSET
        .get(op as usize)
        .copied()
        .unwrap_or(NO_OFFSET);
    if entering {
        if hip::hip_destroys_stream(op) {
            let handle = args.u64(hip::HIP_STREAM_OFFSET[op as usize]);
            if handle > 2 {
                runtime.stream_destroyed(handle);
            }
        }
    } else if created != NO_OFFSET && return_value == 0 {
        let place = args.u64(created) as *const u64;
        if !place.is_null() {
            // SAFETY: HIP wrote the new handle there just now, and the caller's variable lives during the call.
            let handle = unsafe { place.read_unaligned() };
            runtime.stream_created(handle);
        }
    }
}

/// Ids of the operations that create or destroy streams.
pub fn stream_life_operations() -> Vec<i32> {
    (0..hip::HIP_OPERATION_COUNT as u32)
        .filter(|&op| {
            hip::HIP_STREAM_OUT_OFFSET[op as usize] != NO_OFFSET || hip::hip_destroys_stream(op)
        })
        .map(|op| op as i32)
        .collect()
}

/// The arguments worth keeping, in the record's words 8 to 15; `None` when the call has none.
#[inline]
pub fn arguments(op: u32, args: Args<'_>) -> Option<ApiArgs> {
    let table = hip::hip_args(op)?;
    let mut words: ApiArgs = [0; 8];
    match table.class {
        HipArgsClass::Launch => launch(table, args, &mut words)?,
        HipArgsClass::GraphLaunch => {
            words[0] = api_arg::GRAPH;
            words[2] = args.u64(table.graph_exec);
        }
        HipArgsClass::Copy => {
            words[0] = api_arg::DESTINATION | api_arg::SOURCE;
            words[2] = args.u64(table.dst);
            words[3] = args.u64(table.src);
            size(table, args, 1, &mut words);
            let kind = if table.copy_kind != NO_OFFSET {
                args.u32(table.copy_kind)
            } else {
                table.implied_copy_kind.into()
            };
            if kind != u32::from(NO_OFFSET) {
                words[0] |= api_arg::COPY_KIND;
                words[4] = kind.into();
            }
        }
        HipArgsClass::Set => {
            words[0] = api_arg::DESTINATION;
            words[2] = args.u64(table.dst);
            size(table, args, table.element_bytes.max(1).into(), &mut words);
        }
        HipArgsClass::Alloc => {
            words[0] = api_arg::DESTINATION;
            let place = args.u64(table.ptr) as *const u64;
            if !place.is_null() {
                // SAFETY: an out parameter of a call that is returning; HIP wrote it (or left the caller's value).
                words[2] = unsafe { place.read_unaligned() };
            }
            size(table, args, 1, &mut words);
        }
        HipArgsClass::Free => {
            words[0] = api_arg::DESTINATION;
            words[2] = args.u64(table.ptr);
        }
        HipArgsClass::Event => {
            words[0] = api_arg::EVENT;
            words[2] = args.u64(table.event);
        }
    }
    Some(words)
}

fn size(table: &HipArgs, args: Args<'_>, element: u64, words: &mut ApiArgs) {
    let bytes = if table.bytes != NO_OFFSET {
        args.u64(table.bytes)
    } else if table.width != NO_OFFSET {
        args.u64(table.width)
            .wrapping_mul(if table.height == NO_OFFSET {
                1
            } else {
                args.u64(table.height)
            })
    } else {
        return;
    };
    words[0] |= api_arg::BYTES;
    words[1] = bytes.wrapping_mul(element);
}

fn launch(table: &HipArgs, args: Args<'_>, words: &mut ApiArgs) -> Option<()> {
    if table.grid == NO_OFFSET || table.block == NO_OFFSET {
        return None;
    }
    let [grid, block] =
        [table.grid, table.block].map(|at| [0, 4, 8].map(|step| args.u32(at + step)));
    words[0] = api_arg::LAUNCH
        | if table.grid_in_work_items {
            api_arg::GRID_IN_ITEMS
        } else {
            0
        };
    words[5] = pair(grid[0], grid[1]);
    let shared = match table.shared_size {
        0 => 0,
        4 => args.u32(table.shared),
        _ => u32::try_from(args.u64(table.shared)).unwrap_or(u32::MAX),
    };
    words[6] = pair(grid[2], shared);
    let narrow = |value: u32| u64::from(u16::try_from(value).unwrap_or(u16::MAX));
    words[7] = narrow(block[0]) | narrow(block[1]) << 16 | narrow(block[2]) << 32;
    Some(())
}
