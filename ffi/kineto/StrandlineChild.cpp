// What kineto's public interface for child profilers is used for: the completeness of each trace in its metadata, and an
// owner for its rows that lives exactly as long as the trace. Needs libkineto's headers; kineto itself is not changed.
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <libkineto.h>

#include "RocprofLogger.h"

namespace strandline_kineto {
namespace {

// Never logged: it lies in a buffer that the trace owns, and keeps the rows there.
class RowsOwner : public libkineto::GenericTraceActivity {
 public:
  explicit RowsOwner(std::shared_ptr<const void> rows)
      : rows_(std::move(rows)) {}

 private:
  std::shared_ptr<const void> rows_;
};

class Session : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override {
    return {};
  }
  void processTrace(libkineto::ActivityLogger& /*logger*/) override {}
  void processTrace(
      libkineto::ActivityLogger& /*logger*/,
      libkineto::getLinkedActivityCallback /*linked*/,
      int64_t start,
      int64_t end) override {
    start_ = start;
    end_ = end;
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return nullptr;
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    return {};
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    auto rows = RocprofLogger::singleton().keepRows();
    if (rows == nullptr) {
      return nullptr;
    }
    auto buffer = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer->span = libkineto::TraceSpan(start_, end_, "Strandline");
    buffer->gpuOpCount = 0;
    buffer->activities.push_back(std::make_unique<RowsOwner>(std::move(rows)));
    return buffer;
  }
  std::unordered_map<std::string, std::string> getMetadata() override {
    std::unordered_map<std::string, std::string> all;
    for (auto& [key, value] :
         RocprofLogger::singleton().completeness().metadata()) {
      all[key] = value;
    }
    return all;
  }

 private:
  int64_t start_{0};
  int64_t end_{0};
};

class Profiler : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name("Strandline");
    return name;
  }
  const std::set<libkineto::ActivityType>& availableActivities()
      const override {
    static const std::set<libkineto::ActivityType> none;
    return none;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<libkineto::ActivityType>& /*types*/,
      const libkineto::Config& /*config*/) override {
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t /*start*/,
      int64_t /*duration*/,
      const std::set<libkineto::ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }
};

} // namespace

void onRegistered() {
  libkineto::api().registerProfilerFactory(
      [] { return std::make_unique<Profiler>(); });
}

} // namespace strandline_kineto
