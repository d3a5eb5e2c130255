// A property that every run must have. A checker sees all that happens, with the truth beside it, and changes nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/network.h"
#include "simulation/truth.h"
#include "simulation/violation.h"

namespace flockstep::simulation {

class Checker {
 public:
  Checker(const Truth& truth, std::string_view property) : truth_(truth), property_(property) {}
  virtual ~Checker() = default;
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  std::string_view property() const { return property_; }
  // Most happenings are about parts, and most checkers are not.
  virtual bool watches_parts() const { return false; }

  // The member is about to be told; the worker has done its part.
  virtual void before(int, const protocol::Event&) {}
  // The action is done.
  virtual void after(int, const protocol::Action&) {}
  // All actions of one event are done, and not all were about parts.
  virtual void settled(int) {}
  virtual void crashed(int) {}
  // Nothing is left to happen.
  virtual void ended(const Network&) {}

 protected:
  [[noreturn]] void fail(int rank, Iteration round, const std::string& detail) const {
    throw Violation(property_, rank, round, detail);
  }
  std::size_t place_of(Iteration round) const { return static_cast<std::size_t>(round - truth_.options().first); }

  const Truth& truth_;

 private:
  std::string_view property_;
};

using Checkers = std::vector<std::unique_ptr<Checker>>;
void add_round_checkers(Checkers& checkers, const Truth& truth);
void add_part_checkers(Checkers& checkers, const Truth& truth);
void add_waiting_checkers(Checkers& checkers, const Truth& truth);

}  // namespace flockstep::simulation
