// Sweeps that mix two or three models, number by number: what averaging models needs beside sums.
//
// Plain loops that the compiler turns into vectors: every operation is rounded on its own, so the bits do not depend on
// the processor. Spans of one call have equal sizes and do not overlap.
#pragma once

#include <span>

namespace flockstep::kernels::cpu {

// x /= divisor.
void divide(std::span<float> x, float divisor);

// model = (members mean + model) / (members + 1): a model joins an average that was taken without it.
void join(std::span<float> model, std::span<const float> mean, int members);
// The same; and the model as it was takes the place of the average.
void join_and_swap(std::span<float> model, std::span<float> mean, int members);

// x += y, y = 0.
void move_to(std::span<float> x, std::span<float> y);

}  // namespace flockstep::kernels::cpu
