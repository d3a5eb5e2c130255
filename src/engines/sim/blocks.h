// The blocks of one collective operation of one worker, one per peer, kept short: they nearly always lie at regular
// distances (the parts of a vector, or the same bytes for everybody), so what is kept is runs of equal steps. With
// 4,096 workers in one process, whole lists would be half a gigabyte per operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flockstep::engines::sim {

template <typename Byte>  // std::byte or const std::byte
class Blocks {
 public:
  using Block = std::span<Byte>;

  Blocks() = default;
  explicit Blocks(std::span<const Block> blocks) {
    for (const auto& block : blocks) add(block);
  }

  void add(Block block) {
    const auto data = block.empty() ? 0 : reinterpret_cast<std::uintptr_t>(block.data());
    if (!runs_.empty() && runs_.back().size == block.size()) {
      auto& last = runs_.back();
      const auto step = data - (last.data + (last.count - 1) * last.step);
      if (last.count == 1 || step == last.step) {
        if (last.count == 1) last.step = step;
        ++last.count;
        ++count_;
        return;
      }
    }
    runs_.push_back({count_, 1, data, 0, block.size()});
    ++count_;
  }
  void add(Block block, std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) add(block);
  }

  Block operator[](std::size_t index) const {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), index,
                                        [](std::size_t value, const Run& run) { return value < run.first; });
    const auto& run = *(after - 1);
    return {reinterpret_cast<Byte*>(run.data + (index - run.first) * run.step), run.size};
  }
  std::size_t count() const { return count_; }

 private:
  struct Run {
    std::size_t first, count;
    std::uintptr_t data, step;  // modulo 2^64, so a step may go backwards
    std::size_t size;
  };
  std::vector<Run> runs_;
  std::size_t count_ = 0;
};

Blocks(std::span<const std::span<const std::byte>>)->Blocks<const std::byte>;
Blocks(std::span<const std::span<std::byte>>)->Blocks<std::byte>;

}  // namespace flockstep::engines::sim
