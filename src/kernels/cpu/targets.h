// Which SIMD targets the kernels are compiled for. Include before any header of Highway.
//
// Left out: vectors of scalable length, which cannot be held in arrays and so not in register tiles, and SSSE3, which
// only processors of before 2008 would choose.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#endif
