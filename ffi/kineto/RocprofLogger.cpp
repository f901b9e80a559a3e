#include "RocprofLogger.h"

#include <cxxabi.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <unordered_set>

// Linked, so that the program needs the SDK's library and libstrandline finds it loaded.
#include <rocprofiler-sdk/callback_tracing.h>
#include <strandline.h>

#if __has_include("ApproximateClock.h")
#include "ApproximateClock.h"
#elif defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace strandline_kineto {

struct Rows {
  // Deques: a row never moves.
  std::deque<rocprofRow> calls;
  std::deque<rocprofKernelRow> launches;
  std::deque<rocprofCopyRow> copies;
  std::deque<rocprofMallocRow> allocations;
  std::deque<rocprofAsyncRow> device;
};

// What is known from the facts, and where the reading of records is.
struct Reader {
  struct Agent {
    bool isGpu;
    // The index among the agents of its type: what programs call the device number.
    int index;
  };

  // Null when it could not be opened.
  strandline_subscriber* subscriber = nullptr;
  std::unordered_map<uint64_t, Agent> agents;
  std::unordered_map<uint32_t, uint64_t> streams;
  // Small numbers for streams, in the order of their first use in the process.
  std::unordered_map<uint32_t, uint64_t> streamNumbers;
  std::unordered_map<uint64_t, std::string> kernelNames;
  bool simulated = false;

  int32_t open() {
    strandline_trace* trace = nullptr;
    if (strandline_trace_live(&trace) == STRANDLINE_OK) {
      strandline_trace_info info{};
      info.size = sizeof(info);
      simulated = strandline_trace_get_info(trace, &info) == STRANDLINE_OK &&
          info.simulated != 0;
      strandline_trace_close(trace);
    }
    return strandline_subscribe(
        STRANDLINE_KIND_BIT(STRANDLINE_KIND_API) |
            STRANDLINE_KIND_BIT(STRANDLINE_KIND_EXTERNAL) |
            STRANDLINE_KIND_BIT(STRANDLINE_KIND_DISPATCH) |
            STRANDLINE_KIND_BIT(STRANDLINE_KIND_COPY) | STRANDLINE_KINDS_FACTS,
        0,
        &subscriber);
  }

  void fact(const strandline_record& record) {
    const uint64_t* words = record.words;
    if (record.kind == STRANDLINE_KIND_AGENT && record.cells >= 1) {
      // docs/format.md: word 2 type, word 3 high half the index.
      agents[record.agent] = {
          static_cast<uint32_t>(words[2]) == 2,
          static_cast<int>(words[3] >> 32)};
    } else if (record.kind == STRANDLINE_KIND_STREAM) {
      streams[record.stream] = record.address;
    }
  }

  bool isGpu(uint64_t handle) const {
    const auto found = agents.find(handle);
    return found != agents.end() && found->second.isGpu;
  }
  int device(uint64_t handle) const {
    const auto found = agents.find(handle);
    return found == agents.end() ? -1 : found->second.index;
  }
  hipStream_t hipStream(uint32_t id) const {
    const auto found = streams.find(id);
    return reinterpret_cast<hipStream_t>(
        static_cast<uintptr_t>(found == streams.end() ? 0 : found->second));
  }
};

namespace {

// Numbers of rocprofiler-sdk, the same in every version since 1.0.0.
constexpr uint32_t kCallbackHipRuntime = 5;
constexpr uint32_t kBufferCopy = 10;
constexpr uint32_t kBufferDispatch = 11;
constexpr uint32_t kDispatchComplete = 2;
constexpr uint32_t kHipFree = 90;
constexpr uint32_t kHipMalloc = 215;

enum class CallClass { Plain, Launch, Copy, Allocation };

CallClass classOf(uint32_t operation) {
  switch (operation) {
    case 84: // hipExtLaunchKernel
    case 85: // hipExtLaunchMultiKernelMultiDevice
    case 211: // hipLaunchCooperativeKernel
    case 212: // hipLaunchCooperativeKernelMultiDevice
    case 214: // hipLaunchKernel
    case 306: // hipModuleLaunchCooperativeKernel
    case 307: // hipModuleLaunchCooperativeKernelMultiDevice
    case 308: // hipModuleLaunchKernel
    case 388: // hipExtModuleLaunchKernel
    case 389: // hipHccModuleLaunchKernel
    case 418: // hipLaunchCooperativeKernel_spt
    case 419: // hipLaunchKernel_spt
      return CallClass::Launch;
    case kHipFree:
    case kHipMalloc:
      return CallClass::Allocation;
    default:
      // hipMemcpy ... hipMemcpyWithStream
      return operation >= 259 && operation <= 287 ? CallClass::Copy
                                                  : CallClass::Plain;
  }
}

uint64_t hostTicks() {
#if __has_include("ApproximateClock.h")
  return static_cast<uint64_t>(libkineto::getApproximateTime());
#elif defined(__x86_64__)
  return __rdtsc();
#else
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + now.tv_nsec;
#endif
}

int64_t monotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

// One instant in another clock and in the timeline's.
struct Instant {
  int64_t value;
  uint64_t ns;
};

// The closest of a few pairs.
template <class Other>
Instant sameInstant(Other other) {
  Instant best{0, 0};
  uint64_t width = UINT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = strandline_now_ns();
    const auto value = static_cast<int64_t>(other());
    const uint64_t after = strandline_now_ns();
    if (after - before < width) {
      width = after - before;
      best = {value, before + width / 2};
    }
  }
  return best;
}

std::string demangled(const char* name, uint64_t bytes) {
  std::string text(name, bytes);
  // The SDK names a kernel after the symbol of its descriptor.
  constexpr char kSuffix[] = ".kd";
  constexpr size_t kSuffixBytes = sizeof(kSuffix) - 1;
  if (text.size() > kSuffixBytes &&
      text.compare(text.size() - kSuffixBytes, kSuffixBytes, kSuffix) == 0) {
    text.resize(text.size() - kSuffixBytes);
  }
  int failed = 0;
  char* plain = abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &failed);
  if (failed == 0 && plain != nullptr) {
    text = plain;
  }
  std::free(plain);
  return text;
}

uint32_t worse(uint32_t one, uint32_t other) {
  // incomplete, heuristic, complete, empty, none.
  static constexpr int kRank[] = {2, 4, 3, 1, 0};
  return kRank[std::min(one, 4u)] > kRank[std::min(other, 4u)] ? one : other;
}

// Pushes that found no room, so that pops stay in step.
thread_local uint32_t t_skipped[RocLogger::CorrelationDomain::size];

std::once_flag registeredOnce;
std::atomic<int32_t> registration{STRANDLINE_NOT_READY};

void warn(const char* what, int32_t status) {
  std::fprintf(
      stderr,
      "strandline (kineto): %s: %s\n",
      what,
      strandline_status_string(status));
}

// Before the SDK is configured, whoever does it.
void giveSettings() {
  strandline_settings settings{};
  settings.size = sizeof(settings);
  settings.start = 3; // the host opens its windows itself
  if (std::getenv("STRANDLINE_BUDGET") == nullptr) {
    settings.budget_bytes = uint64_t{5000000} * 192;
  }
  const int32_t status = strandline_configure(&settings);
  if (status != STRANDLINE_OK && status != STRANDLINE_ALREADY_THERE) {
    warn("settings", status);
  }
}

void configure() {
  giveSettings();
  const int32_t status = strandline_rocprofiler_force_configure();
  registration.store(status, std::memory_order_release);
  if (status != STRANDLINE_OK) {
    warn("no GPU activity will be recorded", status);
  }
}

} // namespace

std::vector<std::pair<std::string, std::string>> Completeness::metadata()
    const {
  static const char* const kVerdicts[] = {
      "\"complete\"",
      "\"incomplete\"",
      "\"heuristic\"",
      "\"empty\"",
      "\"none\""};
  std::vector<std::pair<std::string, std::string>> pairs;
  auto add = [&pairs](const char* key, std::string value) {
    pairs.emplace_back(std::string("strandline_") + key, std::move(value));
  };
  add("verdict", kVerdicts[std::min(verdict, 4u)]);
  add("issued", std::to_string(issued));
  add("recorded", std::to_string(recorded));
  add("retired_without_record", std::to_string(retiredWithoutRecord));
  add("missing", std::to_string(missing));
  add("late", std::to_string(late));
  add("lost", std::to_string(lost));
  add("rows_over_limit", std::to_string(overLimit));
  add("untimed", std::to_string(untimed));
  add("whole_up_to_correlation_id", std::to_string(lowWatermark));
  add("stop_waited_ns", std::to_string(waitedNs));
  if (status != STRANDLINE_OK) {
    add("status", "\"" + std::string(strandline_status_string(status)) + "\"");
  }
  if (simulated) {
    add("simulated", "true");
  }
  return pairs;
}

} // namespace strandline_kineto

using strandline_kineto::Completeness;
using strandline_kineto::Reader;
using strandline_kineto::Rows;
using namespace strandline_kineto;

// The SDK looks for this symbol when HIP starts before libkineto_init has run.
extern "C" __attribute__((visibility("default")))
rocprofiler_tool_configure_result_t*
rocprofiler_configure(
    uint32_t version,
    const char* runtime_version,
    uint32_t priority,
    rocprofiler_client_id_t* client) {
  giveSettings();
  auto* result = static_cast<rocprofiler_tool_configure_result_t*>(
      strandline_rocprofiler_configure(
          version, runtime_version, priority, client));
  if (result != nullptr) {
    registration.store(STRANDLINE_OK, std::memory_order_release);
  }
  return result;
}

RocprofLogger::RocprofLogger() = default;
RocprofLogger::~RocprofLogger() = default;

RocprofLogger& RocprofLogger::singleton() {
  static auto* const instance = new RocprofLogger();
  return *instance;
}

void RocprofLogger::pushCorrelationID(
    uint64_t id,
    RocLogger::CorrelationDomain type) {
  if (!singleton().externalCorrelationEnabled_.load(
          std::memory_order_relaxed)) {
    return;
  }
  if (t_skipped[type] != 0 ||
      strandline_external_push(static_cast<uint32_t>(type), id) !=
          STRANDLINE_OK) {
    ++t_skipped[type];
  }
}

void RocprofLogger::popCorrelationID(RocLogger::CorrelationDomain type) {
  if (!singleton().externalCorrelationEnabled_.load(
          std::memory_order_relaxed)) {
    return;
  }
  if (t_skipped[type] != 0) {
    --t_skipped[type];
    return;
  }
  uint64_t id = 0;
  // Nothing is on the stack when the push came before the ids were wanted.
  strandline_external_pop(static_cast<uint32_t>(type), &id);
}

void RocprofLogger::ensureRegistered() {
  std::call_once(registeredOnce, [] {
    if (registration.load(std::memory_order_acquire) != STRANDLINE_OK) {
      configure();
    }
    if (onRegistered != nullptr) {
      onRegistered();
    }
  });
}

void RocprofLogger::startLogging() {
  ensureRegistered();
  externalCorrelationEnabled_.store(true, std::memory_order_relaxed);
  if (session_ != 0) {
    return;
  }
  // Before the window, so that nothing of it is missed.
  int32_t status = STRANDLINE_OK;
  if (reader_ == nullptr) {
    auto reader = std::make_unique<Reader>();
    status = reader->open();
    if (status == STRANDLINE_OK) {
      reader_ = std::move(reader);
    }
  }
  if (status == STRANDLINE_OK) {
    status = strandline_session_start(&session_);
  }
  completeness_.status = status;
  if (status != STRANDLINE_OK) {
    session_ = 0;
    warn("a window could not be opened", status);
    return;
  }
  const Instant now = sameInstant(hostTicks);
  startTicks_ = static_cast<uint64_t>(now.value);
  startNs_ = now.ns;
}

void RocprofLogger::stopLogging() {
  if (session_ == 0) {
    return;
  }
  const uint64_t session = std::exchange(session_, 0);
  uint64_t timeout = 5000000000;
  if (const char* text = std::getenv("STRANDLINE_STOP_TIMEOUT_MS")) {
    timeout = std::strtoull(text, nullptr, 10) * 1000000;
  }
  strandline_stop_result result{};
  result.size = sizeof(result);
  const int32_t status = strandline_session_stop(session, timeout, &result);
  completeness_.status = status;
  if (status != STRANDLINE_OK) {
    // At exit, or in a callback: the window is closed, its records are in the region, there is nobody to read rows.
    return;
  }
  ++completeness_.windows;
  completeness_.verdict =
      worse(completeness_.verdict, static_cast<uint32_t>(result.verdict));
  completeness_.issued += result.issued;
  completeness_.recorded += result.recorded;
  completeness_.retiredWithoutRecord += result.retired_without_record;
  completeness_.missing += result.missing;
  completeness_.late += result.late;
  completeness_.lost += result.lost;
  completeness_.lowWatermark = result.low_watermark;
  completeness_.waitedNs += result.waited_ns;
  takeRows(session, startTicks_, startNs_);
}

void RocprofLogger::takeRows(
    uint64_t session,
    uint64_t startTicks,
    uint64_t startNs) {
  // What was recorded since the last window, in the order of each thread; a record's words are valid until the next one.
  struct Taken {
    strandline_record record;
    uint64_t arguments[8];
  };
  std::vector<Taken> taken;
  Reader& reader = *reader_;
  Taken item{};
  int32_t next = STRANDLINE_OK;
  for (;;) {
    item.record.size = sizeof(item.record);
    next = strandline_subscriber_next(reader.subscriber, &item.record);
    if (next != STRANDLINE_OK) {
      break;
    }
    switch (item.record.kind) {
      case STRANDLINE_KIND_API:
      case STRANDLINE_KIND_EXTERNAL:
      case STRANDLINE_KIND_DISPATCH:
      case STRANDLINE_KIND_COPY:
        if (item.record.session != session) {
          break;
        }
        // Words 8 to 15 of a call's record are its arguments, when it has two cells.
        if (item.record.kind == STRANDLINE_KIND_API && item.record.cells == 2) {
          std::memcpy(
              item.arguments, item.record.words + 8, sizeof(item.arguments));
        } else {
          std::memset(item.arguments, 0, sizeof(item.arguments));
        }
        taken.push_back(item);
        break;
      default:
        reader.fact(item.record);
    }
  }
  if (next != STRANDLINE_NOTHING) {
    completeness_.status = next;
  }
  std::stable_sort(
      taken.begin(), taken.end(), [](const Taken& one, const Taken& other) {
        return one.record.start_ns < other.record.start_ns;
      });
  completeness_.simulated = reader.simulated;

  // kineto converts the times of calls from its approximate clock and those of the device from CLOCK_MONOTONIC.
  const Instant last = sameInstant(hostTicks);
  const Instant monotonic = sameInstant(monotonicNs);
  const auto endTicks = static_cast<uint64_t>(last.value);
  const double ticksPerNs = last.ns > startNs
      ? static_cast<double>(endTicks - startTicks) /
          static_cast<double>(last.ns - startNs)
      : 1.0;
  auto toTicks = [&](uint64_t ns) {
    return startTicks +
        static_cast<uint64_t>(static_cast<int64_t>(
            static_cast<double>(static_cast<int64_t>(ns - startNs)) *
            ticksPerNs));
  };
  const int64_t toMonotonic =
      monotonic.value - static_cast<int64_t>(monotonic.ns);
  auto toDevice = [toMonotonic](uint64_t ns) {
    return static_cast<uint64_t>(static_cast<int64_t>(ns) + toMonotonic);
  };

  if (owner_ == nullptr) {
    owner_ = std::make_shared<Rows>();
    owned_ = false;
  }
  Rows& rows = *owner_;
  const auto pid = static_cast<uint32_t>(getpid());
  std::unordered_set<uint64_t> calls;

  auto room = [this] {
    if (rows_.size() < maxRows_) {
      return true;
    }
    ++completeness_.overLimit;
    return false;
  };
  auto addCall = [&](const strandline_record& record, const uint64_t* words) {
    if (record.domain != STRANDLINE_DOMAIN_RUNTIME) {
      return;
    }
    calls.insert(record.correlation_id);
    if (record.external_id != 0) {
      externalCorrelations_[RocLogger::Domain0].emplace_back(
          record.correlation_id, record.external_id);
    }
    if (!room()) {
      return;
    }
    const uint64_t id = record.correlation_id;
    const uint64_t begin = toTicks(record.start_ns);
    // A call that was still running when the window closed ends there.
    const uint64_t end = record.end_ns == 0 ? endTicks : toTicks(record.end_ns);
    auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
    auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
    auto pointer = [words](size_t index) {
      return reinterpret_cast<const void*>(static_cast<uintptr_t>(words[index]));
    };
    const uint64_t size =
        (words[0] & STRANDLINE_ARG_BYTES) != 0 ? words[1] : 0;
    switch (classOf(record.operation)) {
      case CallClass::Launch:
        rows.launches.emplace_back(
            id, kCallbackHipRuntime, record.operation, pid, record.thread,
            begin, end, nullptr, nullptr, low(words[5]), high(words[5]),
            low(words[6]), low(words[7]) & 0xffff, low(words[7]) >> 16,
            high(words[7]) & 0xffff, high(words[6]), reader.hipStream(record.stream));
        rows_.push_back(&rows.launches.back());
        break;
      case CallClass::Copy:
        rows.copies.emplace_back(
            id, kCallbackHipRuntime, record.operation, pid, record.thread,
            begin, end,
            (words[0] & STRANDLINE_ARG_SOURCE) != 0 ? pointer(3) : nullptr,
            (words[0] & STRANDLINE_ARG_DESTINATION) != 0 ? pointer(2) : nullptr,
            size,
            (words[0] & STRANDLINE_ARG_COPY_KIND) != 0
                ? static_cast<hipMemcpyKind>(low(words[4]))
                : hipMemcpyDefault,
            reader.hipStream(record.stream));
        rows_.push_back(&rows.copies.back());
        break;
      case CallClass::Allocation:
        rows.allocations.emplace_back(
            id, kCallbackHipRuntime, record.operation, pid, record.thread,
            begin, end, pointer(2), size);
        rows_.push_back(&rows.allocations.back());
        break;
      case CallClass::Plain:
        rows.calls.emplace_back(
            id, kCallbackHipRuntime, record.operation, pid, record.thread,
            begin, end);
        rows_.push_back(&rows.calls.back());
        break;
    }
  };
  auto addDevice = [&](const strandline_record& record) {
    constexpr uint32_t kOdd =
        STRANDLINE_FLAG_UNTIMED | STRANDLINE_FLAG_END_BEFORE_START;
    if ((record.flags & kOdd) != 0) {
      ++completeness_.untimed;
      return;
    }
    if (!room()) {
      return;
    }
    // When another tool traces HSA, the dispatch carries the id of the HSA call; the HIP call is its ancestor.
    const uint64_t id = calls.count(record.correlation_id) == 0 &&
            calls.count(record.ancestor_id) != 0
        ? record.ancestor_id
        : record.correlation_id;
    if (record.kind == STRANDLINE_KIND_DISPATCH) {
      std::string& name = reader.kernelNames[record.kernel_id];
      if (name.empty() && record.name != nullptr) {
        name = demangled(record.name, record.name_bytes);
      }
      rows.device.emplace_back(
          id, kBufferDispatch, kDispatchComplete, kDispatchComplete,
          reader.device(record.agent), record.queue, toDevice(record.start_ns),
          toDevice(record.end_ns),
          name.empty() ? "<unknown kernel>" : name);
    } else {
      const uint64_t gpu = reader.isGpu(record.destination_agent)
          ? record.destination_agent
          : record.agent;
      rows.device.emplace_back(
          id, kBufferCopy, record.operation, record.operation, reader.device(gpu), 0,
          toDevice(record.start_ns), toDevice(record.end_ns), "");
    }
    // The stream of the call that issued it: known, not guessed from ids or queues. 0 = unknown, kineto then shows the queue.
    // Small numbers, in the order of their first use in the process.
    if (record.stream != 0) {
      rows.device.back().stream =
          reader.streamNumbers
              .emplace(record.stream, reader.streamNumbers.size() + 1)
              .first->second;
    }
    rows_.push_back(&rows.device.back());
  };
  // Calls first: kineto looks at a launch's shape before it looks at its kernels.
  for (const Taken& each : taken) {
    if (each.record.kind == STRANDLINE_KIND_API) {
      addCall(each.record, each.arguments);
    } else if (
        each.record.kind == STRANDLINE_KIND_EXTERNAL &&
        each.record.external_domain == RocLogger::Domain1) {
      externalCorrelations_[RocLogger::Domain1].emplace_back(
          each.record.correlation_id, each.record.external_id);
    }
  }
  for (const Taken& each : taken) {
    if (each.record.kind == STRANDLINE_KIND_DISPATCH ||
        each.record.kind == STRANDLINE_KIND_COPY) {
      addDevice(each.record);
    }
  }
}

void RocprofLogger::clearLogs() {
  rows_.clear();
  for (auto& correlations : externalCorrelations_) {
    correlations.clear();
  }
  if (owner_ != nullptr && !owned_) {
    // kineto's activities may still point to these rows, and nobody says until when.
    static auto* const kept = new std::vector<std::shared_ptr<Rows>>();
    kept->push_back(owner_);
  }
  owner_.reset();
  owned_ = false;
  completeness_ = Completeness{};
}

void RocprofLogger::setMaxEvents(uint32_t maxBufferSize) {
  maxRows_ = maxBufferSize;
}

Completeness RocprofLogger::completeness() const {
  return completeness_;
}

std::shared_ptr<const void> RocprofLogger::keepRows() {
  owned_ = owner_ != nullptr;
  return owner_;
}

std::string RocprofLogger::opString(
    rocprofiler_callback_tracing_kind_t kind,
    rocprofiler_tracing_operation_t op) {
  const char* name = nullptr;
  uint64_t bytes = 0;
  if (rocprofiler_query_callback_tracing_kind_operation_name(
          kind, op, &name, &bytes) == ROCPROFILER_STATUS_SUCCESS &&
      name != nullptr) {
    return std::string(name, bytes);
  }
  return "<unknown operation:" + std::to_string(op) + ">";
}

std::string RocprofLogger::opString(
    rocprofiler_buffer_tracing_kind_t kind,
    rocprofiler_tracing_operation_t op) {
  if (static_cast<uint32_t>(kind) == kBufferDispatch &&
      static_cast<uint32_t>(op) == kDispatchComplete) {
    return "KERNEL_DISPATCH_COMPLETE";
  }
  if (static_cast<uint32_t>(kind) == kBufferCopy) {
    static const char* const kNames[] = {
        "MEMORY_COPY_NONE",
        "MEMORY_COPY_HOST_TO_HOST",
        "MEMORY_COPY_HOST_TO_DEVICE",
        "MEMORY_COPY_DEVICE_TO_HOST",
        "MEMORY_COPY_DEVICE_TO_DEVICE"};
    if (static_cast<uint32_t>(op) < 5) {
      return kNames[op];
    }
  }
  return "<unknown operation:" + std::to_string(op) + ">";
}
