// Mixing with few workers, where everybody has neighbours of its own: shares of one's span go to some, the rest stays,
// and shares of others' come in. What is sent is not kept, so the sum over all workers stays what it was.
//
// Bucket by bucket: one is added up, in place, while the next is on its way, so what is received needs room for two
// buckets per neighbour and not for models.
#pragma once

#include <string>
#include <vector>

#include "base/archive.h"
#include "math/update_guard.h"
#include "runtime/context.h"
#include "runtime/layout.h"

namespace flockstep::runtime {

class Neighbours {
 public:
  // Nobody receives from more than `most` others at a time. `purpose` names the buffers in memory counts.
  // Whoever guards the worker's updates hears of everybody's: neighbours pass on what they have heard.
  Neighbours(Context& context, const Layout& layout, std::size_t most, const std::string& purpose,
             math::UpdateGuard* guard = nullptr);

  // whole = (1 - share * |to|) whole + share * (those of `from`, in this order). Everybody gives the same share. Blocks
  // until one's own has reached `to`, who must expect it.
  void mix(std::span<float> whole, const std::vector<int>& to, const std::vector<int>& from, float share);
  // What was heard of others' updates, for a training that is resumed.
  void save(base::Archive& archive) const;
  void restore(const base::Archive& archive);
  // `whole` goes to some, as it is, or comes from one, as that one's is; -1 for from nobody.
  void copy(std::span<float> whole, const std::vector<int>& to, int from);

 private:
  struct UnderWay {
    base::Time issued;
    engines::Pending transfers;
  };
  UnderWay start(std::size_t bucket, std::span<float> whole, const std::vector<int>& to, const std::vector<int>& from);
  template <typename End>
  void exchange(std::span<float> whole, const std::vector<int>& to, const std::vector<int>& from, const End& end);
  void hear(const std::vector<int>& from);
  void add(std::size_t bucket, std::span<float> whole, std::span<const double> coefficients);  // one's own first
  std::span<float> received(std::size_t bucket, std::size_t neighbour) const;

  Context& context_;
  const Layout& layout_;
  std::size_t most_;
  math::UpdateGuard* guard_;
  struct News {
    math::UpdateNews of;
    float step = 0;  // of whose update it is, as that worker counts
  };
  std::vector<News> known_;               // by rank
  std::vector<News> told_;                // the same while it is on its way
  std::vector<std::vector<News>> heard_;  // by neighbour
  base::Buffer<float> received_;
};

}  // namespace flockstep::runtime
