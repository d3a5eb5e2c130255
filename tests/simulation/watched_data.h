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

  void arrive(std::span<float> values) override { data_.arrive(values); }
  void merge(std::span<float> values, protocol::Outcome outcome) override { data_.merge(values, outcome); }
  void proceed(std::span<float> values) override { data_.proceed(values); }
  void freeze(std::size_t size, bool is_fresh) override { data_.freeze(size, is_fresh); }
  void ready(runtime::Range range) override { data_.ready(range); }
  std::span<const float> contribution(runtime::Range part) const override { return data_.contribution(part); }
  std::span<float> landing(runtime::Range part, std::span<float> spare) override { return data_.landing(part, spare); }
  void settle(runtime::Range part, std::span<const float> average) override { data_.settle(part, average); }
  void complete(int members) override { data_.complete(members); }
  void give(std::span<float> values) const override { data_.give(values); }
  void rejoin(std::span<float> values, bool is_adopted) override { data_.rejoin(values, is_adopted); }

 protected:
  runtime::RoundData& data_;
};

class WatchedData final : public PassedOn {
 public:
  // Tells `history` what happens, if there is one, at times that `now` tells.
  WatchedData(runtime::RoundData& data, Ledger& ledger, runtime::Context& context, std::FILE* history)
      : PassedOn(data), ledger_(ledger), context_(context), history_(history) {}

  // There is none before it has begun; rounds may run before.
  void watch(const runtime::RoundAgent& agent) { agent_ = &agent; }

  void arrive(std::span<float> values) override;
  void merge(std::span<float> values, protocol::Outcome outcome) override;
  void proceed(std::span<float> values) override;
  void freeze(std::size_t size, bool is_fresh) override;
  void settle(runtime::Range part, std::span<const float> average) override;
  void complete(int members) override;
  void give(std::span<float> values) const override;
  void rejoin(std::span<float> values, bool is_adopted) override;

 private:
  template <typename... Words>
  void tell(const char* format, const Words&... words) const;

  Ledger& ledger_;
  runtime::Context& context_;
  std::FILE* history_;
  const runtime::RoundAgent* agent_ = nullptr;
};

}  // namespace flockstep::simulation
