/* Strandline: an embedded GPU-tracing runtime. C11 and later, C++17 and later.
 *
 * Two levels, which may be mixed:
 *
 *   whole tool             rocprofiler-sdk is the source. A program that owns rocprofiler_configure returns what
 *                          strandline_rocprofiler_configure gives it; any other program only starts a session.
 *   bring your own source  strandline_init, then declare agents, queues, kernels and names, and append records.
 *
 * Either way: start a session, stop it (the stop waits for proof that every issued dispatch and copy is recorded, and says
 * what is missing), read the trace with a cursor, export it, or subscribe while it is being written.
 *
 * Rules that hold for every function, unless it says otherwise
 *
 *   Status     int32_t, 0 = done, see enum strandline_status. strandline_status_string gives a sentence for each. Nothing
 *              is printed, nothing aborts, no exception and no panic leaves the library.
 *   Threads    Any thread, at any time: before the runtime exists, after it ended, in exit handlers. "Wait-free" means: no
 *              lock, no allocation, no system call, except that a thread's first call claims its place (one gettid).
 *              Functions that are not called wait-free may take a lock for a moment; do not call them in an SDK callback
 *              or a signal handler.
 *   Fork       In a forked child of a process that used the library every function answers STRANDLINE_NOT_READY, and
 *              nothing is written to the parent's trace.
 *   Structs    Start with `size`, which the caller sets to sizeof the struct (STRANDLINE_INIT does), also for results. A
 *              program built with an older or newer header works: what one side does not know is zero, or is not written.
 *              A field that this library does not know and that is not zero is STRANDLINE_INVALID_ARGUMENT.
 *   Strings    Arguments: NUL-terminated, any bytes, copied before the call returns. Results: NUL-terminated and owned by
 *              the handle that gave them, valid until it and every cursor on it are closed.
 *   Handles    Opaque. Not addresses: a closed or foreign handle is answered with STRANDLINE_BAD_HANDLE, null with
 *              STRANDLINE_INVALID_ARGUMENT. Closing one while another thread uses it is fine.
 *   Times      ns of the timeline's clock: rocprofiler_get_timestamp with rocprofiler-sdk, the source's own clock else
 *              (CLOCK_BOOTTIME unless settings say otherwise). 0 = unknown.
 *   Ids        64 bits, 0 = unknown, except queue 0, which is a queue like any other.
 *
 *   Pointers   Null or valid: readable for what an argument says of itself, writable for a result. Null is
 *              STRANDLINE_INVALID_ARGUMENT where nothing says that it may be null.
 *
 * Errors are listed where a function has some of its own. Beside those, any function may answer STRANDLINE_NOT_READY,
 * STRANDLINE_INVALID_ARGUMENT, STRANDLINE_STRUCT_TOO_SMALL and STRANDLINE_INTERNAL (something in the library broke).
 */
#ifndef STRANDLINE_H
#define STRANDLINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define STRANDLINE_STATIC_ASSERT(what, why) static_assert(what, why)
#else
#define STRANDLINE_STATIC_ASSERT(what, why) _Static_assert(what, why)
#endif

/// Version of this header, 10000*major + 100*minor + patch. strandline_version() is that of the library.
#define STRANDLINE_VERSION 100u

#ifndef STRANDLINE_API
#define STRANDLINE_API
#endif

/// Empties a struct and sets its size: `strandline_dispatch d; STRANDLINE_INIT(&d);`
#define STRANDLINE_INIT(pointer) strandline_init_struct((pointer), sizeof *(pointer))

static inline void strandline_init_struct(void *to, size_t bytes) {
    unsigned char *byte = (unsigned char *)to;
    uint64_t *size = (uint64_t *)to;
    for (size_t i = 0; i < bytes; i++) byte[i] = 0;
    *size = bytes;
}

/* ---------------------------------------------------------------------------------------------- numbers */

/// What functions answer. Numbers are never reused.
enum strandline_status {
    /// Done.
    STRANDLINE_OK = 0,
    /// Not configured, off because of a bad setting, or in a forked child.
    STRANDLINE_NOT_READY = 1,
    /// A session is open already.
    STRANDLINE_SESSION_OPEN = 2,
    /// There is no such session, or it was accounted for already.
    STRANDLINE_NO_SUCH_SESSION = 3,
    /// Time was up.
    STRANDLINE_DEADLINE = 4,
    /// Called inside an SDK callback or finalizer: a session that was to be stopped is closed, its books are closed in the
    /// background.
    STRANDLINE_INSIDE_CALLBACK = 5,
    /// Too many sessions still wait for their proof.
    STRANDLINE_TOO_MANY_PENDING = 6,
    /// An argument is null, out of range, or says something that this version does not know.
    STRANDLINE_INVALID_ARGUMENT = 7,
    /// A struct's `size` is not set, or smaller than its first version.
    STRANDLINE_STRUCT_TOO_SMALL = 8,
    /// The region can't be made: folder, space or permission.
    STRANDLINE_NO_REGION = 9,
    /// rocprofiler-sdk is not found.
    STRANDLINE_SDK_MISSING = 10,
    /// rocprofiler-sdk was configured before, without this library.
    STRANDLINE_SDK_LOCKED = 11,
    /// rocprofiler-sdk is older than 1.0.0.
    STRANDLINE_SDK_TOO_OLD = 12,
    /// A file can't be written.
    STRANDLINE_OUTPUT = 13,
    /// There is a file of that name; nothing is overwritten.
    STRANDLINE_OUTPUT_EXISTS = 14,
    /// A setting in the environment has a bad value.
    STRANDLINE_BAD_SETTING = 15,
    /// rocprofiler-sdk refused a context or a service.
    STRANDLINE_SDK_REFUSED = 16,
    /// Something in the library broke.
    STRANDLINE_INTERNAL = 17,
    /// The process, or the runtime, is ending.
    STRANDLINE_FINALIZING = 18,
    /// The runtime is there already, with the settings that it was made with.
    STRANDLINE_ALREADY_THERE = 19,
    /// Closed, foreign or made up.
    STRANDLINE_BAD_HANDLE = 20,
    /// There is nothing (more) of what was asked for, at least not now: the end of a cursor, an index past the last.
    STRANDLINE_NOTHING = 21,
    /// The file can't be opened or mapped.
    STRANDLINE_NO_FILE = 22,
    /// It is no region that this version reads.
    STRANDLINE_BAD_FILE = 23,
    /// Too many handles are open.
    STRANDLINE_TOO_MANY_HANDLES = 24,
};

/// How complete a session is.
enum strandline_verdict {
    /// Everything that was issued is recorded, or retired without a record.
    STRANDLINE_VERDICT_COMPLETE = 0,
    /// Something is missing.
    STRANDLINE_VERDICT_INCOMPLETE = 1,
    /// The source offers no proof.
    STRANDLINE_VERDICT_HEURISTIC = 2,
    /// Nothing was issued.
    STRANDLINE_VERDICT_EMPTY = 3,
};

/// What the verdict rests on.
enum strandline_proof {
    STRANDLINE_PROOF_NONE = 0,
    STRANDLINE_PROOF_PAIRS = 1,
    STRANDLINE_PROOF_PAIRS_AND_RETIREMENT = 2,
    STRANDLINE_PROOF_FINALIZE_DRAIN = 3,
};

/// What a record is. Up to 63: records of sessions. From 64 on: facts, which subscribers get.
enum strandline_kind {
    STRANDLINE_KIND_API = 1,
    STRANDLINE_KIND_ENQUEUE = 2,
    STRANDLINE_KIND_DISPATCH = 3,
    STRANDLINE_KIND_COPY_ISSUE = 4,
    STRANDLINE_KIND_COPY = 5,
    STRANDLINE_KIND_ALLOC = 6,
    STRANDLINE_KIND_SCRATCH = 7,
    STRANDLINE_KIND_RANGE = 8,
    STRANDLINE_KIND_MARK = 9,
    STRANDLINE_KIND_RANGE_START = 10,
    STRANDLINE_KIND_RANGE_STOP = 11,
    STRANDLINE_KIND_THREAD = 12,
    STRANDLINE_KIND_EXTERNAL = 13,
    STRANDLINE_KIND_AGENT = 65,
    STRANDLINE_KIND_QUEUE = 66,
    STRANDLINE_KIND_STREAM = 67,
    STRANDLINE_KIND_STREAM_END = 68,
    STRANDLINE_KIND_CODE_OBJECT = 69,
    STRANDLINE_KIND_CODE_OBJECT_UNLOAD = 70,
    STRANDLINE_KIND_KERNEL_SYMBOL = 71,
    STRANDLINE_KIND_OPERATION = 72,
    STRANDLINE_KIND_METADATA = 73,
    STRANDLINE_KIND_ANCHOR = 74,
    STRANDLINE_KIND_SESSION_BEGIN = 75,
    STRANDLINE_KIND_SESSION_END = 76,
    STRANDLINE_KIND_RETIRED = 77,
    STRANDLINE_KIND_THREAD_NAME = 80,
    STRANDLINE_KIND_LABEL = 81,
    STRANDLINE_KIND_LATE = 82,
    STRANDLINE_KIND_SESSION_RELEASED = 83,
};

/// Masks of kinds: one bit for each kind up to 62, and one for all facts. 0 = everything.
#define STRANDLINE_KIND_BIT(kind) (UINT64_C(1) << (kind))
#define STRANDLINE_KINDS_FACTS (UINT64_C(1) << 63)

/// Flags of a record.
enum strandline_flag {
    /// The source gave no time, or half of one.
    STRANDLINE_FLAG_UNTIMED = 1,
    /// The end lies before the start.
    STRANDLINE_FLAG_END_BEFORE_START = 2,
    /// Of a dispatch or copy: it began outside of its session's window. From a cursor only.
    STRANDLINE_FLAG_OUTSIDE_WINDOW = 4,
    /// No enclosing call named the stream.
    STRANDLINE_FLAG_UNKNOWN_STREAM = 8,
    /// Of a dispatch or copy: no recorded call leads to it. From a cursor only: to a subscriber the call may
    /// still come.
    STRANDLINE_FLAG_NO_LAUNCH = 16,
    /// The call or range was still open when its session was accounted for: it has no end.
    STRANDLINE_FLAG_OPEN = 32,
    /// Part of it is not there: it was cut off at the end of its segment.
    STRANDLINE_FLAG_CUT = 64,
    /// Some of its fields are not known.
    STRANDLINE_FLAG_PARTIAL = 128,
};

/// Whose operation numbers they are.
enum strandline_domain {
    STRANDLINE_DOMAIN_RUNTIME = 1,
    STRANDLINE_DOMAIN_COMPILER = 2,
    STRANDLINE_DOMAIN_DRIVER = 3,
    STRANDLINE_DOMAIN_COLLECTIVE = 4,
    STRANDLINE_DOMAIN_MARKER = 5,
    /// The program's own.
    STRANDLINE_DOMAIN_USER = 6,
};

/// What kind of stream.
enum strandline_stream_kind {
    /// Made just now: the handle is a new stream, whatever it stood for before.
    STRANDLINE_STREAM_CREATED = 0,
    /// First seen in use.
    STRANDLINE_STREAM_SEEN = 1,
    STRANDLINE_STREAM_NULL = 2,
    STRANDLINE_STREAM_LEGACY = 3,
    STRANDLINE_STREAM_PER_THREAD = 4,
};

/// What strandline_label names.
enum strandline_label_what {
    STRANDLINE_LABEL_AGENT = 1,
    STRANDLINE_LABEL_DEVICE = 2,
    STRANDLINE_LABEL_STREAM = 3,
};

/// Bits of `arguments[0]` of a call: which of the other words hold something.
enum strandline_arg {
    /// 1: bytes.
    STRANDLINE_ARG_BYTES = 1,
    /// 2: destination, or the pointer allocated or freed.
    STRANDLINE_ARG_DESTINATION = 2,
    /// 3: source.
    STRANDLINE_ARG_SOURCE = 4,
    /// 4, low half: copy direction, the API's number.
    STRANDLINE_ARG_COPY_KIND = 8,
    /// 5: grid x, y; 6: grid z, shared bytes; 7: block x, y, z as u16.
    STRANDLINE_ARG_LAUNCH = 16,
    STRANDLINE_ARG_GRID_IN_ITEMS = 32,
    /// 2: a graph.
    STRANDLINE_ARG_GRAPH = 64,
    /// 2: an event.
    STRANDLINE_ARG_EVENT = 128,
};

/// Domains of external ids.
#define STRANDLINE_EXTERNAL_DOMAINS 4

/// Ids that a thread can have pushed in one domain at once.
#define STRANDLINE_EXTERNAL_DEPTH 32

/* ---------------------------------------------------------------------------------------------- library */

/// Version of the library, 10000*major + 100*minor + patch.
STRANDLINE_API uint32_t strandline_version(void);

/// A sentence for a status; never null, lives as long as the process. Wait-free.
STRANDLINE_API const char *strandline_status_string(int32_t status);

/// STRANDLINE_OK when the library is at work, else why it is not. Wait-free.
STRANDLINE_API int32_t strandline_status(void);

/// The timeline's clock now, ns.
STRANDLINE_API uint64_t strandline_now_ns(void);

/// Flags of the settings.
enum strandline_settings_flag {
    /// `rank` counts.
    STRANDLINE_SETTINGS_RANK = 1,
    /// The source is a simulation; every export says so.
    STRANDLINE_SETTINGS_SIMULATED = 2,
};

/// Settings. A field that is zero is as the environment (STRANDLINE_OUT and so on) says, else as the library likes.
typedef struct strandline_settings {
    uint64_t size;
    /// Region file; an existing one is never overwritten, then the name gets the process's number. Null and no
    /// STRANDLINE_OUT: a file that is removed at a clean exit.
    const char *out;
    /// Folder of region files that nobody named.
    const char *dir;
    /// 1 window, 2 flight, 3 stream.
    uint32_t mode;
    /// 1 a session from load on, 2 roctx pause and resume, 3 only this API. 0 = 3, unless STRANDLINE_START is set.
    uint32_t start;
    /// Memory for records, bytes, 1 MiB to 64 GiB; what is no whole segment is not used.
    uint64_t budget_bytes;
    /// How long a session that nobody waits for may wait for its proof, ns.
    uint64_t stop_timeout_ns;
    /// Threads that append at the same time, 1 to 4096.
    uint32_t lane_count;
    /// enum strandline_settings_flag.
    uint32_t flags;
    /// Rank in a job.
    int32_t rank;
    uint32_t reserved;
    /// Own source only: what it says of itself, and its clock (null = CLOCK_BOOTTIME). The clock is called on any thread,
    /// also after strandline_shutdown, and must take no lock.
    const char *source_name;
    uint64_t (*now_ns)(void);
    uint32_t source_version;
    uint32_t reserved2;
    /// Bytes of a segment: 64, 128, 256, 512 KiB or 1 MiB, and at most a sixteenth of the memory for records. A thread that
    /// records holds one; the append that changes it is the slow one. Unless STRANDLINE_SEGMENT is set, 0 is 256 KiB for 256 MiB
    /// or more, else 64 KiB.
    uint64_t segment_bytes;
    /// Make all memory at start, not in steps ahead of demand: 1 yes, 2 no.
    uint32_t prefault;
    /// Ask for huge pages: 1 yes, 2 no. Best effort; the metadata `strandline.memory` says what was got.
    uint32_t huge_pages;
    /// Lock the region in memory: 1 yes, 2 no. Best effort, likewise.
    uint32_t lock;
    /// What holds the live region: 1 a file, 2 a memfd, a file without a name that no other process can cut: `out` is then
    /// written at a clean exit. Not with mode 3 (BAD_SETTING).
    uint32_t backing;
    /// Host times: 1 by the TSC where the kernel relies on it, 2 always by CLOCK_MONOTONIC_RAW.
    uint32_t clock;
    uint32_t reserved3;
} strandline_settings;

/* ------------------------------------------------------------------------------------------- whole tool */

/// Keeps settings for the source that is configured next. Before rocprofiler-sdk is configured.
/// Errors: ALREADY_THERE, BAD_SETTING (in the environment).
STRANDLINE_API int32_t strandline_configure(const struct strandline_settings *settings);

/// For a program that defines rocprofiler_configure itself: pass on the SDK's arguments, return the result (a
/// rocprofiler_tool_configure_result_t *), or call its `initialize` and `finalize` from your own. Null: the library can't
/// work, strandline_status() says why; return null, or your own result. `client_id` (a rocprofiler_client_id_t *) gets the
/// name "strandline" unless you named it before. Only the first call in a process counts.
/// Thread: the one that the SDK calls on. Ownership: the result lives as long as the process.
///
/// In a program that does not define rocprofiler_configure the first strandline_session_start configures the SDK.
STRANDLINE_API
void *strandline_rocprofiler_configure(uint32_t version,
                                       const char *runtime_version,
                                       uint32_t priority,
                                       void *client_id);

/// Configures rocprofiler-sdk now by its rocprofiler_force_configure, loading the SDK if need be. Call it before the GPU
/// runtime starts. Not in a callback. Again: the same answer.
/// Errors: SDK_MISSING, SDK_LOCKED (configured before, without us), SDK_TOO_OLD, SDK_REFUSED, BAD_SETTING, NO_REGION.
STRANDLINE_API
int32_t strandline_rocprofiler_force_configure(void);

/* -------------------------------------------------------------------------------------------- sessions */

/// How complete a session is. Dispatches and copies together.
typedef struct strandline_stop_result {
    uint64_t size;
    /// enum strandline_verdict.
    uint64_t verdict;
    uint64_t session;
    /// issued = recorded + retired_without_record + missing.
    uint64_t issued;
    uint64_t recorded;
    /// The SDK could not time them and said that they are over.
    uint64_t retired_without_record;
    uint64_t missing;
    /// Every correlation id at or below it is accounted for.
    uint64_t low_watermark;
    /// The highest correlation id under which work was issued.
    uint64_t high_watermark;
    /// Records that came after the session was accounted for, so far.
    uint64_t late;
    /// Records that are not in the trace, all reasons.
    uint64_t lost;
    /// How long the stop waited, ns.
    uint64_t waited_ns;
} strandline_stop_result;

/// Opens a session and writes its number (from 1) to *session. In a program that configured nothing, the first call
/// configures rocprofiler-sdk (not in a callback then, and before the GPU runtime starts: the SDK intercepts that when it
/// starts, so that a session opened later stays empty); else any thread, also in a callback.
/// Errors: SESSION_OPEN, TOO_MANY_PENDING (the session 8 before still waits for its proof), FINALIZING, and those of
/// strandline_rocprofiler_force_configure.
STRANDLINE_API
int32_t strandline_session_start(uint64_t *session);

/// Closes a session, waits up to timeout_ns (0 = do not wait) until it is accounted for, closes its books and says how
/// complete it is; an incomplete session is no error. `result` may be null. A session that was stopped before gives the
/// same result again (the newest 64). Never waits inside a callback.
/// Errors: NO_SUCH_SESSION, INSIDE_CALLBACK (closed; accounted for in the background), FINALIZING.
STRANDLINE_API
int32_t strandline_session_stop(uint64_t session,
                                uint64_t timeout_ns,
                                struct strandline_stop_result *result);

/// Closes a session without waiting: nothing new belongs to it. Its books are closed in the background, or by a later
/// strandline_session_stop. Also in a callback. Errors: NO_SUCH_SESSION.
STRANDLINE_API int32_t strandline_session_close(uint64_t session);

/// The result of one of the newest 64 sessions that were accounted for. Errors: NOTHING, INSIDE_CALLBACK.
STRANDLINE_API int32_t strandline_session_result(uint64_t session, struct strandline_stop_result *result);

/// Says that nobody needs the records of a session that was accounted for. Its memory is used again once every session in it is
/// released and no trace of this process is open; `segments` (null or where to write) gets how many segments were
/// freed at once, 0 in flight mode, where memory is used again anyway. Errors: NO_SUCH_SESSION (not accounted for, or released
/// already), INSIDE_CALLBACK, FINALIZING.
STRANDLINE_API
int32_t strandline_session_release(uint64_t session,
                                   uint64_t *segments);

/// Writes a consistent copy of everything (.slt) while appends go on, in every mode. Errors: OUTPUT_EXISTS, OUTPUT,
/// INSIDE_CALLBACK.
STRANDLINE_API int32_t strandline_snapshot(const char *path);

/// Writes one session (0 = all) of this process to a file; the format goes by the extension: .json, .json.gz (Chrome
/// JSON), .pftrace (Perfetto), .slt (region). Reads memory only, waits for nobody.
/// Errors: NO_SUCH_SESSION, OUTPUT_EXISTS, OUTPUT, INSIDE_CALLBACK.
STRANDLINE_API int32_t strandline_export(uint64_t session, const char *path);

/// Adds a pair to the trace; a key that is set again takes the new value. Both are copied.
STRANDLINE_API int32_t strandline_metadata(const char *key, const char *value);

/// Where the number of the open session lies (0 = none). Use STRANDLINE_HAS_SESSION.
STRANDLINE_API extern const uint64_t *const strandline_session_word;

/// True while a session is open: two loads, no call. For skipping the work of preparing a record; a function that is called
/// without a session does nothing and is cheap as well.
#if defined(__GNUC__) || defined(__clang__)
#define STRANDLINE_HAS_SESSION() (__atomic_load_n(strandline_session_word, __ATOMIC_RELAXED) != 0)
#else
#define STRANDLINE_HAS_SESSION() (*(const volatile uint64_t *)strandline_session_word != 0)
#endif

/* --------------------------------------------------------------------------------- bring your own source */

/// Makes the runtime for a source of the program's own. Null settings: all as the environment says. Once in a process; not
/// together with rocprofiler-sdk. Registers strandline_shutdown for exit.
/// Errors: ALREADY_THERE, BAD_SETTING, NO_REGION; INVALID_ARGUMENT for a field that is out of its range.
STRANDLINE_API
int32_t strandline_init(const struct strandline_settings *given);

/// Ends it: closes the open session and its books without waiting, and removes a region file that nobody named. Appending
/// stays safe and is refused. There is no second strandline_init. Errors: FINALIZING (again), NOT_READY.
STRANDLINE_API
int32_t strandline_shutdown(void);

/// An agent: a CPU or GPU. `kind` 1 CPU, 2 GPU. `type_index`: its number among the agents of its kind (the device number).
/// pci_location: bus << 8 | device << 3 | function.
typedef struct strandline_agent {
    uint64_t size;
    uint64_t handle;
    uint32_t kind;
    uint32_t node;
    uint32_t logical_node;
    uint32_t type_index;
    const char *name;
    const char *vendor;
    const char *product;
    const char *model;
    uint32_t compute_units;
    uint32_t wave_front;
    uint32_t pci_domain;
    uint32_t pci_location;
    uint64_t memory_bytes;
    uint8_t uuid[16];
    uint32_t gfx_target;
    uint32_t simd_count;
    uint64_t reserved[2];
} strandline_agent;

/// A kernel. `name` as the compiler made it (mangled).
typedef struct strandline_kernel {
    uint64_t size;
    uint64_t kernel_id;
    uint64_t code_object_id;
    const char *name;
    uint64_t kernel_object;
    uint32_t group_bytes;
    uint32_t private_bytes;
    uint32_t sgpr_count;
    uint32_t vgpr_count;
    uint32_t accum_vgpr_count;
    uint32_t kernarg_bytes;
} strandline_kernel;

/* Declaring. With or without a session, also in a callback; what was declared stays and reaches every later reader.
 * Declaring something twice is fine. A full region counts what it has no room for. */
/// Declares an agent. Wait-free.
STRANDLINE_API int32_t strandline_declare_agent(const struct strandline_agent *agent);

/// Declares a queue of an agent. Wait-free.
STRANDLINE_API int32_t strandline_declare_queue(uint64_t queue, uint64_t agent);

/// Declares a kernel. Wait-free.
STRANDLINE_API int32_t strandline_declare_kernel(const struct strandline_kernel *kernel);

/// The name of an operation: domain 0 to 255, number 0 to 65535.
STRANDLINE_API int32_t strandline_declare_operation(uint32_t domain, uint32_t number, const char *name);

/// The number of a stream (0: no room), for the `stream` of calls. `kind`: enum strandline_stream_kind; `thread` for
/// a thread's own default stream, else 0. The same handle gives the same number until strandline_stream_destroyed, or
/// until it is declared as created again.
STRANDLINE_API int32_t strandline_declare_stream(uint64_t handle, uint32_t kind, uint32_t thread, uint32_t *stream);

/// Says that a stream's handle stands for it no longer: declared again it is another stream. Wait-free.
STRANDLINE_API int32_t strandline_stream_destroyed(uint64_t handle);

/// Names a thread by its id; 0 = the calling one.
STRANDLINE_API int32_t strandline_name_thread(uint32_t thread, const char *name);

/// Names an agent (handle), device (number) or stream (number): enum strandline_label_what.
STRANDLINE_API int32_t strandline_label(uint32_t what, uint64_t handle, const char *name);

/// A call of the program into its source.
typedef struct strandline_api {
    uint64_t size;
    uint64_t correlation_id;
    /// Correlation id of the enclosing call, 0 = none.
    uint64_t ancestor_id;
    /// 0: what the thread pushed in domain 0.
    uint64_t external_id;
    /// At exit: null, or 8 words (enum strandline_arg).
    const uint64_t *arguments;
    uint32_t domain;
    uint32_t operation;
    /// Stream that the call names, 0 = none. Work that is issued inside the call is on it.
    uint32_t stream;
    /// Thread id, 0 = the calling thread.
    uint32_t thread;
    int32_t return_value;
    uint32_t reserved;
} strandline_api;

/// A kernel execution. Issue uses ids, kernel, agent, queue; done uses all. `grid` in work-items.
typedef struct strandline_dispatch {
    uint64_t size;
    uint64_t correlation_id;
    uint64_t ancestor_id;
    uint64_t external_id;
    uint64_t dispatch_id;
    uint64_t kernel_id;
    uint64_t agent;
    uint64_t queue;
    uint64_t start_ns;
    uint64_t end_ns;
    uint32_t block[3];
    uint32_t grid[3];
    uint32_t private_bytes;
    uint32_t group_bytes;
    /// Graph and node, 0 = none.
    uint32_t graph;
    uint32_t node;
    uint32_t thread;
    uint32_t reserved;
} strandline_dispatch;

/// A memory copy. `operation`: 0 unknown, 1 host to host, 2 host to device, 3 device to host, 4 device to device.
typedef struct strandline_copy {
    uint64_t size;
    uint64_t correlation_id;
    uint64_t ancestor_id;
    uint64_t external_id;
    uint64_t bytes;
    uint64_t source_agent;
    uint64_t destination_agent;
    uint64_t source;
    uint64_t destination;
    uint64_t start_ns;
    uint64_t end_ns;
    uint32_t operation;
    uint32_t thread;
} strandline_copy;

/// An allocation (operation 1) or free (3) of device memory.
typedef struct strandline_memory {
    uint64_t size;
    uint64_t correlation_id;
    uint64_t ancestor_id;
    uint64_t external_id;
    uint64_t bytes;
    uint64_t agent;
    uint64_t queue;
    uint64_t address;
    uint64_t start_ns;
    uint64_t end_ns;
    uint32_t operation;
    uint32_t flags;
    uint32_t thread;
    uint32_t reserved;
} strandline_memory;

/* Appending: wait-free, any thread, also in callbacks and signal handlers.
 *
 * A record's session is decided by its first call, and travels to the last one in a token, 64 bits of the library's: keep
 * it with the work (as its user data). Without a session the token is 0 and the last call does nothing; a token that no
 * session can have given is STRANDLINE_INVALID_ARGUMENT. A session is complete when every issue has its done; a done on
 * another thread is normal. What has no room is counted, and the stop says so. */

/// A call begins on this thread. Calls nest; end each on its own thread.
STRANDLINE_API int32_t strandline_api_enter(const struct strandline_api *call, uint64_t *token);

/// It ends: one record.
STRANDLINE_API int32_t strandline_api_exit(uint64_t token, const struct strandline_api *call);

/// A dispatch is issued by this thread, usually inside a call.
STRANDLINE_API int32_t strandline_dispatch_issue(const struct strandline_dispatch *dispatch, uint64_t *token);

/// It completed. A thread that calls this delivers completions: it is never made to wait for one.
STRANDLINE_API int32_t strandline_dispatch_done(uint64_t token, const struct strandline_dispatch *dispatch);

/// A copy is issued by this thread, usually inside a call.
STRANDLINE_API int32_t strandline_copy_issue(const struct strandline_copy *copy, uint64_t *token);

/// It completed. Any thread.
STRANDLINE_API int32_t strandline_copy_done(uint64_t token, const struct strandline_copy *copy);

/// Memory was allocated or freed.
STRANDLINE_API int32_t strandline_alloc_done(const struct strandline_memory *memory);

/// Work under that correlation id is over and will get no record. Takes a lock; not in a callback.
STRANDLINE_API int32_t strandline_retire(uint64_t correlation_id);

/// Pushes a range on the calling thread. Ranges nest, 32 deep; a deeper one is not recorded, and its pop is ignored as well.
STRANDLINE_API
int32_t strandline_range_push(const char *name);

/// Pops the calling thread's innermost range: one record. Without one nothing happens.
STRANDLINE_API int32_t strandline_range_pop(void);

/// Starts a range that strandline_range_stop ends on any thread; pairs by `range_id`.
STRANDLINE_API int32_t strandline_range_start(uint64_t range_id, const char *name);

/// Stops a range by its id.
STRANDLINE_API int32_t strandline_range_stop(uint64_t range_id);

/// Marks an instant.
STRANDLINE_API int32_t strandline_mark(const char *name);

/// The id of a name, for strandline_instant: copies the name into the trace the first time. 0 when `name` is null or there
/// is no runtime yet. Once a name, outside hot loops. Wait-free.
STRANDLINE_API
uint64_t strandline_intern(const char *name);

/// Records an instant on the calling thread, at the time of the call, in its cheapest form: a record of kind MARK. `name` is
/// an id of strandline_intern; `correlation_id` and `ancestor_id` join it to other records, 0 = none. Does nothing while no
/// session is open. Wait-free.
STRANDLINE_API
void strandline_instant(uint64_t name,
                        uint64_t correlation_id,
                        uint64_t ancestor_id);

/// Pushes an external id on the calling thread: the program's own number for what it is doing, per domain (0 to
/// STRANDLINE_EXTERNAL_DOMAINS - 1) and thread, STRANDLINE_EXTERNAL_DEPTH deep; a deeper one is not recorded, and its pop stays in
/// step. With any source. The top of domain 0 is the external_id of the thread's calls, and of the dispatches and copies that a
/// cursor joins to them; those of the other domains are records of kind EXTERNAL with the call's correlation id. A thread's first
/// push allocates: not in a signal handler.
STRANDLINE_API
int32_t strandline_external_push(uint32_t domain,
                                 uint64_t id);

/// Pops the calling thread's newest id of a domain and writes it to `id`, which may be null. Errors: NOTHING (none pushed).
STRANDLINE_API
int32_t strandline_external_pop(uint32_t domain,
                                uint64_t *id);

/* --------------------------------------------------------------------------------------------- reading */

/// A trace: a region file, or what this process has recorded.
typedef struct strandline_trace strandline_trace;

/// A place in a trace.
typedef struct strandline_cursor strandline_cursor;

/// A place in what a live process records.
typedef struct strandline_subscriber strandline_subscriber;

/// What a trace says of itself, and how many facts it has.
typedef struct strandline_trace_info {
    uint64_t size;
    const char *path;
    const char *program;
    const char *host;
    /// What the SDK or the source says of itself.
    const char *sdk;
    uint32_t pid;
    /// -1 = unknown.
    int32_t rank;
    uint32_t simulated;
    uint32_t mode;
    /// CLOCK_BOOTTIME.
    uint64_t process_start_ns;
    /// Since 1970.
    uint64_t created_unix_ns;
    uint64_t agent_count;
    uint64_t queue_count;
    uint64_t stream_count;
    uint64_t kernel_count;
    uint64_t session_count;
    uint32_t metadata_count;
    /// Places in the file that are not sound and were left out.
    uint32_t damage_count;
} strandline_trace_info;

typedef struct strandline_queue {
    uint64_t size;
    uint64_t queue;
    uint64_t agent;
} strandline_queue;

/// A stream. `generation`: how often its handle had been used before. `label`: the program's name for it, or null.
typedef struct strandline_stream {
    uint64_t size;
    uint64_t handle;
    uint32_t id;
    uint32_t kind;
    uint32_t generation;
    uint32_t thread;
    const char *label;
} strandline_stream;

typedef struct strandline_metadata_pair {
    uint64_t size;
    const char *key;
    const char *value;
} strandline_metadata_pair;

/// A session: its verdict over what is really in the trace, and every loss by reason.
typedef struct strandline_session {
    uint64_t size;
    uint64_t session;
    uint32_t verdict;
    uint32_t proof;
    /// 1: it was not accounted for; the process died, or still runs.
    uint32_t unfinished;
    uint32_t reserved;
    uint64_t dispatches_issued;
    uint64_t dispatches_recorded;
    uint64_t dispatches_retired_without_record;
    uint64_t dispatches_missing;
    uint64_t copies_issued;
    uint64_t copies_recorded;
    uint64_t copies_retired_without_record;
    uint64_t copies_missing;
    uint64_t api_recorded;
    uint64_t open_at_stop;
    uint64_t low_watermark;
    uint64_t high_watermark;
    uint64_t late;
    uint64_t lost_no_segment;
    uint64_t lost_no_lane;
    uint64_t lost_after_close;
    uint64_t lost_reentry;
    uint64_t lost_sdk_dropped;
    uint64_t lost_sticky_full;
    uint64_t begin_ns;
    uint64_t requested_ns;
    uint64_t returned_ns;
} strandline_session;

/// A record, or a fact. Fields that a kind does not have are 0.
typedef struct strandline_record {
    uint64_t size;
    /// The record itself, where it lies: 8 * cells words, little-endian, as docs/format.md says. From a cursor: in the mapped
    /// region, valid until the cursor and its trace are closed. From a subscriber: valid until its next call.
    const uint64_t *words;
    /// Kernel (mangled), operation, range, mark; of a fact its main string. Null: none, or not known. Valid as long as the
    /// trace, or the subscriber, is open.
    const char *name;
    uint64_t name_bytes;
    /// Of an open call or range end_ns is 0.
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t correlation_id;
    uint64_t ancestor_id;
    uint64_t external_id;
    uint64_t dispatch_id;
    uint64_t kernel_id;
    /// Of a copy: the source.
    uint64_t agent;
    uint64_t destination_agent;
    uint64_t queue;
    uint64_t bytes;
    uint64_t range_id;
    /// enum strandline_kind.
    uint32_t kind;
    uint32_t cells;
    /// enum strandline_flag.
    uint32_t flags;
    uint32_t session;
    uint32_t lane;
    uint32_t thread;
    /// Number of the stream, 0 = unknown.
    uint32_t stream;
    uint32_t domain;
    uint32_t operation;
    int32_t return_value;
    /// Nesting of a call or range on its thread, from 0.
    uint32_t depth;
    uint32_t graph;
    uint32_t node;
    uint32_t block[3];
    uint32_t grid[3];
    uint32_t private_bytes;
    uint32_t group_bytes;
    /// Of kind EXTERNAL: the domain of external_id.
    uint32_t external_domain;
    /// Of an allocation: its address. Of a copy: the destination's. Of a stream or label: its handle.
    uint64_t address;
    uint64_t reserved;
} strandline_record;

/// Opens a region file (.slt): also one that a process still writes to, or that a dead one left.
/// Errors: NO_FILE, BAD_FILE, TOO_MANY_HANDLES.
STRANDLINE_API int32_t strandline_trace_open(const char *path, struct strandline_trace **trace);

/// What this process has recorded up to now: in window mode the live memory, which no release reuses while the trace or a cursor
/// on it is open; in flight mode a copy.
STRANDLINE_API
int32_t strandline_trace_live(struct strandline_trace **trace);

/// Closes a trace. Its cursors keep what they need.
STRANDLINE_API int32_t strandline_trace_close(struct strandline_trace *trace);

/// What a trace says of itself, and how many facts it has.
STRANDLINE_API int32_t strandline_trace_get_info(struct strandline_trace *trace, struct strandline_trace_info *info);

/// Agent number `index`, from 0. Errors: NOTHING past the last one.
STRANDLINE_API
int32_t strandline_trace_agent(struct strandline_trace *trace,
                               uint64_t index,
                               struct strandline_agent *agent);

/// Queue number `index`, from 0. Errors: NOTHING past the last one.
STRANDLINE_API
int32_t strandline_trace_queue(struct strandline_trace *trace,
                               uint64_t index,
                               struct strandline_queue *queue);

/// Stream number `index`, from 0. Errors: NOTHING past the last one.
STRANDLINE_API
int32_t strandline_trace_stream(struct strandline_trace *trace,
                                uint64_t index,
                                struct strandline_stream *stream);

/// Kernel number `index`, from 0, in the order of their ids. Errors: NOTHING past the last one.
STRANDLINE_API
int32_t strandline_trace_kernel(struct strandline_trace *trace,
                                uint64_t index,
                                struct strandline_kernel *kernel);

/// Session number `index`, from 0, in the order of their numbers. Errors: NOTHING past the last one.
STRANDLINE_API
int32_t strandline_trace_session(struct strandline_trace *trace,
                                 uint64_t index,
                                 struct strandline_session *session);

/// Pair number `index` of the metadata, from 0. Errors: NOTHING past the last one.
STRANDLINE_API
int32_t strandline_trace_metadata(struct strandline_trace *trace,
                                  uint64_t index,
                                  struct strandline_metadata_pair *pair);

/// String `id` (as words of records name it). `bytes` may be null. Errors: NOTHING.
STRANDLINE_API
int32_t strandline_trace_text(struct strandline_trace *trace,
                              uint64_t id,
                              const char **name,
                              uint64_t *bytes);

/// Writes one session (0 = all) of a trace to a file, as strandline_export does.
STRANDLINE_API int32_t strandline_trace_export(struct strandline_trace *trace, uint64_t session, const char *path);

/// Opens a cursor over the records of some kinds (a mask, 0 = all) and one session (0 = all), in the order of their start.
/// Reads each record once and takes 24 bytes for each that it will hand out. Calls and ranges that were open at stop are
/// among them. A cursor keeps its trace's memory until it is closed.
STRANDLINE_API
int32_t strandline_cursor_open(struct strandline_trace *trace,
                               uint64_t kinds,
                               uint64_t session,
                               struct strandline_cursor **cursor);

/// The next record. Errors: NOTHING at the end. Threads that share a cursor get each record once.
STRANDLINE_API int32_t strandline_cursor_next(struct strandline_cursor *cursor, struct strandline_record *record);

/// How many records it hands out from first to last.
STRANDLINE_API int32_t strandline_cursor_count(struct strandline_cursor *cursor, uint64_t *count);

/// Goes back to the first record.
STRANDLINE_API int32_t strandline_cursor_rewind(struct strandline_cursor *cursor);

/// Closes a cursor.
STRANDLINE_API int32_t strandline_cursor_close(struct strandline_cursor *cursor);

/// Flags of a subscription.
enum strandline_subscribe_flag {
    /// Also the records that the region still holds, not only those to come.
    STRANDLINE_SUBSCRIBE_OLDEST = 1,
};

/// What a subscriber was too slow for.
typedef struct strandline_lost {
    uint64_t size;
    /// Segments that were reused before they were read.
    uint64_t segments;
    /// Cells in them that were not read, at most 15 too many for each; a record is 1 to 16 cells.
    uint64_t cells;
    /// Records of sessions in them that were not handed out, of all kinds: exactly so many, but for one for each thread that
    /// ended or jumped out of the middle of an append.
    uint64_t records;
} strandline_lost;

/// Subscribes to this process's facts and records of some kinds (a mask, 0 = all). Any number of subscribers, each at its own
/// pace; none slows an append.
STRANDLINE_API
int32_t strandline_subscribe(uint64_t kinds,
                             uint32_t flags,
                             struct strandline_subscriber **subscriber);

/// The next one: first every fact there is, then facts and records as they are published, each once, a fact always before
/// the records that need it, in the order of each thread (not of time). Errors: NOTHING for now; ask again in a
/// millisecond. One thread at a time for one subscriber.
STRANDLINE_API
int32_t strandline_subscriber_next(struct strandline_subscriber *subscriber,
                                   struct strandline_record *record);

/// String `id`, as far as it was announced to this subscriber. `bytes` may be null. Errors: NOTHING.
STRANDLINE_API
int32_t strandline_subscriber_text(struct strandline_subscriber *subscriber,
                                   uint64_t id,
                                   const char **name,
                                   uint64_t *bytes);

/// What the subscriber was too slow for, so far.
STRANDLINE_API
int32_t strandline_subscriber_lost(struct strandline_subscriber *subscriber,
                                   struct strandline_lost *lost);

/// Closes a subscription.
STRANDLINE_API int32_t strandline_subscriber_close(struct strandline_subscriber *subscriber);

/* The layout, with the numbers that the library asserts as well. */
#define STRANDLINE_LAYOUT(type, bytes, last, offset)                                                                     \
    STRANDLINE_STATIC_ASSERT(sizeof(type) == (bytes), #type);                                                            \
    STRANDLINE_STATIC_ASSERT(offsetof(type, last) == (offset), #type "." #last)
STRANDLINE_LAYOUT(strandline_stop_result, 96, waited_ns, 88);
STRANDLINE_LAYOUT(strandline_settings, 120, reserved3, 116);
STRANDLINE_LAYOUT(strandline_agent, 128, reserved, 112);
STRANDLINE_LAYOUT(strandline_queue, 24, agent, 16);
STRANDLINE_LAYOUT(strandline_stream, 40, label, 32);
STRANDLINE_LAYOUT(strandline_kernel, 64, kernarg_bytes, 60);
STRANDLINE_LAYOUT(strandline_metadata_pair, 24, value, 16);
STRANDLINE_LAYOUT(strandline_api, 64, reserved, 60);
STRANDLINE_LAYOUT(strandline_dispatch, 128, reserved, 124);
STRANDLINE_LAYOUT(strandline_copy, 96, thread, 92);
STRANDLINE_LAYOUT(strandline_memory, 96, reserved, 92);
STRANDLINE_LAYOUT(strandline_session, 208, returned_ns, 200);
STRANDLINE_LAYOUT(strandline_trace_info, 120, damage_count, 116);
STRANDLINE_LAYOUT(strandline_record, 232, reserved, 224);
STRANDLINE_LAYOUT(strandline_lost, 32, records, 24);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* STRANDLINE_H */
