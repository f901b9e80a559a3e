//! Configure, initialize, finalize: the tool's life under the SDK.
//!
//! Promise 8: whatever does not work here leaves the host untouched. A tool that can't work takes no contexts, says so by
//! a status ([`status`]) and in the log, and is otherwise a no-op.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock};

use strandline::events::AgentFact;
use strandline::header::Phase;
use strandline::settings::{Settings, Start};
use strandline::{Runtime, Status, Vendor};
use strandline_rocprofiler_sys as sys;

use crate::api::{self, Api};
use crate::options::Options;
use crate::window::{self, Contexts};
use crate::{callbacks, hip, late, log, marker, own, retirement};

/// The oldest SDK whose structs are the ones we know: 1.0.0.
const SDK_VERSION_MIN: u32 = 10_000;

/// Why the tool is not at work; `Ok` once it is.
static STATUS: AtomicI32 = AtomicI32::new(Status::NotReady as i32);
static CONFIGURED: AtomicBool = AtomicBool::new(false);
static PLAN: OnceLock<Plan> = OnceLock::new();
/// One initialization at a time; never taken in a callback.
static INITIALIZING: Mutex<()> = Mutex::new(());

#[derive(Debug)]
struct Plan {
    settings: Settings,
    options: Options,
    sdk_version: u32,
    priority: u32,
}

/// Whether the tool is at work, and if not, why.
pub fn status() -> Status {
    Status::from_i32(STATUS.load(Ordering::Relaxed)).unwrap_or(Status::Internal)
}

/// True once anything is configured, the SDK or a source of the host's own.
pub(crate) fn is_configured() -> bool {
    CONFIGURED.load(Ordering::Acquire)
}

/// Takes the place of the SDK, for a source of the host's own. False: something is configured already.
pub(crate) fn claim() -> bool {
    !CONFIGURED.swap(true, Ordering::AcqRel)
}

/// Gives that place back.
pub(crate) fn unclaim() {
    CONFIGURED.store(false, Ordering::Release);
}

/// Says that a source of the host's own is at work.
pub(crate) fn ready() {
    STATUS.store(Status::Ok as i32, Ordering::Release);
}

fn fail(status: Status, why: &str) {
    STATUS.store(status as i32, Ordering::Relaxed);
    log::line(&format!("tracing is off: {why}"));
}

/// The symbol that the SDK looks for.
///
/// # Safety
/// Called by the SDK: `runtime_version` is null or a terminated string of the SDK's, `client` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_configure(
    version: u32,
    runtime_version: *const c_char,
    priority: u32,
    client: *mut sys::rocprofiler_client_id_t,
) -> *mut sys::rocprofiler_tool_configure_result_t {
    let result = catch_unwind(|| configure(version, runtime_version, priority));
    if !matches!(result, Ok(true)) {
        return std::ptr::null_mut();
    }
    if !client.is_null() {
        // SAFETY: the SDK's struct, valid during the call; the name lives as long as the process.
        unsafe { (*client).name = c"strandline".as_ptr() };
    }
    struct Shared(sys::rocprofiler_tool_configure_result_t);
    // SAFETY: read-only after it was made; the pointer in it is null.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}
    static RESULT: OnceLock<Shared> = OnceLock::new();
    let result = RESULT.get_or_init(|| {
        Shared(sys::rocprofiler_tool_configure_result_t {
            size: size_of::<sys::rocprofiler_tool_configure_result_t>(),
            initialize: Some(initialize),
            finalize: Some(finalize),
            tool_data: std::ptr::null_mut(),
        })
    });
    // The SDK only copies from it (facts A.3).
    (&raw const result.0).cast_mut()
}

fn configure(version: u32, runtime_version: *const c_char, priority: u32) -> bool {
    if CONFIGURED.swap(true, Ordering::AcqRel) {
        // A second copy of the SDK, or a second way to the same symbol: the first one counts.
        log::line("rocprofiler_configure was called again; the first call counts");
        return false;
    }
    let settings = match own::settings() {
        Ok(settings) => settings,
        Err(error) => {
            log::set_alone();
            fail(Status::BadSetting, &error.to_string());
            return false;
        }
    };
    log::set(settings.log.clone());
    let options = match Options::from_lookup(|name| std::env::var(name).ok()) {
        Ok(options) => options,
        Err(error) => {
            fail(Status::BadSetting, &error.to_string());
            return false;
        }
    };
    if version < SDK_VERSION_MIN {
        fail(
            Status::SdkTooOld,
            &format!("rocprofiler-sdk {} is older than 1.0.0", dotted(version)),
        );
        return false;
    }
    if let Err(error) = api::find(runtime_version) {
        fail(Status::SdkTooOld, &error);
        return false;
    }
    PLAN.set(Plan {
        settings,
        options,
        sdk_version: version,
        priority,
    })
    .is_ok()
}

/// Configures the tool from the host's side, when no SDK has asked for it yet: a program that was not started with us as
/// a tool opens a session. Not in a callback.
///
/// # Errors
/// Why the tool can't work.
pub fn ensure() -> Result<(), Status> {
    if status() != Status::NotReady || CONFIGURED.load(Ordering::Acquire) {
        return if status() == Status::Ok {
            Ok(())
        } else {
            Err(status())
        };
    }
    own::host_asks();
    let hip_was_loaded = late::hip_is_loaded();
    let Some(force) = api::force_configure() else {
        fail(
            Status::SdkMissing,
            "no rocprofiler-sdk was found; run: strandline doctor",
        );
        return Err(Status::SdkMissing);
    };
    // SAFETY: the SDK's function; it calls `rocprofiler_configure` and `initialize` before it returns.
    let forced = unsafe { force(Some(rocprofiler_configure)) };
    if forced == sys::ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED
        && !CONFIGURED.load(Ordering::Acquire)
    {
        fail(
            Status::SdkLocked,
            "the SDK was configured before the first session was asked for",
        );
    }
    if status() != Status::Ok {
        return Err(status());
    }
    if hip_was_loaded && let Some(runtime) = Runtime::global() {
        late::note(runtime);
    }
    Ok(())
}

fn dotted(version: u32) -> String {
    format!(
        "{}.{}.{}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    )
}

unsafe extern "C" fn initialize(_: sys::rocprofiler_client_finalize_t, _: *mut c_void) -> c_int {
    let _one = INITIALIZING.lock();
    match catch_unwind(set_up) {
        Ok(Ok(())) => 0,
        Ok(Err((status, why))) => {
            fail(status, &why);
            -1
        }
        Err(_) => {
            fail(Status::Internal, "initialize panicked");
            -1
        }
    }
}

/// The finalizer: calls no SDK function (case B05). In a forked child it touches nothing.
unsafe extern "C" fn finalize(_: *mut c_void) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let Some(runtime) = Runtime::global() else {
            return;
        };
        window::tell(runtime);
        runtime.finalize();
        if let Err(error) = runtime.write_asked_file() {
            log::line(&format!("the recording can't be written: {error}"));
        }
        runtime.discard_unasked_file();
    }));
}

/// Makes the services, then the runtime, then starts.
fn set_up() -> Result<(), (Status, String)> {
    let (Some(plan), Some(api)) = (PLAN.get(), api::api()) else {
        return Err((
            Status::Internal,
            "initialize came before configure".to_owned(),
        ));
    };
    let contexts = make_services(api, plan)?;
    strandline::clock::is_tsc();
    strandline::clock::set_vendor_now(api::vendor_now);
    let stand_in = api::stand_in();
    let vendor = Vendor {
        number: 1,
        version: plan.sdk_version,
        simulated: stand_in.is_some(),
        description: match stand_in {
            Some(text) => text.to_owned(),
            None => format!("rocprofiler-sdk {}", dotted(plan.sdk_version)),
        },
    };
    let runtime = Runtime::make_global(plan.settings.clone(), &vendor)?;
    runtime.set_phase(Phase::Init);
    runtime.metadata(b"tool priority", plan.priority.to_string().as_bytes());
    if !retirement::is_on() {
        runtime.set_retirement_off();
        runtime.metadata(b"retirement", b"off");
    }
    announce_agents(api, runtime);
    window::set_contexts(contexts);
    // SAFETY: the SDK's function and contexts of ours.
    let start = |context| unsafe { (api.start_context)(context) };
    for context in [Some(contexts.facts), contexts.control]
        .into_iter()
        .flatten()
    {
        let status = start(context);
        if status != sys::ROCPROFILER_STATUS_SUCCESS {
            return Err((
                Status::SdkRefused,
                format!("starting a context: {}", api::status_text(status)),
            ));
        }
    }
    let housekeeper = runtime.start_housekeeper(
        Some(Box::new(window::ask)),
        Some(Box::new(|| window::rest(runtime))),
    );
    if let Err(error) = housekeeper {
        log::line(&format!(
            "no housekeeper thread: {error}; memory does not grow beyond its first step"
        ));
    }
    runtime.set_phase(Phase::Running);
    STATUS.store(Status::Ok as i32, Ordering::Relaxed);
    log::line(&format!("tracing into {}", runtime.path().display()));
    if runtime.memory().is_less_than_wished() {
        log::line(&format!(
            "its memory is less than wished for: {}",
            runtime.memory()
        ));
    }
    if plan.settings.start == Start::Load {
        window::open(runtime).map_err(|status| (status, "opening the first session".to_owned()))?;
    }
    Ok(())
}

type Callback = unsafe extern "C" fn(
    sys::rocprofiler_callback_tracing_record_t,
    *mut sys::rocprofiler_user_data_t,
    *mut c_void,
);

/// One callback service.
fn service(
    api: &Api,
    context: sys::rocprofiler_context_id_t,
    kind: sys::rocprofiler_callback_tracing_kind_t,
    operations: &[i32],
    callback: Callback,
) -> Result<(), (Status, String)> {
    // SAFETY: the SDK's function, called in initialize; it copies the list; the callback lives as long as the process.
    let status = unsafe {
        (api.configure_callback_tracing_service)(
            context,
            kind,
            if operations.is_empty() {
                std::ptr::null()
            } else {
                operations.as_ptr()
            },
            operations.len(),
            Some(callback),
            std::ptr::null_mut(),
        )
    };
    check(status, || {
        let name = sys::names::callback_kind_name(kind).unwrap_or("?");
        format!("configuring {name}")
    })
}

fn check(
    status: sys::rocprofiler_status_t,
    what: impl FnOnce() -> String,
) -> Result<(), (Status, String)> {
    match status {
        sys::ROCPROFILER_STATUS_SUCCESS => Ok(()),
        sys::ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED => Err((
            Status::SdkLocked,
            format!(
                "{}: the SDK is locked: it was configured before this tool came",
                what()
            ),
        )),
        other => Err((
            Status::SdkRefused,
            format!("{}: {}", what(), api::status_text(other)),
        )),
    }
}

fn context(api: &Api) -> Result<sys::rocprofiler_context_id_t, (Status, String)> {
    let mut context = sys::rocprofiler_context_id_t { handle: 0 };
    // SAFETY: the SDK's function, called in initialize; the argument is valid for writing and 0 on entry.
    let status = unsafe { (api.create_context)(&mut context) };
    check(status, || "creating a context".to_owned())?;
    Ok(context)
}

fn make_services(api: &Api, plan: &Plan) -> Result<Contexts, (Status, String)> {
    let options = &plan.options;
    // One context for code objects, from initialize to the end: a second one makes the SDK throw (facts C.7, M5).
    let facts = context(api)?;
    let symbols = [
        sys::ROCPROFILER_CODE_OBJECT_LOAD as i32,
        sys::ROCPROFILER_CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER as i32,
    ];
    service(
        api,
        facts,
        sys::ROCPROFILER_CALLBACK_TRACING_CODE_OBJECT,
        &symbols,
        callbacks::code_object,
    )?;
    let known = hip_operations(api);
    if options.hip {
        let life: Vec<i32> = hip::stream_life_operations()
            .into_iter()
            .filter(|op| known.iter().any(|(id, _)| id == op))
            .collect();
        if !life.is_empty() {
            service(
                api,
                facts,
                sys::ROCPROFILER_CALLBACK_TRACING_HIP_RUNTIME_API,
                &life,
                callbacks::stream_life,
            )?;
        }
    }
    let data = context(api)?;
    if options.hip {
        let traced: Vec<i32> = known
            .iter()
            .filter(|(_, name)| !options.excludes(name))
            .map(|(id, _)| *id)
            .collect();
        if !traced.is_empty() {
            service(
                api,
                data,
                sys::ROCPROFILER_CALLBACK_TRACING_HIP_RUNTIME_API,
                &traced,
                callbacks::hip_api,
            )?;
        }
        callbacks::set_names(names_by_id(&known));
    }
    if options.compiler {
        service(
            api,
            data,
            sys::ROCPROFILER_CALLBACK_TRACING_HIP_COMPILER_API,
            &[],
            callbacks::compiler_api,
        )?;
    }
    if options.dispatch {
        let operations = [
            sys::ROCPROFILER_KERNEL_DISPATCH_ENQUEUE as i32,
            sys::ROCPROFILER_KERNEL_DISPATCH_COMPLETE as i32,
        ];
        service(
            api,
            data,
            sys::ROCPROFILER_CALLBACK_TRACING_KERNEL_DISPATCH,
            &operations,
            callbacks::dispatch,
        )?;
    }
    if options.copy {
        service(
            api,
            data,
            sys::ROCPROFILER_CALLBACK_TRACING_MEMORY_COPY,
            &[],
            callbacks::copy,
        )?;
    }
    // What the trace can do without: an SDK that refuses it is no reason to trace nothing. All operations: filters on
    // these two are broken in 1.0.0 (facts C.5).
    let optional = |wanted, kind, callback: Callback| {
        if wanted && let Err((_, why)) = service(api, data, kind, &[], callback) {
            log::line(&format!("not traced: {why}"));
        }
    };
    optional(
        options.alloc,
        sys::ROCPROFILER_CALLBACK_TRACING_MEMORY_ALLOCATION,
        callbacks::allocation as Callback,
    );
    optional(
        options.scratch,
        sys::ROCPROFILER_CALLBACK_TRACING_SCRATCH_MEMORY,
        callbacks::scratch,
    );
    optional(
        options.marker,
        sys::ROCPROFILER_CALLBACK_TRACING_MARKER_CORE_API,
        marker::core,
    );
    optional(
        options.marker,
        sys::ROCPROFILER_CALLBACK_TRACING_MARKER_NAME_API,
        marker::name,
    );
    let control = if plan.settings.start == Start::Roctx {
        let control = context(api)?;
        service(
            api,
            control,
            sys::ROCPROFILER_CALLBACK_TRACING_MARKER_CONTROL_API,
            &[],
            marker::control,
        )?;
        Some(control)
    } else {
        None
    };
    let mut retirement = None;
    if options.retirement {
        let context = context(api)?;
        match crate::retirement::configure(api, context) {
            Ok(()) => retirement = Some(context),
            Err(Some(status)) => log::line(&format!("no retirement: {}", api::status_text(status))),
            Err(None) => log::line("no retirement: the SDK has no buffers"),
        }
    }
    Ok(Contexts {
        facts,
        control,
        data,
        retirement,
    })
}

/// HIP operations that the SDK knows, with their names; from our table where the SDK does not tell.
fn hip_operations(api: &Api) -> Vec<(i32, String)> {
    unsafe extern "C" fn collect(
        _: sys::rocprofiler_callback_tracing_kind_t,
        op: i32,
        list: *mut c_void,
    ) -> c_int {
        // SAFETY: the list that `hip_operations` passes below, for the time of the iteration.
        unsafe { &mut *list.cast::<Vec<i32>>() }.push(op);
        0
    }
    let kind = sys::ROCPROFILER_CALLBACK_TRACING_HIP_RUNTIME_API;
    let mut ids: Vec<i32> = Vec::new();
    if let Some(iterate) = api.iterate_callback_tracing_kind_operations {
        // SAFETY: the SDK's function; it calls back before it returns.
        unsafe { iterate(kind, Some(collect), (&raw mut ids).cast()) };
    }
    if ids.is_empty() {
        ids = (0..sys::hip::HIP_OPERATION_COUNT_1_0_0 as i32).collect();
    }
    // 1.0.0 keeps 512 bits a kind and refuses more (facts J).
    ids.retain(|id| (0..512).contains(id));
    ids.into_iter()
        .map(|id| (id, sdk_name(api, kind, id)))
        .filter(|(_, name)| !name.is_empty())
        .collect()
}

fn sdk_name(api: &Api, kind: sys::rocprofiler_callback_tracing_kind_t, op: i32) -> String {
    if let Some(query) = api.query_callback_tracing_kind_operation_name {
        let mut name: *const c_char = std::ptr::null();
        let mut length = 0;
        // SAFETY: the SDK's function; both arguments are valid for writing.
        let status = unsafe { query(kind, op, &mut name, &mut length) };
        if status == sys::ROCPROFILER_STATUS_SUCCESS && !name.is_null() {
            // SAFETY: a static string of the SDK.
            return unsafe { CStr::from_ptr(name) }
                .to_string_lossy()
                .into_owned();
        }
    }
    sys::hip::hip_operation_name(op as u32)
        .unwrap_or("")
        .to_owned()
}

fn names_by_id(known: &[(i32, String)]) -> Vec<Box<[u8]>> {
    let count = known
        .iter()
        .map(|(id, _)| *id as usize + 1)
        .max()
        .unwrap_or(0);
    let mut names = vec![Box::<[u8]>::default(); count];
    for (id, name) in known {
        names[*id as usize] = name.as_bytes().into();
    }
    names
}

/// Announces all agents; strings are copied.
fn announce_agents(api: &Api, runtime: &'static Runtime) {
    unsafe extern "C" fn collect(
        _: sys::rocprofiler_agent_version_t,
        agents: *mut *const c_void,
        count: usize,
        runtime: *mut c_void,
    ) -> sys::rocprofiler_status_t {
        // SAFETY: the runtime that `announce_agents` passes below.
        let runtime = unsafe { &*runtime.cast::<Runtime>() };
        if agents.is_null() {
            return sys::ROCPROFILER_STATUS_SUCCESS;
        }
        // SAFETY: the SDK passes `count` pointers to agents, valid until its teardown.
        for &agent in unsafe { std::slice::from_raw_parts(agents, count) } {
            // SAFETY: an agent of the version that was asked for.
            if let Some(agent) = unsafe { agent.cast::<sys::rocprofiler_agent_v0_t>().as_ref() }
                && agent.size >= std::mem::offset_of!(sys::rocprofiler_agent_v0_t, uuid) as u64
            {
                announce_agent(runtime, agent);
            }
        }
        sys::ROCPROFILER_STATUS_SUCCESS
    }
    if let Some(query) = api.query_available_agents {
        let size = size_of::<sys::rocprofiler_agent_v0_t>();
        // SAFETY: the SDK's function; it calls back before it returns.
        let status = unsafe {
            query(
                sys::ROCPROFILER_AGENT_INFO_VERSION_0,
                Some(collect),
                size,
                std::ptr::from_ref(runtime).cast_mut().cast(),
            )
        };
        if status != sys::ROCPROFILER_STATUS_SUCCESS {
            log::line(&format!("no agents: {}", api::status_text(status)));
        }
    }
}

fn announce_agent(runtime: &Runtime, agent: &sys::rocprofiler_agent_v0_t) {
    // SAFETY: the agent's strings are terminated or null and live until the SDK's teardown (facts F).
    let [name, vendor, product, model] = [
        agent.name,
        agent.vendor_name,
        agent.product_name,
        agent.model_name,
    ]
    .map(|text| unsafe { callbacks::text(text) });
    let mut uuid = [0; 16];
    if agent.size >= size_of::<sys::rocprofiler_agent_v0_t>() as u64 {
        // SAFETY: the SDK's struct is as long as ours, so the 16 bytes are there.
        uuid = unsafe { (&raw const agent.uuid).cast::<[u8; 16]>().read() };
    }
    runtime.agent(&AgentFact {
        handle: agent.id.handle,
        kind: agent.type_,
        node: agent.node_id,
        logical_node: agent.logical_node_id as u32,
        type_index: agent.logical_node_type_id as u32,
        name,
        vendor,
        product,
        model,
        compute_units: agent.cu_count,
        wave_front: agent.wave_front_size,
        pci_domain: agent.domain,
        pci_location: agent.location_id,
        memory_bytes: agent.local_mem_size,
        uuid,
        gfx_target: agent.gfx_target_version,
        simd_count: agent.simd_count,
    });
}
