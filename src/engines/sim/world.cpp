#include "engines/sim/world.h"

#include <fmt/core.h>

#include <set>

namespace flockstep::engines::sim {
namespace {

// What a message carries besides its payload: addresses, tag and length.
constexpr double kHeaderBytes = 64;

std::string reason_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

}  // namespace

SimWorld::SimWorld(int workers, const SimOptions& options)
    : options_(options), simulator_(workers, options), bells_(static_cast<std::size_t>(workers)) {
  if (options_.memory_gbytes_s == 0) options_.memory_gbytes_s = simulator_.memory_gbytes_s();
  for (int i = 0; i < 2 * workers; ++i) ring_.push_back(i % workers);
  for (int rank = 0; rank < workers; ++rank) nodes_.push_back(simulator_.node_of(rank));
  if (std::set(nodes_.begin(), nodes_.end()).size() == nodes_.size()) nodes_.clear();
}

std::span<const int> SimWorld::peers(int rank) const {
  return std::span(ring_).subspan(static_cast<std::size_t>(rank) + 1, static_cast<std::size_t>(size()) - 1);
}

double SimWorld::simulated_bytes(double bytes, double count) const { return bytes + count * kHeaderBytes; }

double SimWorld::simulated_control_bytes(std::size_t bytes) const { return static_cast<double>(bytes) + kHeaderBytes; }

std::shared_ptr<Collective> SimWorld::collective(std::uint64_t sequence) {
  while (!collectives_.empty() && collectives_.front()->joined_by_all()) {
    collectives_.pop_front();
    ++first_collective_;
  }
  while (first_collective_ + collectives_.size() <= sequence)
    collectives_.push_back(std::make_shared<Collective>(*this, first_collective_ + collectives_.size()));
  return collectives_[sequence - first_collective_];
}

void SimWorld::fail(const Error& error, int rank) {
  if (is_broken()) return;
  error_ = error;
  culprit_ = rank;
  Simulator::at_once([this] {
    for (auto& bell : bells_) bell.ring();
  });
}

void SimWorld::throw_error() {
  error_seen_ = true;
  throw Error(*error_);
}

void SimWorld::worker_threw(int rank) {
  const auto exception = std::current_exception();
  if (!thrown_first_) thrown_first_ = exception;
  fail(Error(ErrorCode::peer_lost, fmt::format("worker {} stopped: {}", rank, reason_of(exception)), "sim"), rank);
  if (culprit_ == rank && !thrown_by_culprit_) thrown_by_culprit_ = exception;
}

std::exception_ptr SimWorld::outcome() const {
  if (thrown_by_culprit_) return thrown_by_culprit_;
  if (thrown_first_) return thrown_first_;
  if (is_broken() && !error_seen_) return std::make_exception_ptr(*error_);
  return nullptr;
}

}  // namespace flockstep::engines::sim
