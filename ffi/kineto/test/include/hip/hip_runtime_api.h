// The part of HIP that the layer and its test name, so that they compile where ROCm is not installed.
#pragma once
#include <stddef.h>
#include <stdint.h>
typedef struct ihipStream_t* hipStream_t;
typedef struct ihipModuleSymbol_t* hipFunction_t;
typedef struct ihipGraph* hipGraph_t;
typedef struct hipGraphExec* hipGraphExec_t;
typedef enum {
  hipMemcpyHostToHost = 0,
  hipMemcpyHostToDevice = 1,
  hipMemcpyDeviceToHost = 2,
  hipMemcpyDeviceToDevice = 3,
  hipMemcpyDefault = 4,
} hipMemcpyKind;
struct dim3 {
  uint32_t x, y, z;
  constexpr dim3(uint32_t vx = 1, uint32_t vy = 1, uint32_t vz = 1)
      : x(vx), y(vy), z(vz) {}
};
extern "C" {
int hipDeviceSynchronize(void);
int hipStreamCreateWithFlags(hipStream_t*, unsigned flags);
int hipLaunchKernel(const void*, dim3, dim3, void** args, size_t shared, hipStream_t);
int hipStreamBeginCapture(hipStream_t, int mode);
int hipStreamEndCapture(hipStream_t, hipGraph_t*);
int hipGraphInstantiate(hipGraphExec_t*, hipGraph_t, void*, char*, size_t);
int hipGraphLaunch(hipGraphExec_t, hipStream_t);
int hipMalloc(void**, size_t);
int hipFree(void*);
int hipMemcpy(void*, const void*, size_t, hipMemcpyKind);
void** __hipRegisterFatBinary(const void*);
void __hipRegisterFunction(
    void**, const void*, char*, const char*, unsigned, void*, void*, void*, void*, int*);
}
