//! Reader of rocprofv3's results JSON.
//!
//! Only kernel dispatches are in these recordings. Each is played inside a `hipLaunchKernel` call on
//! its recorded thread, so that a tool can learn the stream. Launches keep the order of the dispatch
//! ids; a launch comes 1 us before the earliest start of its own and all later dispatches, so that
//! no dispatch starts before its launch.

use std::collections::HashMap;

use serde::Deserialize;
use sim_interface::op;

use super::{
    Action, CodeObject, Dispatch, Event, Kernel, RecordedStream, Recording, set_argument,
    set_dimensions, stream_word,
};

/// How long before the start the launch is.
const LAUNCH_BEFORE_NS: u64 = 1_000;

/// `rocprofiler-sdk-tool[0]`.
#[derive(Deserialize)]
pub(super) struct Process {
    #[serde(default)]
    agents: Vec<Agent>,
    #[serde(default)]
    kernel_symbols: Vec<Symbol>,
    #[serde(default)]
    code_objects: Vec<Object>,
    buffer_records: Records,
}

#[derive(Deserialize)]
struct Handle {
    handle: u64,
}

#[derive(Deserialize)]
struct Agent {
    id: Handle,
    r#type: u32,
    #[serde(default)]
    name: String,
    #[serde(default)]
    product_name: String,
}

#[derive(Deserialize)]
struct Symbol {
    kernel_id: u64,
    code_object_id: u64,
    kernel_name: String,
    #[serde(default)]
    private_segment_size: u32,
    #[serde(default)]
    group_segment_size: u32,
}

#[derive(Deserialize)]
struct Object {
    code_object_id: u64,
    agent_id: Handle,
}

#[derive(Deserialize)]
struct Records {
    #[serde(default)]
    kernel_dispatch: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    thread_id: u64,
    start_timestamp: u64,
    end_timestamp: u64,
    dispatch_info: Info,
    stream_id: Option<Handle>,
}

#[derive(Deserialize)]
struct Info {
    agent_id: Handle,
    queue_id: Handle,
    kernel_id: u64,
    dispatch_id: u64,
    private_segment_size: u32,
    group_segment_size: u32,
    workgroup_size: Size,
    grid_size: Size,
}

#[derive(Deserialize)]
struct Size {
    x: u32,
    y: u32,
    z: u32,
}

impl Size {
    fn array(&self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// `ROCPROFILER_AGENT_TYPE_GPU`.
const GPU: u32 = 2;

/// Makes a recording of it.
pub(super) fn convert(mut process: Process) -> Result<Recording, String> {
    let mut recording = Recording {
        format: "rocprofv3",
        ..Recording::default()
    };
    let gpus: Vec<&Agent> = process
        .agents
        .iter()
        .filter(|agent| agent.r#type == GPU)
        .collect();
    let gpu_of: HashMap<u64, u32> = gpus
        .iter()
        .zip(0..)
        .map(|(agent, index)| (agent.id.handle, index))
        .collect();
    recording.gpus = gpus.len() as u32;
    if recording.gpus > 64 {
        return Err(format!(
            "{} GPUs; the simulation has 64 at most",
            recording.gpus
        ));
    }
    recording.gpu_name = gpus.first().map(|agent| agent.product_name.clone());
    recording.gpu_gfx = gpus.first().map(|agent| agent.name.clone());

    // Kernels in the order of their ids, so that a fresh SDK gives them the same ids.
    process
        .kernel_symbols
        .retain(|symbol| symbol.kernel_id != 0);
    process
        .kernel_symbols
        .sort_by_key(|symbol| symbol.kernel_id);
    let object_gpu: HashMap<u64, u32> = process
        .code_objects
        .iter()
        .filter_map(|object| Some((object.code_object_id, *gpu_of.get(&object.agent_id.handle)?)))
        .collect();
    let mut kernel_of = HashMap::new();
    let mut last_object = None;
    for (number, symbol) in process.kernel_symbols.into_iter().enumerate() {
        if last_object != Some(symbol.code_object_id) {
            last_object = Some(symbol.code_object_id);
            recording.code_objects.push(CodeObject {
                gpu: object_gpu.get(&symbol.code_object_id).copied().unwrap_or(0),
                kernels: Vec::new(),
            });
        }
        kernel_of.insert(symbol.kernel_id, number);
        if let Some(object) = recording.code_objects.last_mut() {
            object.kernels.push(Kernel {
                name: symbol.kernel_name,
                private_segment: symbol.private_segment_size,
                group_segment: symbol.group_segment_size,
            });
        }
    }

    let mut records = process.buffer_records.kernel_dispatch;
    records.sort_by_key(|record| record.dispatch_info.dispatch_id);
    let mut streams: HashMap<RecordedStream, usize> = HashMap::new();
    let mut threads: HashMap<u64, usize> = HashMap::new();
    // Earliest start of this and all later dispatches.
    let mut launch_ns = vec![0; records.len()];
    let mut earliest = u64::MAX;
    for (index, record) in records.iter().enumerate().rev() {
        earliest = earliest.min(record.start_timestamp);
        launch_ns[index] = earliest.saturating_sub(LAUNCH_BEFORE_NS);
    }
    for (index, record) in records.iter().enumerate() {
        let info = &record.dispatch_info;
        let id = info.dispatch_id;
        let &gpu = gpu_of
            .get(&info.agent_id.handle)
            .ok_or_else(|| format!("dispatch {id}: no GPU with id {}", info.agent_id.handle))?;
        let &kernel = kernel_of
            .get(&info.kernel_id)
            .ok_or_else(|| format!("dispatch {id}: no kernel with id {}", info.kernel_id))?;
        if record.end_timestamp <= record.start_timestamp {
            return Err(format!("dispatch {id}: ends before it starts"));
        }
        let stream = RecordedStream {
            gpu,
            number: record.stream_id.as_ref().map_or(0, |stream| stream.handle),
        };
        let next = streams.len();
        let stream_index = *streams.entry(stream).or_insert_with(|| {
            recording.streams.push(stream);
            next
        });
        let next = threads.len();
        let thread = *threads.entry(record.thread_id).or_insert_with(|| {
            recording.threads.push(Some(record.thread_id));
            next
        });
        let (grid, workgroup) = (info.grid_size.array(), info.workgroup_size.array());
        let blocks = core::array::from_fn(|axis| grid[axis].div_ceil(workgroup[axis].max(1)));
        let launch = op::hipLaunchKernel;
        let mut args = [0; 11];
        // The stub's address is not recorded: the kernel's number stands for it.
        set_argument(&mut args, launch, "function_address", kernel as u64 + 1);
        set_dimensions(&mut args, launch, "numBlocks", blocks);
        set_dimensions(&mut args, launch, "dimBlocks", workgroup);
        recording.dispatches.push(Dispatch {
            kernel,
            stream: stream_index,
            gpu,
            queue: info.queue_id.handle,
            grid,
            workgroup,
            private_segment: info.private_segment_size,
            group_segment: info.group_segment_size,
            start_ns: record.start_timestamp,
            end_ns: record.end_timestamp,
        });
        let enter = Action::Enter {
            op: launch,
            args,
            stream: stream_word(launch).map(|word| (word, stream_index)),
        };
        for (step, action) in [enter, Action::Dispatch(index), Action::Exit]
            .into_iter()
            .enumerate()
        {
            recording.events.push(Event {
                time_ns: launch_ns[index],
                order: (index * 3 + step) as u64,
                thread,
                action,
            });
        }
        recording.api_calls += 1;
    }
    Ok(recording)
}
