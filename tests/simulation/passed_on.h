// Stands between rounds and the data of a worker, and passes every call on.
#pragma once

#include "runtime/rounds/round_data.h"

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

}  // namespace flockstep::simulation
