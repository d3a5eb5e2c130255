// Stands between rounds and the data of a worker: passes every call on, and writes it into the ledger.
#pragma once

#include <cstdio>

#include "runtime/rounds/round_agent.h"
#include "simulation/ledger.h"

namespace flockstep::simulation {

class PassedOn : public runtime::RoundData {
 public:
  explicit PassedOn(runtime::RoundData& data) : data_(data) {}
  PassedOn(const PassedOn&) = delete;
  PassedOn& operator=(const PassedOn&) = delete;

  math::UpdateGuard* guard() override { return data_.guard(); }
  void arrive(std::span<float> values) override { data_.arrive(values); }
  void merge(std::span<float> values, protocol::Outcome outcome) override { data_.merge(values, outcome); }
  void proceed(std::span<float> values) override { data_.proceed(values); }
  void hand_over(std::span<float> values) override { data_.hand_over(values); }
  std::function<bool()> on_the_way() override { return data_.on_the_way(); }
  void land() override { data_.land(); }
  void prepare() override { data_.prepare(); }
  void rest(std::span<float> values) override { data_.rest(values); }
  void freeze(std::size_t size, bool is_fresh) override { data_.freeze(size, is_fresh); }
  void ready(runtime::Range range) override { data_.ready(range); }
  std::span<const float> contribution(runtime::Range part) const override { return data_.contribution(part); }
  std::span<float> landing(runtime::Range part, std::span<float> spare) override { return data_.landing(part, spare); }
  void settle(runtime::Range part, std::span<const float> average) override { data_.settle(part, average); }
  void complete(int members) override { data_.complete(members); }
  void abandon() override { data_.abandon(); }
  void give(std::span<float> values) override { data_.give(values); }
  std::span<float> place_for_model(std::span<float> values) override { return data_.place_for_model(values); }
  void rejoin(std::span<float> values, bool is_adopted) override { data_.rejoin(values, is_adopted); }

 protected:
  runtime::RoundData& data_;
};

class WatchedData final : public PassedOn {
 public:
  // `model` is the worker's, wherever it is. Tells `history` what happens, if there is one, at times that `now` tells.
  WatchedData(runtime::RoundData& data, std::span<float> model, Ledger& ledger, runtime::Context& context,
              std::FILE* history)
      : PassedOn(data), model_(model), ledger_(ledger), context_(context), history_(history) {}

  // There is none before it has begun; rounds may run before.
  void watch(const runtime::RoundAgent& agent) { agent_ = &agent; }

  void arrive(std::span<float> values) override;
  void merge(std::span<float> values, protocol::Outcome outcome) override;
  void proceed(std::span<float> values) override;
  void hand_over(std::span<float> values) override;
  void land() override;
  void freeze(std::size_t size, bool is_fresh) override;
  void settle(runtime::Range part, std::span<const float> average) override;
  void complete(int members) override;
  void give(std::span<float> values) override;
  void rejoin(std::span<float> values, bool is_adopted) override;

 private:
  template <typename Call>
  void set_out_in(Call call);
  template <typename Call>
  void judge_in(Call call);  // the worker's guard judges its update in this call
  void land_if_here();
  template <typename... Words>
  void tell(const char* format, const Words&... words) const;

  const std::span<float> model_;
  Ledger& ledger_;
  runtime::Context& context_;
  std::FILE* history_;
  const runtime::RoundAgent* agent_ = nullptr;
};

}  // namespace flockstep::simulation
