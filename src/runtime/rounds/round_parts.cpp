#include "runtime/rounds/round_parts.h"

#include <algorithm>
#include <bit>

#include "protocol/ranks.h"

namespace flockstep::runtime {
namespace {

using protocol::Phase;

std::size_t slots_of(const protocol::Options& options) {
  return static_cast<std::size_t>(std::min(options.window, options.chunks));
}

// Enough for a group of any size.
std::size_t spare_of_a_chunk(const protocol::Options& options, std::size_t size) {
  const std::size_t chunk = base::Partition(size, static_cast<std::size_t>(options.chunks)).size(0);
  std::size_t most = 0;
  const int workers = options.elastic ? protocol::kMostRanks : options.workers;
  for (int members = 1; members <= workers; ++members)
    most = std::max(most, RoundCut::spare_floats(protocol::Grid(members, options.direct), chunk));
  return most;
}

}  // namespace

RoundParts::RoundParts(Context& context, const protocol::Options& options, std::size_t size, RoundData& data)
    : context_(context),
      options_(options),
      data_(data),
      spare_(context.engine().memory().allocate<float>(slots_of(options) * spare_of_a_chunk(options, size), kStaging)) {
}

void RoundParts::begin(const protocol::Ranks& members, std::size_t size) {
  members_ = members;
  cut_ = RoundCut(protocol::Grid(static_cast<int>(members.size()), options_.direct),
                  protocol::index_of(members_, context_.rank()), size, options_.chunks);
  begun_ = 0;
}

// Chunks begin in order.
std::span<const float> RoundParts::contribution(int chunk, Range range) {
  for (; begun_ <= chunk; ++begun_) data_.ready(cut_.chunk(begun_));
  return data_.contribution(range);
}

std::span<float> RoundParts::spare(int chunk, Range place) const {
  const std::size_t slot = static_cast<std::size_t>(chunk % options_.window), size = spare_.size() / slots_of(options_);
  return place.of(spare_.span().subspan(slot * size, size));
}

std::span<float> RoundParts::own_average(int chunk, Range range) {
  return data_.landing(range, spare(chunk, cut_.own_average(chunk, range)));
}

std::span<float> RoundParts::average_by(int chunk, int neighbour) {
  const Range theirs = cut_.theirs(chunk, neighbour);
  if (!cut_.is_in_row(neighbour)) return own_average(chunk, theirs);
  return data_.landing(theirs, spare(chunk, cut_.row_average(chunk, neighbour)));
}

std::span<const float> RoundParts::to_send(int peer, const protocol::Part& part) {
  const int to = protocol::index_of(members_, peer);
  if (part.phase == Phase::gather) return own_average(part.chunk, cut_.ours(part.chunk, to));
  const Range theirs = cut_.theirs(part.chunk, to);
  if (cut_.is_in_row(to)) return contribution(part.chunk, theirs);
  return spare(part.chunk, cut_.row_sum(part.chunk, theirs));
}

std::span<float> RoundParts::to_receive(int peer, const protocol::Part& part) {
  const int from = protocol::index_of(members_, peer);
  if (part.phase == Phase::gather) return average_by(part.chunk, from);
  return spare(part.chunk, cut_.arrival(part.chunk, from));
}

// In rank order, one's own among them.
std::vector<const void*> RoundParts::row_contributions(int chunk) {
  const int begin = cut_.grid().row_begin(cut_.row()), end = begin + cut_.grid().row_size(cut_.row());
  std::vector<const void*> rows;
  for (int member = begin; member < end; ++member)
    rows.push_back(member == cut_.own() ? contribution(chunk, cut_.own_column(chunk)).data()
                                        : spare(chunk, cut_.arrival(chunk, member)).data());
  return rows;
}

// For one's own piece.
std::vector<const void*> RoundParts::row_sums(int chunk) const {
  std::vector<const void*> sums;
  for (int row = 0; row < cut_.grid().rows(); ++row) {
    const int holder = cut_.grid().holder(row, cut_.grid().place_in_row(cut_.own()));
    const Range place = holder == cut_.own() ? cut_.row_sum(chunk, cut_.own_piece(chunk)) : cut_.arrival(chunk, holder);
    sums.push_back(spare(chunk, place).data());
  }
  return sums;
}

// Rounded to float once, before it is summed over the rows.
void RoundParts::add_row(int chunk) {
  const std::vector<const void*> rows = row_contributions(chunk);
  const Range own = cut_.own_column(chunk);
  context_.queue().weighted_sum({rows, own.size}, std::vector<double>(rows.size(), 1).data(),
                                spare(chunk, cut_.row_sum(chunk, own)));
}

// In rank order, and rounded once before the division: all members get these same bits. Where 1/m is exact, multiplying
// by it is dividing.
void RoundParts::average(int chunk) {
  const Range own = cut_.own_piece(chunk);
  const std::vector<const void*> rows = cut_.grid().rows() == 1 ? row_contributions(chunk) : row_sums(chunk);
  const bool is_exact = std::has_single_bit(members_.size());
  const auto members = static_cast<float>(members_.size());
  const std::span<float> average = own_average(chunk, own);
  context_.charge_together([&](kernels::Queue& queue) {
    queue.weighted_sum({rows, own.size}, std::vector<double>(rows.size(), is_exact ? 1 / members : 1).data(), average);
    queue.divide(average, is_exact ? 1 : members);
  });
  data_.settle(own, average);
}

void RoundParts::place(int peer, int chunk) {
  const int by = protocol::index_of(members_, peer);
  data_.settle(cut_.theirs(chunk, by), average_by(chunk, by));
}

}  // namespace flockstep::runtime
