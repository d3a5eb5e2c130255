#include "runtime/rounds/round_agent.h"

#include <fmt/core.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/hash.h"
#include "runtime/gather.h"

namespace flockstep::runtime {
namespace {

using protocol::Phase;

protocol::Options with_chunks(protocol::Options options, int chunks) {
  options.chunks = chunks;
  return options;
}

}  // namespace

int RoundAgent::chunks_of(std::size_t size, std::size_t chunk_floats) {
  return static_cast<int>(std::max<std::size_t>(1, (size + chunk_floats - 1) / chunk_floats));
}

RoundAgent::RoundAgent(Context& context, const protocol::Options& options, std::size_t grouped, std::size_t size,
                       RoundData& data, Pace pace, std::size_t chunk_floats)
    : context_(context),
      options_(with_chunks(options, chunks_of(size, chunk_floats))),
      record_(dynamic_cast<engines::RunRecord*>(&context.engine())),
      begins_at_(options.first),
      grouped_(grouped),
      size_(size),
      data_(data),
      member_(std::in_place, options_, context.rank(), context.engine().incarnation()),
      parts_(context, options_, size, data),
      pace_(pace),
      models_(context, host_, size),
      ended_(options.first),
      host_(context, "rounds", *this) {}

// ---- the worker's side ----

std::optional<protocol::Outcome> RoundAgent::arrive(protocol::Iteration iteration, std::span<float> values) {
  return arrive({iteration}, values, pace_);
}

void RoundAgent::synchronise(std::span<float> values) {
  base::check(options_.elastic, "workers that come and go");
  arrive({.iteration = ended_, .synchronises = true}, values, Pace::waits);
}

std::optional<protocol::Outcome> RoundAgent::arrive(const protocol::Arrived& event, std::span<float> values,
                                                    Pace pace) {
  base::check(values.empty() || values.size() == size_, "the size that was announced");
  ended_ = event.iteration + 1;
  data_.prepare();
  // Expelled while its numbers were on their way here, a worker that has gone on joins when it is here again.
  const auto arrive = [this, event] {
    if (!must_join_)
      step(event);
    else if (waits_)
      join();
  };
  host_.ask(
      [&] {
        when_free([this, values, pace, arrive] {
          if (pace == Pace::waits || must_join_) {
            values_ = values;
            waits_ = true;
            if (must_join_) return join();
            data_.arrive(values);
            host_.tell_update();
          } else {
            is_in_flight_ = true;
            data_.hand_over(values);
            host_.tell_update();
            is_behind_rounds_ = false;
            answer_with_records();
          }
          once_landed(arrive);
        });
      },
      "round");
  return std::exchange(outcome_met_, std::nullopt);
}

void RoundAgent::catch_up(std::span<float> values) {
  if (!is_behind_rounds_) return;
  data_.prepare();
  host_.ask(
      [&] {
        if (is_free()) {
          is_behind_rounds_ = false;
          data_.hand_over(values);
          once_landed([] {});
        }
        host_.answer();
      },
      "round");
}

void RoundAgent::leave() {
  is_away_ = true;
  host_.ask(
      [&] {
        when_free([this] {
          if (!must_join_) step(protocol::Leaves{});
          host_.answer();
        });
      },
      "leaving");
}

void RoundAgent::come_back(std::span<float> values, std::function<protocol::Iteration()> load) {
  base::check(values.empty() || values.size() == size_, "the size that was announced");
  data_.prepare();
  host_.ask(
      [&] {
        values_ = values;
        waits_ = true;
        load_ = std::move(load);
        join();
      },
      "the return");
  is_away_ = has_joined_anew_ = false;
}

// Every round that is known to run was started by a worker that has waited for it, or still waits for it here: so the
// newest one that anybody knows of is the newest of all, and whoever takes part in it hears of it.
std::vector<RoundAgent::Standing> RoundAgent::come_to_rest() {
  std::array<double, 3> mine{static_cast<double>(ended_), is_away_ ? 1.0 : 0.0, 0};
  with_data([&] {
    const protocol::Iteration known = member_->newest();  // -1 before the first
    mine[2] = static_cast<double>(is_free() ? known : std::max(known, ended_ - 1));
    host_.tell_rest();
  });
  const std::vector<double> all = gather_doubles(context_, mine);
  std::vector<Standing> standings;
  std::vector<std::optional<std::int64_t>> steps;
  double newest = all[2];
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    standings.push_back({static_cast<protocol::Iteration>(all[i]), all[i + 1] != 0});
    newest = std::max(newest, all[i + 2]);
    steps.push_back(standings.back().is_away ? std::nullopt : std::optional(standings.back().ended));
  }
  check_same_steps(context_, steps);
  host_.ask(
      [&] {
        rest_after_ = static_cast<protocol::Iteration>(newest);
        answer_if_at_rest();
      },
      "rest");
  context_.wait(context_.engine().barrier(), "barrier");
  return standings;
}

// A model that was given may still be under way to one who has received it: an agent must not end before its transfers.
void RoundAgent::answer_if_at_rest() {
  if (!rest_after_ || !is_free() || !member_->is_done_until(*rest_after_) || host_.transfers() > 0) return;
  rest_after_.reset();
  host_.answer();
}

void RoundAgent::with_data(const std::function<void()>& action) {
  host_.ask(
      [&] {
        action();
        host_.answer();
      },
      "rest");
}

void RoundAgent::at_rest(const std::function<void()>& action) {
  come_to_rest();
  with_data(action);
}

std::optional<protocol::Outcome> RoundAgent::settle(std::span<float> values) {
  data_.prepare();
  host_.ask(
      [&] {
        data_.rest(values);
        is_behind_rounds_ = false;
        once_landed([this] { answer_with_records(); });
      },
      "rest");
  return std::exchange(outcome_met_, std::nullopt);
}

// ---- the agent's ----

// The worker waits for one thing at a time.
void RoundAgent::when_free(std::function<void()> action) {
  once_free_ = std::move(action);
  go_on_if_free();
}

void RoundAgent::go_on_if_free() {
  if (once_free_ && is_free()) std::exchange(once_free_, {})();
}

void RoundAgent::once_landed(std::function<void()> action) {
  auto is_here = data_.on_the_way();
  if (!is_here) return action();
  is_landing_ = true;
  host_.after(std::move(is_here), [this, action = std::move(action)] {
    is_landing_ = false;
    data_.land();
    action();
    answer_if_at_rest();
    go_on_if_free();
  });
}

void RoundAgent::answer_with_records() {
  handed_over_.insert(handed_over_.end(), records_.begin(), records_.end());
  records_.clear();
  outcome_met_ = std::exchange(outcome_, std::nullopt);
  host_.answer();
}

// Where nobody counts on the peer, what it does not mean to say is as good as its end.
void RoundAgent::on_control(int peer, std::span<const std::byte> payload) {
  protocol::Message message;
  try {
    message = protocol::message_from_bytes(payload, options_.elastic ? protocol::kMostRanks : context_.size());
  } catch (const Error& error) {
    if (!options_.elastic) throw;
    context_.log().warn("worker {} is left out: {}", peer, error.what());
    return step(protocol::PeerLost{peer, met_[peer]});
  }
  if (!options_.elastic && message.tells_of_losses())
    throw Error(ErrorCode::mismatch,
                fmt::format("worker {} reports lost workers, and this run does not continue without them: all workers "
                            "must run the same version of Flockstep",
                            peer),
                std::string(context_.engine().name()));
  step(protocol::Received{peer, std::move(message)});
}

void RoundAgent::on_met(int peer, engines::Incarnation incarnation) {
  met_[peer] = incarnation;
  step(protocol::Met{peer, incarnation});
}

void RoundAgent::on_lost(int peer, engines::Incarnation incarnation) {
  context_.log().info("worker {} is lost", peer);
  std::erase(wanted_by_, peer);
  step(protocol::PeerLost{peer, incarnation});
}

void RoundAgent::step(const protocol::Event& event) {
  for (const protocol::Action& action : member_->step(host_.now(), event))
    std::visit([this](const auto& what) { perform(what); }, action);
  if (std::exchange(asks_to_begin_, false)) return begin_alone();
  answer_if_at_rest();
  go_on_if_free();
}

void RoundAgent::perform(const protocol::Send& action) {
  host_.send_control(action.peer, protocol::to_bytes(action.message));
}

base::RoundRole RoundAgent::role_in(const protocol::Freeze& action) const {
  if (action.is_synchronisation) return base::RoundRole::synchronisation;
  if (member_->activator_of(action.round) == context_.rank()) return base::RoundRole::activated_here;
  return action.round == action.version ? base::RoundRole::fresh : base::RoundRole::passive;
}

void RoundAgent::perform(const protocol::Freeze& action) {
  base::check(!is_under_way_, "one round at a time");
  round_ = {.role = role_in(action),
            .begin = host_.now(),
            .end = host_.now(),
            .number = action.round,
            .activator = member_->activator_of(action.round),
            .staleness = action.round - action.version};
  is_under_way_ = true;
  const std::size_t size = action.ends_period ? size_ : grouped_;
  parts_.begin(action.members, size);
  data_.freeze(size, action.version == action.round);
}

void RoundAgent::perform(const protocol::Withdraw&) {
  host_.withdraw(AgentHost::Load::part, [this] {
    is_under_way_ = false;
    data_.abandon();
    step(protocol::Withdrawn{});
  });
}

// Parts of the few rounds and chunks that two workers can have under way differ in the lower bits. A round that begins
// again is over other members: parts of the two attempts must never meet, nor those of rounds that both ends know
// something else of.
engines::Tag RoundAgent::tag_of(const protocol::Part& part) const {
  const engines::Tag tag =
      (part.round % 16) << 14 | (part.phase == Phase::gather ? 1 << 13 : 0) | part.chunk % (1 << 13);
  if (!options_.elastic) return tag;
  const std::array<protocol::Iteration, 2> head{part.round, static_cast<protocol::Iteration>(part.absent.size())};
  const std::uint64_t attempt = base::Hash()
                                    .add(std::as_bytes(std::span(head)))
                                    .add(std::as_bytes(std::span(part.absent)))
                                    .add(std::as_bytes(std::span(parts_.members())))
                                    .value();
  return static_cast<engines::Tag>(attempt >> 24 << 18) | tag;
}

void RoundAgent::perform(const protocol::SendPart& action) {
  const auto& [peer, part] = action;
  host_.send(peer, tag_of(part), engines::const_bytes_of(parts_.to_send(peer, part)), [this, action] {
    step(protocol::PartSent{action.peer, action.part});
  });
}

void RoundAgent::perform(const protocol::ExpectPart& action) {
  const auto& [peer, part] = action;
  host_.receive(peer, tag_of(part), engines::bytes_of(parts_.to_receive(peer, part)), [this, action] {
    step(protocol::PartReceived{action.peer, action.part});
  });
}

void RoundAgent::perform(const protocol::Complete& action) {
  data_.complete(action.members);
  round_.end = host_.now();
  records_.push_back(round_);
  is_under_way_ = false;
  is_behind_rounds_ = true;
  for (const int peer : std::exchange(wanted_by_, {})) give(peer);
}

void RoundAgent::perform(const protocol::Merge& action) {
  data_.merge(values_, action.outcome);
  outcome_ = action.outcome;
  if (options_.elastic && record_) record_->tell_progress();
}

void RoundAgent::perform(const protocol::Proceed&) {
  if (!std::exchange(waits_, false)) {
    is_in_flight_ = false;
    return;
  }
  data_.proceed(values_);
  values_ = {};
  answer_with_records();
}

// ---- models for those who come back ----

void RoundAgent::perform(const protocol::Give& action) {
  if (is_under_way_)
    wanted_by_.push_back(action.peer);
  else
    give(action.peer);
}

void RoundAgent::give(int peer) {
  models_.send(
      peer, [this](std::span<float> model) { data_.give(model); }, [this] { answer_if_at_rest(); });
}

void RoundAgent::perform(const protocol::Adopt& action) {
  is_adopted_ = false;
  unmet_.reset();
  models_.receive(action.peer, data_.place_for_model(values_), [this, peer = action.peer] {
    is_adopted_ = true;
    step(protocol::Adopted{peer});
  });
}

void RoundAgent::perform(const protocol::Forgo&) {
  host_.withdraw(AgentHost::Load::model, [this] { step(protocol::Forgone{}); });
}

void RoundAgent::perform(const protocol::Rejoin& action) {
  load_ = nullptr;
  unmet_.reset();
  data_.rejoin(values_, is_adopted_);
  ended_ = action.iteration;
  has_joined_anew_ = true;
}

// ---- workers that come and go ----

void RoundAgent::join() {
  must_join_ = is_adopted_ = false;
  step(protocol::ComesBack{});
}

// Its models count nowhere any more. Connections end first, and with them all that is under way.
void RoundAgent::perform(const protocol::Expelled& action) {
  if (action.by == context_.rank())
    context_.log().warn("the workers that worker {} was joining have gone; it joins again as incarnation {}", action.by,
                        action.incarnation);
  else
    context_.log().warn("worker {} has continued without this one, which joins again as incarnation {}", action.by,
                        action.incarnation);
  begins_at_ = std::max(begins_at_, member_->arrived() + 1);
  context_.engine().begin_again(action.incarnation);
  host_.drop_all();
  if (std::exchange(is_under_way_, false)) data_.abandon();
  wanted_by_.clear();
  met_.clear();
  is_in_flight_ = false;
  member_.emplace(options_, context_.rank(), context_.engine().incarnation());
  must_join_ = true;
  if (waits_ && !is_landing_) join();
}

void RoundAgent::perform(const protocol::WaitsFor& action) {
  unmet_ = fmt::format(
      "worker {} waits to join until it reaches worker {}, which worker {} counts among the living; mend the network "
      "between workers {} and {}, or end one of the two",
      context_.rank(), action.peer, action.by, context_.rank(), action.peer);
  context_.log().warn("{}. The others go on", *unmet_);
}

// After the actions that came with the question.
void RoundAgent::perform(const protocol::AskToBegin&) { asks_to_begin_ = true; }

void RoundAgent::begin_alone() {
  if (load_) begins_at_ = std::exchange(load_, nullptr)();
  if (const auto refusal = record_ ? record_->refusal_to_begin(begins_at_) : std::nullopt)
    context_.engine().fail(Error(ErrorCode::unavailable, *refusal, std::string(context_.engine().name())));
  step(protocol::MayBegin{begins_at_});
}

void RoundAgent::perform(const protocol::Refused& action) {
  context_.engine().fail(Error(
      ErrorCode::mismatch,
      fmt::format("worker {} cannot join the run of worker {}, which has another algorithm, other options, another "
                  "seed or another model: start it with the same",
                  context_.rank(), action.by),
      std::string(context_.engine().name())));
}

}  // namespace flockstep::runtime
