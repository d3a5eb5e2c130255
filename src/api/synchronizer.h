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
  // A call in which collectives are this Synchronizer's.
  class Issuing {
   public:
    explicit Issuing(const Implementation& here) : engine_(here.context.engine()) { engine_.issue_for(here.number_); }
    ~Issuing() { engine_.issue_for(0); }
    Issuing(const Issuing&) = delete;
    Issuing& operator=(const Issuing&) = delete;

   private:
    engines::Engine& engine_;
  };

  void check_gradient(std::span<const float> gradient) const;
  void check_model(std::span<const float> model) const;
  void check_announced(std::span<const float> gradient) const;
  void require_nothing_announced(std::string_view call) const;
  // Algorithms that average models leave gradients as they are, but for one that begins with a rule.
  bool changes_gradients() const;

  const std::uint32_t number_;  // of those that this worker has made
};

}  // namespace flockstep
