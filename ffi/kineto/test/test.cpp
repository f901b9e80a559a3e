// The layer on the stand-in libraries, without kineto: three windows of a graph, with records that come late, then copies and
// plain launches. RocprofActivityApi is the friend by which kineto reaches the rows.
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "RocprofLogger.h"

namespace libkineto {
class RocprofActivityApi {
 public:
  static const std::vector<rocprofBase*>& rows() {
    return RocprofLogger::singleton().rows_;
  }
  static const std::vector<std::pair<uint64_t, uint64_t>>& external(int domain) {
    return RocprofLogger::singleton().externalCorrelations_[domain];
  }
  // What kineto does at its exit.
  ~RocprofActivityApi() {
    RocprofLogger::singleton().stopLogging();
  }
};
} // namespace libkineto
using libkineto::RocprofActivityApi;

static RocprofActivityApi atExit;
static int failures = 0;

static void check(bool good, const char* what, const char* file, int line) {
  if (!good) {
    std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    ++failures;
  }
}
#define CHECK(what) check((what), #what, __FILE__, __LINE__)

constexpr int kNodes = 32;
constexpr int kReplays = 25;
static char stubs[kNodes];
static const struct {
  unsigned magic, version;
  const void *binary, *unused;
} fatBinary = {0x48495046, 1, nullptr, nullptr};

static void launch(int node, hipStream_t stream) {
  void* arguments[1] = {nullptr};
  CHECK(hipLaunchKernel(&stubs[node], dim3(64, 2, 3), dim3(256, 1, 2), arguments, 16, stream) == 0);
}

int main() {
  void** modules = __hipRegisterFatBinary(&fatBinary);
  std::vector<std::string> names;
  for (int i = 0; i < kNodes; ++i) {
    char name[32];
    std::snprintf(name, sizeof name, "_Z8node_%03dPfi", i);
    names.emplace_back(name);
  }
  for (int i = 0; i < kNodes; ++i) {
    __hipRegisterFunction(
        modules, &stubs[i], names[i].data(), names[i].data(), ~0u, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
  RocprofLogger::ensureRegistered();
  RocprofLogger::ensureRegistered();
  auto& logger = RocprofLogger::singleton();
  logger.setMaxEvents(100000);

  hipStream_t stream = nullptr;
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, 1) == 0);
  CHECK(hipStreamBeginCapture(stream, 1) == 0);
  for (int i = 0; i < kNodes; ++i) {
    launch(i, stream);
  }
  CHECK(hipStreamEndCapture(stream, &graph) == 0);
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0) == 0);

  std::shared_ptr<const void> firstOwner;
  const rocprofAsyncRow* firstKernel = nullptr;
  for (int window = 0; window < 3; ++window) {
    logger.clearLogs();
    logger.startLogging();
    RocprofLogger::pushCorrelationID(100 + window, RocLogger::Domain0);
    RocprofLogger::pushCorrelationID(200 + window, RocLogger::Domain1);
    for (int i = 0; i < kReplays; ++i) {
      CHECK(hipGraphLaunch(exec, stream) == 0);
    }
    RocprofLogger::popCorrelationID(RocLogger::Domain1);
    RocprofLogger::popCorrelationID(RocLogger::Domain0);
    CHECK(hipDeviceSynchronize() == 0);
    logger.stopLogging();
    logger.stopLogging();
    const auto said = logger.completeness();
    CHECK(said.verdict == 0 && said.missing == 0 && said.lost == 0 && said.windows == 1);
    CHECK(said.issued == kNodes * kReplays && said.simulated);
    if (failures != 0) {
      for (const auto& pair : said.metadata()) {
        std::fprintf(stderr, "%s %s\n", pair.first.c_str(), pair.second.c_str());
      }
    }
    size_t kernels = 0, calls = 0;
    std::set<uint64_t> launches, launched;
    for (auto* row : RocprofActivityApi::rows()) {
      if (row->type == ROCTRACER_ACTIVITY_ASYNC) {
        auto* kernel = static_cast<rocprofAsyncRow*>(row);
        if (kernels++ == 0 && window == 0) {
          firstKernel = kernel;
        }
        CHECK(kernel->kernelName.rfind("node_0", 0) == 0 && kernel->kernelName.find("(float*, int)") != std::string::npos);
        CHECK(kernel->domain == 11 && kernel->op == 2 && kernel->device == 0 && kernel->stream == 1);
        CHECK(kernel->end >= kernel->begin);
        launched.insert(kernel->id);
      } else {
        ++calls;
        auto* call = static_cast<rocprofRow*>(row);
        CHECK(call->end >= call->begin && call->tid != 0 && call->pid != 0);
        if (call->cid == 166) {
          launches.insert(call->id);
        }
      }
    }
    CHECK(kernels == kNodes * kReplays && launches == launched && calls >= launches.size());
    CHECK(RocprofActivityApi::external(0).size() == kReplays && RocprofActivityApi::external(1).size() == kReplays);
    if (failures != 0) {
      std::fprintf(stderr, "external ids: %zu and %zu\n", RocprofActivityApi::external(0).size(), RocprofActivityApi::external(1).size());
      return 1;
    }
    CHECK(RocprofActivityApi::external(0)[0].second == uint64_t(100 + window));
    CHECK(RocprofActivityApi::external(1)[0].second == uint64_t(200 + window));
    if (window == 0) {
      firstOwner = logger.keepRows();
    }
  }
  // The first window's rows are where they were, two windows later.
  CHECK(firstKernel != nullptr && firstKernel->kernelName == "node_000(float*, int)");

  logger.clearLogs();
  logger.startLogging();
  void* memory = nullptr;
  char host[4096] = {};
  CHECK(hipMalloc(&memory, sizeof host) == 0);
  CHECK(hipMemcpy(memory, host, sizeof host, hipMemcpyHostToDevice) == 0);
  launch(7, stream);
  CHECK(hipDeviceSynchronize() == 0);
  CHECK(hipFree(memory) == 0);
  logger.stopLogging();
  size_t found = 0;
  for (auto* row : RocprofActivityApi::rows()) {
    if (row->type == ROCTRACER_ACTIVITY_KERNEL) {
      auto* kernel = static_cast<rocprofKernelRow*>(row);
      CHECK(kernel->gridX == 64 && kernel->gridY == 2 && kernel->gridZ == 3 && kernel->workgroupX == 256);
      CHECK(kernel->workgroupY == 1 && kernel->workgroupZ == 2 && kernel->groupSegmentSize == 16 && kernel->stream == stream);
      found |= 1;
    } else if (row->type == ROCTRACER_ACTIVITY_COPY) {
      auto* copy = static_cast<rocprofCopyRow*>(row);
      // The buffers themselves, not the text of an argument.
      CHECK(copy->dst == memory && copy->src == host && copy->size == sizeof host && copy->kind == hipMemcpyHostToDevice);
      found |= 2;
    } else if (row->type == ROCTRACER_ACTIVITY_MALLOC) {
      auto* allocation = static_cast<rocprofMallocRow*>(row);
      CHECK(allocation->ptr == memory);
      found |= allocation->cid == 215 && allocation->size == sizeof host ? 4 : allocation->cid == 90 ? 8 : 0;
    } else if (row->type == ROCTRACER_ACTIVITY_ASYNC && static_cast<rocprofAsyncRow*>(row)->domain == 10) {
      found |= 16;
    }
  }
  CHECK(found == 31);
  CHECK(RocprofLogger::opString(ROCPROFILER_CALLBACK_TRACING_HIP_RUNTIME_API, 166) == "hipGraphLaunch");
  CHECK(RocprofLogger::opString(ROCPROFILER_CALLBACK_TRACING_HIP_RUNTIME_API, 9999) == "<unknown operation:9999>");
  CHECK(RocprofLogger::opString(ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH, 2) == "KERNEL_DISPATCH_COMPLETE");

  // A limit on rows is a limit, and it is said.
  logger.clearLogs();
  logger.setMaxEvents(10);
  logger.startLogging();
  CHECK(hipGraphLaunch(exec, stream) == 0);
  CHECK(hipDeviceSynchronize() == 0);
  logger.stopLogging();
  CHECK(RocprofActivityApi::rows().size() == 10 && logger.completeness().overLimit >= kNodes - 10);
  // Ids nest deeper than there is room for, and the pops stay in step.
  for (uint64_t i = 1; i <= 100; ++i) {
    RocprofLogger::pushCorrelationID(i, RocLogger::Domain0);
  }
  for (uint64_t i = 1; i <= 99; ++i) {
    RocprofLogger::popCorrelationID(RocLogger::Domain0);
  }
  logger.clearLogs();
  logger.setMaxEvents(100000);
  logger.startLogging();
  launch(1, stream);
  CHECK(hipDeviceSynchronize() == 0);
  RocprofLogger::popCorrelationID(RocLogger::Domain0);
  RocprofLogger::popCorrelationID(RocLogger::Domain0);
  logger.stopLogging();
  CHECK(!RocprofActivityApi::external(0).empty() && RocprofActivityApi::external(0)[0].second == 1);

  // A window is open at exit.
  logger.startLogging();
  launch(2, stream);
  std::puts(failures == 0 ? "ok" : "failed");
  return failures == 0 ? 0 : 1;
}
