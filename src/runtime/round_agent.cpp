#include "runtime/round_agent.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/merge.h"
#include "runtime/gather.h"

namespace flockstep::runtime {
namespace {

using protocol::Phase;

constexpr std::size_t kChunkFloats = std::size_t{1} << 19;  // 2 MiB
constexpr int kWindow = 2;

// Parts of the few rounds and chunks that two workers can have under way differ in these bits.
engines::Tag tag_of(const protocol::Part& part) {
  return static_cast<engines::Tag>((part.round % 16) << 14 | (part.phase == Phase::gather ? 1 << 13 : 0) |
                                   part.chunk % (1 << 13));
}

protocol::Options with_chunks(protocol::Options options, std::size_t size) {
  options.chunks = RoundAgent::chunks_of(size);
  options.window = kWindow;
  return options;
}

}  // namespace

int RoundAgent::chunks_of(std::size_t size) {
  return static_cast<int>(std::max<std::size_t>(1, (size + kChunkFloats - 1) / kChunkFloats));
}

RoundAgent::RoundAgent(Context& context, protocol::Options options, std::size_t grouped, std::size_t size,
                       RoundData& data)
    : context_(context),
      grouped_(grouped),
      size_(size),
      data_(data),
      options_(with_chunks(options, size)),
      member_(options_, context.rank()),
      spare_(context.engine().memory().allocate<float>(
          static_cast<std::size_t>(std::min(options_.window, options_.chunks)) *
              (base::Parts(size, static_cast<std::size_t>(options_.chunks)).size(0) +
               static_cast<std::size_t>(options_.workers)),
          kStaging)),
      flight_{.record = {.round = options.first - 1}},
      ended_(options.first),
      host_(context, "rounds", *this) {}

// ---- the worker's side ----

protocol::Outcome RoundAgent::arrive(protocol::Iteration iteration, std::span<float> values) {
  base::check(values.size() == size_, "the size that was announced");
  ended_ = iteration + 1;
  host_.ask(
      [&] {
        values_ = values;
        data_.arrive(values);
        step(protocol::Arrived{iteration});
      },
      "round");
  return outcome_;
}

void RoundAgent::require_same_iterations() {
  const auto mine = static_cast<double>(ended_);
  const std::vector<double> all = gather_doubles(context_, {&mine, 1});
  const auto other = std::ranges::find_if(all, [&](double theirs) { return theirs != all[0]; });
  if (other == all.end()) return;
  throw Error(ErrorCode::mismatch,
              fmt::format("worker {} has done {:.0f} steps where worker 0 has done {:.0f}: all workers must do as many "
                          "before they come to rest",
                          other - all.begin(), *other, all[0]),
              std::string(context_.engine().name()));
}

void RoundAgent::at_rest(const std::function<void()>& action) {
  require_same_iterations();
  host_.ask(
      [&] {
        base::check(member_.idle(), "no round under way");
        action();
        host_.answer();
      },
      "rest");
}

// ---- the agent's ----

void RoundAgent::on_control(int peer, std::span<const std::byte> payload) {
  step(protocol::Received{peer, protocol::message_from_bytes(payload)});
}

void RoundAgent::step(const protocol::Event& event) {
  for (const protocol::Action& action : member_.step(host_.now(), event))
    std::visit([this](const auto& what) { perform(what); }, action);
}

void RoundAgent::perform(const protocol::Send& action) {
  host_.send_control(action.peer, protocol::to_bytes(action.message));
}

std::size_t RoundAgent::member_index(int rank) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(flight_.members, rank) - flight_.members.begin());
}

Range RoundAgent::chunk_of(int chunk) const {
  const base::Parts chunks(flight_.size, static_cast<std::size_t>(options_.chunks));
  const auto number = static_cast<std::size_t>(chunk);
  return {chunks.begin(number), chunks.size(number)};
}

Range RoundAgent::part_of(int chunk, std::size_t member) const {
  const Range whole = chunk_of(chunk);
  const base::Parts parts(whole.size, flight_.members.size());
  return {whole.begin + parts.begin(member), parts.size(member)};
}

// Chunks begin in order.
std::span<const float> RoundAgent::contribution(int chunk, std::size_t member) {
  for (; flight_.begun <= chunk; ++flight_.begun) data_.ready(chunk_of(flight_.begun));
  return data_.contribution(part_of(chunk, member));
}

// Parts of one chunk differ in size by one at most, so that each fits where another one's does.
std::span<float> RoundAgent::spare(int chunk, std::size_t member, std::size_t size) const {
  const std::size_t slot = static_cast<std::size_t>(chunk % options_.window), largest = part_of(chunk, 0).size,
                    slots = static_cast<std::size_t>(std::min(options_.window, options_.chunks));
  return spare_.span().subspan(slot * (spare_.size() / slots) + member * largest, size);
}

void RoundAgent::perform(const protocol::Freeze& action) {
  base::check(action.round > flight_.record.round, "a round that begins once: no engine outlives a lost worker");
  flight_ = {.record = {action.round, action.version, member_.activator_of(action.round), action.is_synchronisation,
                        host_.now(), host_.now()},
             .members = action.members,
             .own = 0,
             .size = action.ends_period ? size_ : grouped_};
  flight_.own = member_index(context_.rank());
  data_.freeze(flight_.size, action.version == action.round);
}

void RoundAgent::perform(const protocol::SendPart& action) {
  const auto& [peer, part] = action;
  std::span<const float> values;
  if (part.phase == Phase::reduce) {
    values = contribution(part.chunk, member_index(peer));
  } else {
    const Range own = part_of(part.chunk, flight_.own);
    values = data_.landing(own, spare(part.chunk, flight_.own, own.size));
  }
  host_.send(peer, tag_of(part), engines::const_bytes_of(values), [this, action] {
    step(protocol::PartSent{action.peer, action.part});
  });
}

void RoundAgent::perform(const protocol::ExpectPart& action) {
  const auto& [peer, part] = action;
  const std::size_t sender = member_index(peer);
  std::span<float> place;
  if (part.phase == Phase::reduce) {
    place = spare(part.chunk, sender, part_of(part.chunk, flight_.own).size);
  } else {
    const Range theirs = part_of(part.chunk, sender);
    place = data_.landing(theirs, spare(part.chunk, sender, theirs.size));
  }
  host_.receive(peer, tag_of(part), engines::bytes_of(place), [this, action] {
    step(protocol::PartReceived{action.peer, action.part});
  });
}

// In rank order, and rounded once before the division: all members get these same bits. Where 1/m is exact, multiplying
// by it is dividing.
void RoundAgent::perform(const protocol::Sum& action) {
  const Range own = part_of(action.chunk, flight_.own);
  std::vector<const float*> rows;
  for (std::size_t member = 0; member < flight_.members.size(); ++member)
    rows.push_back(member == flight_.own ? contribution(action.chunk, member).data()
                                         : spare(action.chunk, member, own.size).data());
  const bool is_exact = std::has_single_bit(rows.size());
  const std::vector<float> factors(rows.size(), is_exact ? 1 / static_cast<float>(rows.size()) : 1);
  const std::span<float> average = data_.landing(own, spare(action.chunk, flight_.own, own.size));
  kernels::weighted_sum(rows, factors, average);
  if (!is_exact) kernels::divide(average, static_cast<float>(rows.size()));
  context_.engine().charge(static_cast<double>((rows.size() + 3) * own.size * sizeof(float)));
  data_.settle(own, average);
}

void RoundAgent::perform(const protocol::Place& action) {
  const std::size_t owner = member_index(action.peer);
  const Range theirs = part_of(action.chunk, owner);
  data_.settle(theirs, data_.landing(theirs, spare(action.chunk, owner, theirs.size)));
}

void RoundAgent::perform(const protocol::Complete& action) {
  data_.complete(action.members);
  flight_.record.end = host_.now();
  records_.push_back(flight_.record);
}

void RoundAgent::perform(const protocol::Merge& action) {
  data_.merge(values_, action.outcome);
  outcome_ = action.outcome;
}

void RoundAgent::perform(const protocol::Proceed&) {
  data_.proceed(values_);
  values_ = {};
  handed_over_.insert(handed_over_.end(), records_.begin(), records_.end());
  records_.clear();
  host_.answer();
}

}  // namespace flockstep::runtime
