// The published merge: models are published whole, and a worker mixes the newest average with its own model when it
// arrives.
//
//   fresh          the average, for the worker's own model is in it
//   stale          (m average + own) / (m + 1)
//   alone          its own
//   synchronised   the average, which is what is published from then on
//
// Three buffers take turns: what is published, where the next average lands, and the newest average that is not merged
// yet. A round reads what is published; a worker that arrives meanwhile publishes into the third, whose average it
// merges at the same time. A fresh round publishes as it goes and lands in the worker's own model: each number is read
// from memory once and written twice.
//
// Where updates are guarded (math/update_guard.h), the model that a worker goes on from lies in the place that nothing
// else needs, until it arrives again. A worker that two rounds have overtaken meanwhile has none left: its update is
// then measured from what it has published last.
#pragma once

#include <array>

#include "runtime/context.h"
#include "runtime/guarded.h"
#include "runtime/rounds/round_data.h"

namespace flockstep::runtime {

class PublishedModel : public RoundData {
 public:
  PublishedModel(Context& context, std::size_t size, const Guarded& guarded = {});

  // No round is under way: publishes a model, and forgets what was averaged.
  void reset(std::span<const float> model);

  math::UpdateGuard* guard() override { return guarded_.guard; }
  void guard_with(const Guarded& guarded) { guarded_ = guarded; }  // updates from now on
  void arrive(std::span<float> model) override;
  void merge(std::span<float> model, protocol::Outcome outcome) override;
  void proceed(std::span<float> model) override;

  void freeze(std::size_t size, bool is_fresh) override;
  void ready(Range range) override;
  std::span<const float> contribution(Range part) const override { return part.of(std::span<const float>(*reading_)); }
  std::span<float> landing(Range part, std::span<float>) override { return part.of(landing_); }
  void settle(Range, std::span<const float>) override {}
  void complete(int members) override;
  void abandon() override;

  void give(std::span<float> values) override;
  std::span<float> place_for_model(std::span<float> values) override;
  void rejoin(std::span<float> values, bool is_adopted) override;

 private:
  using Place = std::span<float>;

  Place& third();
  void publish();
  void choose_landing();
  void join_and_publish(std::span<float> model);

  Context& context_;
  Guarded guarded_;
  base::Buffer<float> buffer_;
  std::array<Place, 3> places_;
  Place* published_ = nullptr;
  Place* reading_ = nullptr;   // the round's contribution while one is under way: published_, or what was before
  Place* writing_ = nullptr;   // where averages land while a round is under way that is not fresh
  Place landing_;              // the same, or the worker's own model
  Place* average_ = nullptr;   // the newest one that is complete, unless its place was needed
  Place* snapshot_ = nullptr;  // what the worker went on from, unless that is published or its place was needed
  Place adopted_;              // where another one's model is received to
  std::size_t landing_size_ = 0, average_size_ = 0;
  int members_ = 0;          // of average_
  bool is_fresh_ = false;    // the newest round that began
  bool has_merged_ = false;  // the worker, when it was here last: its model is not what it has published
  std::size_t copied_ = 0;   // of it, from the first number on, into what is published
  // The worker's model from its arrival to its merge: published when a round asks for it, at the latest when merged.
  std::span<float> arriving_;
};

}  // namespace flockstep::runtime
