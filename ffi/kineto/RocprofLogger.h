// kineto's ROCm back end on Strandline: put this file and RocprofLogger.cpp in the place of the two files of that name in
// libkineto/src. See docs/kineto.md.
//
// What kineto uses of the class is kept: its functions, and the four members that RocprofActivityApi reads as a friend.
// Behind them there is no callback, no buffer and no lock of its own: records are taken by libstrandline, and become rows
// when a trace is stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <rocprofiler-sdk/registration.h>
// The enums of kinds and operations: registration.h includes it, the name is given for readers.
#include <rocprofiler-sdk/fwd.h>

#include "RocLogger.h"

namespace libkineto {
class RocprofActivityApi;
}

namespace strandline_kineto {

// The rows of one trace. They stay where they are until the last owner lets go of them.
struct Rows;
// Reads each record of the process once.
struct Reader;

// What the last stop said. Numbers of all windows since clearLogs are added up; the verdict is the worst of them.
struct Completeness {
  uint32_t windows = 0;
  // 0 complete, 1 incomplete, 2 heuristic, 3 empty, as STRANDLINE_VERDICT_*; 4: no window was recorded.
  uint32_t verdict = 4;
  // Dispatches and copies.
  uint64_t issued = 0;
  uint64_t recorded = 0;
  uint64_t retiredWithoutRecord = 0;
  uint64_t missing = 0;
  // Came after their trace was made.
  uint64_t late = 0;
  // Not in the trace, all reasons.
  uint64_t lost = 0;
  // Rows that setMaxEvents left out, and records without usable times, which kineto cannot place.
  uint64_t overLimit = 0;
  uint64_t untimed = 0;
  // Every correlation id up to this one is accounted for.
  uint64_t lowWatermark = 0;
  uint64_t waitedNs = 0;
  // STRANDLINE_OK, or why there is no data.
  int32_t status = 0;
  bool simulated = false;

  // Pairs for the trace's metadata. The values are JSON.
  std::vector<std::pair<std::string, std::string>> metadata() const;
};

// Called once when the logger is first registered. The strong definition in StrandlineChild.cpp registers a child profiler
// that puts Completeness in the metadata of each trace and gives the trace its rows.
void onRegistered() __attribute__((weak));

} // namespace strandline_kineto

class RocprofLogger {
 public:
  RocprofLogger(const RocprofLogger&) = delete;
  RocprofLogger& operator=(const RocprofLogger&) = delete;

  // Lives as long as the process: nothing of it is destroyed at exit, where the SDK still works.
  static RocprofLogger& singleton();

  // Any thread. No allocation after a thread's first push.
  static void pushCorrelationID(uint64_t id, RocLogger::CorrelationDomain type);
  static void popCorrelationID(RocLogger::CorrelationDomain type);

  // Configures rocprofiler-sdk when nobody has. Again and again is fine.
  static void ensureRegistered();

  // One thread at a time, not in a callback of the SDK. startLogging opens a window; stopLogging closes it, waits until every
  // dispatch and copy of it is accounted for (5 s at most, STRANDLINE_STOP_TIMEOUT_MS), and makes its rows.
  void startLogging();
  void stopLogging();

  // Lets go of the rows. Those of a trace that keepRows was called for stay as long as that owner keeps them; those of any
  // other trace stay for ever, because kineto's activities point to them.
  void clearLogs();

  // How many rows a trace may have. The memory behind it is a budget in bytes, 192 for each event, fixed when the SDK is
  // configured (STRANDLINE_BUDGET, or that of 5,000,000 events); what has no room is counted and named in the metadata.
  void setMaxEvents(uint32_t maxBufferSize);

  // The name of an operation, as the SDK writes it.
  static std::string opString(
      rocprofiler_callback_tracing_kind_t kind,
      rocprofiler_tracing_operation_t op);
  static std::string opString(
      rocprofiler_buffer_tracing_kind_t kind,
      rocprofiler_tracing_operation_t op);

  // Beyond what kineto has.
  strandline_kineto::Completeness completeness() const;
  // An owner for the rows that rows_ points to.
  std::shared_ptr<const void> keepRows();

 private:
  RocprofLogger();
  ~RocprofLogger();

  void takeRows(uint64_t session, uint64_t startTicks, uint64_t startNs);

  std::vector<rocprofBase*> rows_;
  // Correlation id of a call and the id that was pushed around it.
  std::vector<std::pair<uint64_t, uint64_t>>
      externalCorrelations_[RocLogger::CorrelationDomain::size];
  std::mutex externalCorrelationsMutex_;
  std::atomic<bool> externalCorrelationEnabled_{true};

  std::shared_ptr<strandline_kineto::Rows> owner_;
  bool owned_{false};
  strandline_kineto::Completeness completeness_;
  uint32_t maxRows_{5000000};
  uint64_t session_{0};
  uint64_t startTicks_{0};
  uint64_t startNs_{0};
  std::unique_ptr<strandline_kineto::Reader> reader_;

  friend class libkineto::RocprofActivityApi;
};
