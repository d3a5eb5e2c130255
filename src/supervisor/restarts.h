// When a worker that has ended is started again, and when it is given up. Time is an argument, so that a test is a
// table.
#pragma once

#include "base/time.h"

namespace flockstep::supervisor {

// How a process ended.
struct Ending {
  int status = 0;  // its exit status
  int signal = 0;  // the one that killed it, or 0
  bool is_success() const { return status == 0 && signal == 0; }
  int exit_status() const { return signal == 0 ? status : 128 + signal; }  // as shells count
  bool operator==(const Ending&) const = default;
};

struct RestartLimits {
  int most = 10;                                    // restarts of one rank, counted from its last steady hour on
  base::Duration forgiven = std::chrono::hours(1);  // one that ran so long has all its restarts again
  base::Duration first_wait = std::chrono::milliseconds(100), longest_wait = std::chrono::seconds(10);
  base::Duration steady = std::chrono::seconds(30);  // one that ran so long waits as if it were the first time
  // A rank that has never run for so long, and has ended with the same status so many times in a row, will not do
  // better: its input is bad. Signals do not count, since they come from outside.
  base::Duration early = std::chrono::seconds(5);
  int same_early_endings = 3;
};

struct Decision {
  enum class What { finished, again, used_up, hopeless, too_late };  // too late: others have finished
  What what;
  base::Duration wait{0};  // again: until then
  int restart = 0;         // again: which one of `most` this is, from 1 on
};

// The starts and endings of one rank.
class Restarts {
 public:
  explicit Restarts(const RestartLimits& limits) : limits_(limits) {}

  void started(base::Time now) { started_ = now; }
  Decision ended(base::Time now, const Ending& ending);
  int count() const { return count_; }  // in the whole run

 private:
  bool is_hopeless(base::Duration ran, const Ending& ending);

  RestartLimits limits_;
  base::Time started_{};
  base::Duration next_wait_{0};  // 0: the first one
  int count_ = 0, used_ = 0;     // used: of those that are allowed
  bool ran_for_a_while_ = false;
  Ending last_;
  int same_endings_ = 0;  // in a row, up to the last one
};

}  // namespace flockstep::supervisor
