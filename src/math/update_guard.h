// Guarded averaging: no worker moves a model further per step than about twice as far as the others do, and numbers
// that are not finite move nothing.
//
//   u = W - s                what a worker has done to its model since s, right after the last merge
//   f = min(1, 2 r / |u|)    with |u| per step; r is the lower median of the norms that were last heard from others.
//                            What is mostly noise grows with the root of the steps only: so the norm of an update of
//                            more steps than this worker's counts times the root of their ratio
//   W = s + f u              is what the worker averages; s where u is not finite
//
// An update of twice the others' length that points against theirs still undoes two of them, step after step. So f = 0
// where an update is too long and the worker's updates have pointed against a direction that the others have in common:
// b > 0.03 and a < -b / 2, where b is the mean cosine among the updates that were last heard, a that of one's own with
// them, both smoothed with 0.9. Workers whose data differ make long updates too, and against each other; but then these
// others have little in common. Cosines are those of short sketches.
//
// With weights a worker's update also counts by its share c among n: its own, and the newest update that it has heard
// from each of n - 1 others. Such an update, too, is cut where n c |u| is longer than 2 r.
//
//   W = s + n c f u
//   direction_consensus   c_i = max(m_i, 0) / sum_j max(m_j, 0): m is a worker's mean cosine with all n, its own
//                         included, smoothed with 0.9, which it tells with its update
//   geometric_median      c from Weiszfeld's steps on the directions of the n updates (math/geometric_median.h)
//
// Where all have heard the same, the shares of all sum to one.
//
// Every worker cuts its own update, before anything of it is sent: so the guard works in groups, in pairs and where
// nobody waits, and a few numbers of others are all it needs. It protects against workers that are broken, not against
// workers that lie.
//
// Every worker also counts what is wrong with its own updates, and tells these counts with its news. So every worker
// can name a broken one. Two faults are invisible to the guard and are only counted:
//   idle    an update below a hundredth of the reference, while others move
//   astray  B >= l and A <= -B/2, or B >= 2.5 l and A <= B/4, in every block of 16 updates on end. A and B are means
//           of a and b over the block, without smoothing and with one update of each of m others.
// l = max(0.1, 2 s) with s = 1 / (8 sqrt(m (m - 1) / 2)), the error of B that sketches of 64 numbers make. Updates of
// neighbouring steps are alike, and so are the errors of their cosines: hence blocks, and kAstray updates before a
// worker is named. Workers with like data have A = B. Workers with other data than the rest may stay below B/4.
//
// Pure. Not safe to share between threads, but for what is handed over.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace flockstep::math {

// What a guard has counted so far. Floats, as they are sent.
struct UpdateCounts {
  float updates = 0, non_finite = 0;
  float clipped = 0, against = 0;  // the latter of the former: those left out
  float excess = 0;                // norms of those clipped, each over its reference, added up
  float idle = 0;                  // on end, the most so far
  float astray = 0, cosine = 0;    // on end, the most so far; mean cosine with the others' in those
};

// What workers tell each other of an update.
struct UpdateNews {
  static constexpr std::size_t kSketch = 64;

  float norm = 0;                       // per step; 0: there was no update, or it was not finite
  float steps = 1;                      // that went into it
  float agreement = 0;                  // m, with direction_consensus; 0: not known yet
  std::array<float, kSketch> sketch{};  // of the update, or of a part of it, the same part on all workers
  UpdateCounts counts = {};             // with this update, once it is judged
};

using UpdateNumbers = std::array<float, sizeof(UpdateNews) / sizeof(float)>;  // the same, to be kept or sent

enum class UpdateWeights { mean, direction_consensus, geometric_median };

// Whether two workers, from the same model, have made the same update.
bool are_alike(const UpdateNews& x, const UpdateNews& y);

class UpdateGuard {
 public:
  static constexpr double kRatio = 2, kCommon = 0.03, kAgainst = -0.5, kSmoothing = 0.9;
  static constexpr std::size_t kHeard = 8;  // updates that are remembered, where no more are heard at a time
  static constexpr double kIdle = 0.01, kLevel = 0.1;
  static constexpr float kBlock = 16;  // updates

  struct Update {
    double squared_norm = 0;  // not finite where a number is not
    std::array<float, UpdateNews::kSketch> sketch{};
  };
  explicit UpdateGuard(std::size_t remembered = kHeard, UpdateWeights weights = UpdateWeights::mean)
      : remembered_(remembered), weights_(weights) {}

  // Another step has gone into the update.
  void count_step() { ++steps_; }
  bool has_steps() const { return steps_ > 0; }
  // Of the last update that the peer has judged. The same may be heard any number of times, and counts once.
  void hear(int peer, const UpdateNews& news);
  // The peer's updates are compared with no more. What it has counted stays known.
  void forget(int peer);
  const UpdateNews& news() const { return news_; }

  UpdateNews news_of(const Update& update) const;
  // What an update is multiplied by: f, or n c f, and 0 where it is not finite. The next one begins.
  double judge(const Update& update);
  // f before the update ends: nothing is counted.
  double factor_of(double squared_norm) const;
  // What the norm of the update under way is measured by; 0 where none was heard.
  double reference() const;
  // The squared norm up to which that is not cut; infinite where nothing was heard.
  double longest_squared() const;
  bool is_against() const { return in_common_ > kCommon && agreement_ < kAgainst * in_common_; }

  const UpdateCounts& counts() const { return news_.counts; }
  // By peer, as told last.
  const std::map<int, UpdateCounts>& counts_of_others() const { return counts_of_others_; }

  // What a resumed training needs to judge as an uninterrupted one does.
  std::vector<double> state() const;
  // False, and nothing is taken, where this is no state of a guard.
  bool set_state(std::span<const double> state);

 private:
  double steps() const { return static_cast<double>(std::max<std::int64_t>(1, steps_)); }
  double norm_of(double squared_norm) const;
  void compare();
  void look_for_idleness(double norm);
  void look_astray();
  std::vector<UpdateNews> newest_of_each() const;
  double weight_by_agreement(const std::vector<UpdateNews>& others);
  double weight_by_median(const std::vector<UpdateNews>& others) const;
  double weigh();

  struct Heard {
    int peer;
    UpdateNews news;
  };
  std::size_t remembered_;
  UpdateWeights weights_;
  struct Block {  // of updates, as far as it has come
    float updates = 0;
    double own = 0, others = 0, least = 0;  // sums of a, b and l
  };
  std::map<int, float> last_;  // norms, by peer
  std::map<int, UpdateCounts> counts_of_others_;
  std::deque<Heard> heard_;  // newest last
  std::int64_t steps_ = 0;
  UpdateNews news_;
  double agreement_ = 0, in_common_ = 0;  // a and b
  std::optional<double> consensus_;       // m
  bool others_move_ = false;              // since the last update
  float idle_ = 0;                        // updates on end
  Block block_;
  float astray_ = 0;           // updates in blocks on end
  double astray_cosines_ = 0;  // their sum
};

}  // namespace flockstep::math
