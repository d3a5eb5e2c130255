// What stands behind the public Synchronizer: a session, what was announced of a gradient, and mirrors of spans that
// lie in the memory of a device.
#pragma once

#include "flockstep/flockstep.h"
#include "runtime/gradient/ready_buckets.h"
#include "runtime/span_mirror.h"
#include "session/session.h"

namespace flockstep {

struct Synchronizer::Implementation {
  Implementation(runtime::Context& context, std::string_view algorithm, const std::vector<std::size_t>& tensors,
                 const std::map<std::string, std::string>& options, const SynchronizerSettings& settings,
                 const runtime::Devices& devices = {});

  void begin(std::span<const float> model);
  void join(std::span<float> model);
  void ready(std::span<float> gradient, std::size_t begin, std::size_t size);
  void after_backward(std::span<float> gradient, double weight);
  std::span<float> reduce_scatter(std::span<float> gradient, double weight);
  void after_update(std::span<float> model);
  bool drain(std::span<float> gradient);
  void consolidate(std::span<float> model);
  std::vector<std::byte> save() const;
  std::string restore(std::span<const std::byte> state);

  runtime::Context& context;
  // Declared before the session, whose end withdraws what still travels from and to them.
  runtime::SpanMirror gradients, models;
  runtime::Layout layout;
  std::size_t buffers;
  runtime::ReadyBuckets announcements;
  const float* announced = nullptr;  // the gradient that they are about
  session::Session session;

 private:
  void check_gradient(std::span<const float> gradient) const;
  void check_model(std::span<const float> model) const;
  void check_announced(std::span<const float> gradient) const;
  void require_nothing_announced(std::string_view call) const;
  // Algorithms that average models leave gradients as they are, but for one that begins with a rule.
  bool changes_gradients() const;
};

}  // namespace flockstep
