// What CUDA C++ has no words for without headers: half precision, and copies that arrive later.
#pragma once
#include "shared.h"

namespace flockstep::kernels::cuda {

__device__ float widen_half(unsigned short bits) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
  return wide;
}
// Two halves of a word.
__device__ void widen_halves(Word bits, float& low, float& high) {
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(low), "=f"(high)
      : "r"(bits));
}
// To nearest even; NaN stays NaN.
__device__ unsigned short narrow_to_half(float x) {
  unsigned short narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow) : "f"(x));
  return narrow;
}

// 16 bytes to shared memory: `bytes` of them, then zeros.
__device__ void copy_ahead(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<Word>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(bytes)
               : "memory");
}
__device__ void end_of_stage() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the latest `stages` - 2 stages of this thread have arrived.
__device__ void wait_for_stage(int stages) {
  if (stages == 6)
    asm volatile("cp.async.wait_group 4;" ::: "memory");
  else
    asm volatile("cp.async.wait_group 1;" ::: "memory");
}

}  // namespace flockstep::kernels::cuda
