// See fwd.h.
#pragma once
#include <stddef.h>
#include <rocprofiler-sdk/fwd.h>
typedef struct {
  size_t size;
  const char* name;
  const uint32_t handle;
} rocprofiler_client_id_t;
typedef struct {
  size_t size;
  int (*initialize)(void (*)(rocprofiler_client_id_t), void*);
  void (*finalize)(void*);
  void* tool_data;
} rocprofiler_tool_configure_result_t;
