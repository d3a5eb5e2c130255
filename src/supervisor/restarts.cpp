#include "supervisor/restarts.h"

#include <algorithm>

namespace flockstep::supervisor {

bool Restarts::is_hopeless(base::Duration ran, const Ending& ending) {
  ran_for_a_while_ = ran_for_a_while_ || ran >= limits_.early;
  same_endings_ = ending == last_ ? same_endings_ + 1 : 1;
  last_ = ending;
  return ending.signal == 0 && !ran_for_a_while_ && same_endings_ >= limits_.same_early_endings;
}

Decision Restarts::ended(base::Time now, const Ending& ending) {
  using enum Decision::What;
  if (ending.is_success()) return {finished};
  const base::Duration ran = now - started_;
  if (is_hopeless(ran, ending)) return {hopeless};
  if (ran >= limits_.forgiven) used_ = 0;
  if (used_ >= limits_.most) return {used_up};
  if (ran >= limits_.steady || next_wait_ <= base::Duration(0)) next_wait_ = limits_.first_wait;
  const base::Duration wait = next_wait_;
  next_wait_ = std::min(2 * next_wait_, limits_.longest_wait);
  ++count_;
  return {again, wait, ++used_};
}

}  // namespace flockstep::supervisor
