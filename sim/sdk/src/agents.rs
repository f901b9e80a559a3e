//! Agents: one CPU and the simulated GPUs.

use core::ffi::c_void;
use std::ffi::CString;
use std::sync::OnceLock;

use crate::abi::{Agent, INCOMPATIBLE_ABI, INVALID_ARGUMENT, Status};
use crate::context::handle_offset;
use crate::settings;

/// Agents that are CPUs: they come first.
const CPUS: u32 = 1;
/// `ROCPROFILER_AGENT_VERSION_0`.
const VERSION_0: u32 = 1;

/// `rocprofiler_query_available_agents_cb_t`.
pub(crate) type AgentsFn = unsafe extern "C" fn(
    version: u32,
    agents: *mut *const c_void,
    count: usize,
    data: *mut c_void,
) -> Status;

/// Agent id of a GPU.
#[inline]
pub(crate) fn gpu_id(gpu: u32) -> u64 {
    handle_offset() + u64::from(CPUS + gpu)
}

/// Agent id of a GPU, or of the CPU if negative.
#[inline]
pub(crate) fn id(gpu: i32) -> u64 {
    u32::try_from(gpu).map_or_else(|_| handle_offset(), gpu_id)
}

/// Does an agent with this id exist?
pub(crate) fn exists(id: u64) -> bool {
    let count = u64::from(CPUS) + settings().devices as u64;
    id.checked_sub(handle_offset())
        .is_some_and(|index| index < count)
}

/// Handle of a GPU in HSA.
pub(crate) fn hsa_handle(gpu: u32) -> u64 {
    0x5a00_0000_0000 + u64::from(gpu) * 0x1000
}

struct Agents(Vec<Agent>);

// SAFETY: the pointers lead to leaked strings and static data.
unsafe impl Send for Agents {}
// SAFETY: as above; never changed after being built.
unsafe impl Sync for Agents {}

fn agents() -> &'static [Agent] {
    static AGENTS: OnceLock<Agents> = OnceLock::new();
    &AGENTS
        .get_or_init(|| {
            let settings = settings();
            let gpus = u32::try_from(settings.devices).unwrap_or(0);
            let mut list = vec![cpu()];
            list.extend((0..gpus).map(gpu));
            Agents(list)
        })
        .0
}

/// A string that lives as long as the process.
fn forever(text: &str) -> *const core::ffi::c_char {
    CString::new(text).unwrap_or_default().into_raw()
}

fn empty() -> Agent {
    Agent {
        size: size_of::<Agent>() as u64,
        id: 0,
        kind: 0,
        cpu_cores_count: 0,
        simd_count: 0,
        mem_banks_count: 0,
        caches_count: 0,
        io_links_count: 0,
        cpu_core_id_base: 0,
        simd_id_base: 0,
        max_waves_per_simd: 0,
        lds_size_in_kb: 0,
        gds_size_in_kb: 0,
        num_gws: 0,
        wave_front_size: 0,
        num_xcc: 1,
        cu_count: 0,
        array_count: 0,
        num_shader_banks: 0,
        simd_arrays_per_engine: 0,
        cu_per_simd_array: 0,
        simd_per_cu: 0,
        max_slots_scratch_cu: 0,
        gfx_target_version: 0,
        vendor_id: 0,
        device_id: 0,
        location_id: 0,
        domain: 0,
        drm_render_minor: 0,
        num_sdma_engines: 0,
        num_sdma_xgmi_engines: 0,
        num_sdma_queues_per_engine: 0,
        num_cp_queues: 0,
        max_engine_clk_ccompute: 0,
        max_engine_clk_fcompute: 0,
        words_144: [0; 5],
        family_id: 0,
        words_168: [0; 2],
        local_mem_size: 0,
        hive_id: 0,
        gpu_id: 0,
        words_200: [0; 6],
        mem_banks: core::ptr::null(),
        caches: core::ptr::null(),
        io_links: core::ptr::null(),
        name: c"".as_ptr(),
        vendor_name: c"".as_ptr(),
        product_name: c"".as_ptr(),
        model_name: c"".as_ptr(),
        node_id: 0,
        logical_node_id: 0,
        logical_node_type_id: 0,
        runtime_visibility: 0,
        uuid: [0; 16],
    }
}

fn cpu() -> Agent {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    Agent {
        id: handle_offset(),
        kind: 1,
        cpu_cores_count: cores,
        max_engine_clk_ccompute: 3000,
        name: c"Simulated CPU".as_ptr(),
        vendor_name: c"CPU".as_ptr(),
        product_name: c"Simulated CPU".as_ptr(),
        runtime_visibility: 1,
        ..empty()
    }
}

fn gpu(index: u32) -> Agent {
    let settings = settings();
    let mut uuid = [0; 16];
    uuid[..4].copy_from_slice(b"SIM-");
    uuid[4..8].copy_from_slice(&index.to_le_bytes());
    Agent {
        id: gpu_id(index),
        kind: 2,
        simd_count: 1216,
        mem_banks_count: 0,
        simd_id_base: 0x8000_0000,
        max_waves_per_simd: 8,
        lds_size_in_kb: 64,
        wave_front_size: 64,
        num_xcc: 8,
        cu_count: 304,
        array_count: 32,
        num_shader_banks: 32,
        simd_arrays_per_engine: 1,
        cu_per_simd_array: 10,
        simd_per_cu: 4,
        max_slots_scratch_cu: 32,
        gfx_target_version: gfx_version(&settings.gpu_gfx),
        vendor_id: 0x1002,
        device_id: 0x74a1,
        location_id: (index + 1) << 8,
        domain: 0,
        drm_render_minor: 128 + index,
        num_sdma_engines: 2,
        num_sdma_xgmi_engines: 14,
        num_sdma_queues_per_engine: 8,
        num_cp_queues: 24,
        max_engine_clk_ccompute: 3000,
        max_engine_clk_fcompute: 2100,
        family_id: 141,
        words_168: [1024, u32::MAX],
        local_mem_size: 192 << 30,
        gpu_id: 0x1000 + u64::from(index),
        words_200: [1024, 1024, 1024, u32::MAX, u32::MAX, u32::MAX],
        name: forever(&settings.gpu_gfx),
        vendor_name: c"AMD".as_ptr(),
        product_name: forever(&settings.gpu_name),
        model_name: c"simulated".as_ptr(),
        node_id: CPUS + index,
        logical_node_id: (CPUS + index).cast_signed(),
        logical_node_type_id: index.cast_signed(),
        runtime_visibility: 0b1111,
        uuid,
        ..empty()
    }
}

/// `gfx942` is 9.4.2: 90402. The last two digits are hexadecimal (`gfx90a` is 9.0.10).
fn gfx_version(name: &str) -> u32 {
    let digits = name.strip_prefix("gfx").unwrap_or("").as_bytes();
    if digits.len() < 3 || !digits.is_ascii() {
        return 0;
    }
    let (major, rest) = digits.split_at(digits.len() - 2);
    let major: u32 = core::str::from_utf8(major)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let hex = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0);
    major * 10000 + hex(rest[0]) * 100 + hex(rest[1])
}

/// `rocprofiler_query_available_agents`.
///
/// # Safety
/// `callback` is the tool's, and may be called with its `data`.
pub(crate) unsafe fn query(
    version: u32,
    callback: AgentsFn,
    agent_size: usize,
    data: *mut c_void,
) -> Status {
    if version != VERSION_0 {
        return INVALID_ARGUMENT;
    }
    if agent_size > size_of::<Agent>() {
        return INCOMPATIBLE_ABI;
    }
    let mut pointers: Vec<*const c_void> = agents()
        .iter()
        .map(|agent| core::ptr::from_ref(agent).cast())
        .collect();
    // SAFETY: the caller vouches for the function; the agents live for ever.
    unsafe { callback(version, pointers.as_mut_ptr(), pointers.len(), data) }
}

#[cfg(test)]
mod tests {
    use super::gfx_version;

    #[test]
    fn gfx_versions() {
        assert_eq!(gfx_version("gfx942"), 90402);
        assert_eq!(gfx_version("gfx90a"), 90010);
        assert_eq!(gfx_version("gfx1151"), 110501);
        assert_eq!(gfx_version("x"), 0);
    }
}
