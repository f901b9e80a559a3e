// The rows that kineto and the layer share, for the compile test only: the same constructors and fields as the header of that
// name in kineto, whose own is used when the layer is dropped in.
#pragma once
#include <stdint.h>
#include <string>
#include <hip/hip_runtime_api.h>

namespace RocLogger {
enum CorrelationDomain { begin, Domain0 = begin, Default = begin, Domain1, end, size = end };
}

enum rocprof_activity_types {
  ROCTRACER_ACTIVITY_DEFAULT = 0,
  ROCTRACER_ACTIVITY_KERNEL,
  ROCTRACER_ACTIVITY_COPY,
  ROCTRACER_ACTIVITY_MALLOC,
  ROCTRACER_ACTIVITY_ASYNC,
  ROCTRACER_ACTIVITY_NONE,
};

struct rocprofBase {
  rocprofBase(uint64_t i, uint32_t d, uint64_t b, uint64_t e, rocprof_activity_types t)
      : id(i), begin(b), end(e), domain(d), type(t) {}
  uint64_t id, begin, end;
  uint32_t domain;
  rocprof_activity_types type;
};

struct rocprofRow : rocprofBase {
  rocprofRow(uint64_t i, uint32_t d, uint32_t c, uint32_t p, uint32_t t, uint64_t b, uint64_t e,
             rocprof_activity_types type = ROCTRACER_ACTIVITY_DEFAULT)
      : rocprofBase(i, d, b, e, type), cid(c), pid(p), tid(t) {}
  uint32_t cid, pid, tid;
};

struct rocprofKernelRow : rocprofRow {
  rocprofKernelRow(uint64_t i, uint32_t d, uint32_t c, uint32_t p, uint32_t t, uint64_t b, uint64_t e,
                   const void* address, hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned wx,
                   unsigned wy, unsigned wz, size_t bytes, hipStream_t s)
      : rocprofRow(i, d, c, p, t, b, e, ROCTRACER_ACTIVITY_KERNEL),
        functionAddr(address), function(f), gridX(gx), gridY(gy), gridZ(gz),
        workgroupX(wx), workgroupY(wy), workgroupZ(wz), groupSegmentSize(bytes), stream(s) {}
  const void* functionAddr;
  hipFunction_t function;
  unsigned gridX, gridY, gridZ, workgroupX, workgroupY, workgroupZ;
  size_t groupSegmentSize;
  hipStream_t stream;
};

struct rocprofCopyRow : rocprofRow {
  rocprofCopyRow(uint64_t i, uint32_t d, uint32_t c, uint32_t p, uint32_t t, uint64_t b, uint64_t e,
                 const void* from, const void* to, size_t n, hipMemcpyKind k, hipStream_t s)
      : rocprofRow(i, d, c, p, t, b, e, ROCTRACER_ACTIVITY_COPY), src(from), dst(to), size(n), kind(k), stream(s) {}
  const void* src;
  const void* dst;
  size_t size;
  hipMemcpyKind kind;
  hipStream_t stream;
};

struct rocprofMallocRow : rocprofRow {
  rocprofMallocRow(uint64_t i, uint32_t d, uint32_t c, uint32_t p, uint32_t t, uint64_t b, uint64_t e,
                   const void* address, size_t n)
      : rocprofRow(i, d, c, p, t, b, e, ROCTRACER_ACTIVITY_MALLOC), ptr(address), size(n) {}
  const void* ptr;
  size_t size;
};

struct rocprofAsyncRow : rocprofBase {
  rocprofAsyncRow(uint64_t i, uint32_t d, uint32_t k, uint32_t o, int dev, uint64_t q, uint64_t b, uint64_t e,
                  const std::string& name)
      : rocprofBase(i, d, b, e, ROCTRACER_ACTIVITY_ASYNC), kind(k), op(o), device(dev), queue(q), kernelName(name) {}
  uint32_t kind, op;
  int device;
  uint64_t queue, stream{0};
  std::string kernelName;
};
