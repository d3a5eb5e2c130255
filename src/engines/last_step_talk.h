// What workers in processes of their own tell each other to agree on a last step. Pure: words in, words out.
//
//   a worker that is asked to end ── request ──► rank 0
//   rank 0 ── ask ──► all, which from now on begin no step ── furthest ──► rank 0 ── last ──► all, which go on up to it
//   all, when they take no further step ── end ──► rank 0, once it has heard all of them ── all ended ──► all
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace flockstep::engines {

struct LastStepWord {
  enum class Kind : std::int64_t { request, ask, furthest, last, end, all_ended } kind{};
  std::int64_t step = 0;  // of `furthest` and `last`
};

// One worker's part.
class LastStepMember {
 public:
  using Kind = LastStepWord::Kind;

  // No step may begin before the last one is known.
  bool is_frozen() const { return is_frozen_; }
  bool all_have_ended() const { return all_have_ended_; }

  // Not while frozen.
  bool may_take(std::int64_t step) {
    if (last_ && step > *last_) return false;
    furthest_ = std::max(furthest_, step);
    return true;
  }

  // What to tell rank 0: this worker was asked to end, it takes no further step. Each once, and no request after an
  // end.
  std::optional<LastStepWord> request() { return once(has_requested_ || has_ended_, has_requested_, Kind::request); }
  std::optional<LastStepWord> end() { return once(has_ended_, has_ended_, Kind::end); }

  // Takes a word of rank 0; returns the answer.
  std::optional<LastStepWord> take(const LastStepWord& word) {
    if (word.kind == Kind::ask) {
      is_frozen_ = true;
      return LastStepWord{Kind::furthest, furthest_};
    }
    if (word.kind == Kind::last) {
      last_ = word.step;
      is_frozen_ = false;
    }
    if (word.kind == Kind::all_ended) all_have_ended_ = true;
    return std::nullopt;
  }

 private:
  static std::optional<LastStepWord> once(bool is_said, bool& says, Kind kind) {
    if (is_said) return std::nullopt;
    says = true;
    return LastStepWord{kind, 0};
  }

  std::int64_t furthest_ = 0;  // step that this worker has begun
  std::optional<std::int64_t> last_;
  bool is_frozen_ = false, has_requested_ = false, has_ended_ = false, all_have_ended_ = false;
};

// What rank 0 does for all workers, itself included.
class LastStepRoot {
 public:
  using Kind = LastStepWord::Kind;

  explicit LastStepRoot(int workers) : of_(static_cast<std::size_t>(workers)) {}

  // True while a word of this worker is still to come.
  bool expects(int worker) const {
    const Heard& heard = of_[static_cast<std::size_t>(worker)];
    return !heard.end || (has_asked_ && !heard.furthest);
  }

  // Takes a word of a worker; returns what to tell all workers.
  std::vector<LastStepWord> take(int worker, const LastStepWord& word) {
    Heard& heard = of_[static_cast<std::size_t>(worker)];
    std::vector<LastStepWord> told;
    if (word.kind == Kind::request && !std::exchange(has_asked_, true)) told.push_back({Kind::ask, 0});
    if (word.kind == Kind::furthest) {
      heard.furthest = word.step;
      if (std::ranges::all_of(of_, [](const Heard& each) { return each.furthest.has_value(); }))
        told.push_back({Kind::last, *std::ranges::max_element(of_, {}, &Heard::furthest)->furthest});
    }
    if (word.kind == Kind::end) heard.end = true;
    for (int each = 0; each < static_cast<int>(of_.size()); ++each)
      if (expects(each)) return told;
    told.push_back({Kind::all_ended, 0});
    return told;
  }

 private:
  struct Heard {
    std::optional<std::int64_t> furthest;
    bool end = false;
  };
  std::vector<Heard> of_;
  bool has_asked_ = false;
};

}  // namespace flockstep::engines
