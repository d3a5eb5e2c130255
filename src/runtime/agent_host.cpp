#include "runtime/agent_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "engines/missing.h"
#include "runtime/gather.h"

namespace flockstep::runtime {
namespace {

// With nothing to wait for the agent looks up this often: finite, because not every clock can count to the last time.
constexpr base::Duration kIdle = std::chrono::hours(1);

// How long others may take to say how far they are.
constexpr base::Duration kPatienceForAnswers{1};

// Before every control message: the number of the sender's instance, and in its upper three bits the kind.
using Prefix = std::array<std::byte, sizeof(std::uint32_t)>;
constexpr int kKindShift = 29;

// The first few updates of a worker are told to several others, later ones to one.
constexpr std::int64_t kFirstUpdates = 3;
constexpr std::size_t kToldAtFirst = math::UpdateGuard::kHeard;

std::set<int> everybody_but(int rank, int workers) {
  std::set<int> others;
  for (int other = 0; other < workers; ++other)
    if (other != rank) others.insert(other);
  return others;
}

}  // namespace

AgentHost::AgentHost(Context& context, const std::string& name, Service& service)
    : context_(context),
      name_(name),
      service_(service),
      instance_(context),
      for_agent_(context.engine().make_signal()),
      for_worker_(context.engine().make_signal()),
      others_(service.outlives_peers() ? std::set<int>() : everybody_but(context.rank(), context.size())),
      told_last_(context.rank()),
      agent_(context.engine().spawn(name, [this] { run(); })) {
  if (service.outlives_peers()) return;
  // Whoever sends from here on sends to agents that were made together with this one.
  try {
    context.wait(context.engine().barrier(), "barrier");
  } catch (...) {
    end();
    throw;
  }
}

AgentHost::~AgentHost() { end(); }

void AgentHost::end() noexcept {
  stopping_.store(true, std::memory_order_release);
  for_agent_->raise();
  agent_.reset();
}

// When the wait throws, the agent may be about to run the request or in the middle of it, on data of a stack that is
// going. The engine is broken then, so the agent has come to an end soon.
void AgentHost::ask(const std::function<void()>& request, std::string_view what) {
  request_ = &request;
  what_ = what;
  for_agent_->raise();
  try {
    context_.wait_for([this] { return for_worker_->take(); }, what);
  } catch (...) {
    end();
    throw;
  }
}

void AgentHost::answer() {
  base::check(std::exchange(owes_answer_, false), "one answer to each request");
  inquiry_.reset();
  for_worker_->raise();
}

void AgentHost::send(int peer, engines::Tag tag, engines::ConstBytes data, std::function<void()> done, Load load,
                     std::function<void()> over) {
  transfers_.push_back({context_.engine().send(peer, own_tag(tag), data), true, peer, context_.deadline(),
                        std::move(done), std::move(over), load});
}

void AgentHost::receive(int peer, engines::Tag tag, engines::Bytes data, std::function<void()> done, Load load,
                        std::function<void()> over) {
  transfers_.push_back({context_.engine().receive(peer, own_tag(tag), data), false, peer, context_.deadline(),
                        std::move(done), std::move(over), load});
}

engines::Tag AgentHost::own_tag(engines::Tag tag) const {
  const engines::Tag tags = service_.outlives_peers() ? kLongTags : kTags;
  base::check(tag >= 0 && tag < tags, "a tag of an agent");
  return static_cast<engines::Tag>(instance_.number() % 4) * tags + tag;
}

void AgentHost::withdraw(Load load, std::function<void()> then) {
  withdrawals_.push_back({load, std::move(then)});
  for (Transfer& transfer : transfers_) {
    if (transfer.load != load) continue;
    transfer.is_withdrawn = true;
    transfer.operation->withdraw();
  }
}

bool AgentHost::is_withdrawn(const Withdrawal& withdrawal) const {
  return std::ranges::none_of(transfers_, [&](const Transfer& transfer) { return transfer.load == withdrawal.load; });
}

// One at a time: what it is for may begin new transfers.
void AgentHost::end_withdrawals() {
  while (true) {
    const auto over =
        std::ranges::find_if(withdrawals_, [this](const Withdrawal& withdrawal) { return is_withdrawn(withdrawal); });
    if (over == withdrawals_.end()) return;
    const auto then = std::move(over->then);
    withdrawals_.erase(over);
    then();
  }
}

void AgentHost::drop_all() {
  withdrawals_.clear();
  if (!controls_.empty()) controls_.erase(controls_.begin() + 1, controls_.end());  // the first is being reacted to
  for (const Transfer& transfer : std::exchange(transfers_, {})) transfer.over();
}

void AgentHost::send_control(int peer, std::span<const std::byte> payload) {
  send_control(peer, Kind::message, payload);
}

void AgentHost::send_control(int peer, Kind kind, std::span<const std::byte> payload) {
  const auto prefix = std::bit_cast<Prefix>(instance_.number() | static_cast<std::uint32_t>(kind) << kKindShift);
  std::vector<std::byte> message(prefix.begin(), prefix.end());
  message.insert(message.end(), payload.begin(), payload.end());
  context_.engine().send_control(peer, message);
}

// The first ones to several, so that soon everybody has something to measure by.
void AgentHost::tell_update() {
  const math::UpdateGuard* const guard = service_.guard();
  if (!guard || guard->counts().updates == 0 || others_.empty()) return;
  const std::size_t peers = guard->counts().updates > kFirstUpdates ? 1 : kToldAtFirst;
  for (std::size_t i = 0; i < std::min(peers, others_.size()); ++i) {
    auto next = others_.upper_bound(told_last_);
    if (next == others_.end()) next = others_.begin();
    told_last_ = *next;
    send_control(told_last_, Kind::update, std::as_bytes(std::span(&guard->news(), 1)));
  }
}

void AgentHost::tell_rest() {
  const Rest mine{rests_++, service_.counted().value_or(0), context_.rank()};
  if (!service_.counted()) return;
  if (context_.rank() == 0) return hear_rest(mine);
  send_control(0, Kind::rest, std::as_bytes(std::span(&mine, 1)));
}

void AgentHost::hear_rest(const Rest& rest) {
  if (rest_ && std::pair(rest.number, -rest.ended) <= std::pair(rest_->number, -rest_->ended)) return;
  rest_ = rest;
  if (context_.rank() != 0) return;
  for (const int peer : others_) send_control(peer, Kind::rest, std::as_bytes(std::span(&rest, 1)));
}

// What is said of an earlier rest of this worker, or of the one that it is in, does not count.
void AgentHost::require_same_end() {
  if (!owes_answer_ || !rest_ || rest_->number != rests_) return;
  const auto ended = service_.counted();
  if (ended && *ended > rest_->ended)
    context_.engine().fail(Error(ErrorCode::mismatch,
                                 unequal_steps(context_.rank(), *ended, static_cast<int>(rest_->rank), rest_->ended),
                                 std::string(context_.engine().name())));
}

AgentHost::Kind AgentHost::kind_of(const engines::Control& control) const {
  Prefix prefix;
  if (control.what != engines::Control::What::message) return Kind::message;
  if (control.payload.size() < prefix.size() && service_.outlives_peers()) return Kind::none;
  if (control.payload.size() < prefix.size())
    throw Error(ErrorCode::mismatch,
                "a control message of another kind arrived: all workers must run the same algorithm",
                std::string(context_.engine().name()));
  std::ranges::copy_n(control.payload.begin(), prefix.size(), prefix.begin());
  const auto word = std::bit_cast<std::uint32_t>(prefix);
  const bool is_for_us = (word & ((1u << kKindShift) - 1)) == instance_.number();
  return is_for_us ? static_cast<Kind>(word >> kKindShift) : Kind::none;
}

void AgentHost::after(std::function<bool()> is_done, std::function<void()> done) {
  watched_.push_back({std::move(is_done), now(), std::move(done)});
}

void AgentHost::run() {
  while (!stopping_.load(std::memory_order_acquire)) {
    context_.engine().wait_until([this] { return look(); }, next_time());
    react();
  }
}

base::Time AgentHost::next_time() const {
  base::Time time = std::min(wake_at_, now() + kIdle);
  if (owes_answer_) time = std::min(time, inquiry_ ? inquiry_->end : asked_ + context_.patience());
  for (const Watched& watched : watched_) time = std::min(time, Context::next_look(watched.since, now()));
  return transfers_.empty() ? time : std::min(time, transfers_.front().deadline);
}

// Some engines call this on another thread, while that of the agent sleeps: it takes and tests, and reacts to nothing.
bool AgentHost::look() {
  if (for_agent_->take()) {
    if (stopping_.load(std::memory_order_acquire)) return true;
    has_request_ = true;
  }
  ended_ = context_.engine().ended();  // before its last words are taken
  if (!ended_) ended_ = lost_;
  while (auto control = context_.engine().take_control())
    if (kind_of(*control) != Kind::none) controls_.push_back(std::move(*control));
  bool any_done = false;
  for (Transfer& transfer : transfers_) {
    transfer.is_done = transfer.operation->done();
    transfer.is_gone = service_.outlives_peers() && !transfer.is_done && transfer.operation->gone();
    any_done = any_done || transfer.is_done || transfer.is_gone;
  }
  gone_ = owes_answer_ ? needed_one_that_ended() : std::nullopt;
  const bool any_withdrawn =
      std::ranges::any_of(withdrawals_, [this](const Withdrawal& withdrawal) { return is_withdrawn(withdrawal); });
  return has_request_ || !controls_.empty() || any_done || any_withdrawn || gone_;
}

void AgentHost::react() {
  if (stopping_.load(std::memory_order_acquire)) return;
  if (std::exchange(has_request_, false)) {
    owes_answer_ = true;
    asked_ = now();
    (*request_)();
  }
  for (; !controls_.empty(); controls_.pop_front()) on_control(controls_.front());
  end_transfers();
  end_withdrawals();
  end_watched();
  if (now() >= wake_at_) {
    wake_at_ = base::Time::max();
    service_.on_time();
  }
  require_all();
  require_same_end();
  require_answer();
  if (!inquiry_) require_in_time();
}

void AgentHost::on_control(const engines::Control& control) {
  using What = engines::Control::What;
  if (control.what == What::met) {
    if (!service_.outlives_peers()) return;
    others_.insert(control.peer);
    return service_.on_met(control.peer, control.incarnation);
  }
  if (control.what == What::lost) {
    others_.erase(control.peer);
    if (math::UpdateGuard* const guard = service_.guard()) guard->forget(control.peer);
    if (service_.outlives_peers()) return service_.on_lost(control.peer, control.incarnation);
    lost_ = control.peer;
    return;
  }
  const auto payload = std::span(control.payload).subspan(sizeof(Prefix));
  std::int64_t arrived = -1;
  switch (kind_of(control)) {
    case Kind::message: return service_.on_control(control.peer, payload);
    case Kind::question:
      if (const auto progress = service_.progress()) arrived = progress->arrived;
      return send_control(control.peer, Kind::answer, std::as_bytes(std::span(&arrived, 1)));
    case Kind::answer:
      if (!inquiry_ || payload.size() != sizeof arrived) return;
      std::memcpy(&arrived, payload.data(), sizeof arrived);
      std::erase(inquiry_->silent, control.peer);
      if (const auto progress = service_.progress(); progress && arrived < progress->needed)
        inquiry_->behind.push_back(control.peer);
      return;
    case Kind::update:
      if (math::UpdateNews news; service_.guard() && payload.size() == sizeof news) {
        std::memcpy(&news, payload.data(), sizeof news);
        service_.guard()->hear(control.peer, news);
      }
      return;
    case Kind::rest:
      if (Rest rest{}; payload.size() == sizeof rest) {
        std::memcpy(&rest, payload.data(), sizeof rest);
        hear_rest(rest);
      }
      return;
    case Kind::none: return;
  }
}

// ---- requests that are not answered in time ----

void AgentHost::require_answer() {
  if (!owes_answer_ || now() < asked_ + context_.patience()) return;
  if (!inquiry_) inquire();
  if (inquiry_->silent.empty() || now() >= inquiry_->end) fail_late();
}

void AgentHost::inquire() {
  inquiry_ = {now() + kPatienceForAnswers, {}, {}};
  if (!service_.progress()) return;
  for (int peer = 0; peer < context_.size(); ++peer) {
    if (peer == context_.rank()) continue;
    inquiry_->silent.push_back(peer);
    send_control(peer, Kind::question, {});
  }
}

// Whose agent does not even answer has not arrived either; where all are there, those whom transfers wait for.
void AgentHost::fail_late() {
  if (const auto obstacle = service_.obstacle())
    context_.engine().fail(
        Error(ErrorCode::deadline,
              fmt::format("the deadline of {:.3g} s has passed: {}", context_.patience().count(), *obstacle),
              std::string(context_.engine().name())));
  std::vector<int> missing = inquiry_->behind;
  missing.insert(missing.end(), inquiry_->silent.begin(), inquiry_->silent.end());
  const auto progress = service_.progress();
  const bool is_behind = progress && !missing.empty();
  if (!is_behind)
    for (const Transfer& transfer : transfers_) missing.push_back(transfer.peer);
  std::ranges::sort(missing);
  missing.erase(std::ranges::unique(missing).begin(), missing.end());
  const std::string place = is_behind ? fmt::format("round {}", progress->needed) : std::string(what_);
  context_.engine().fail(Error(ErrorCode::deadline,
                               engines::late_sentence(missing, place, context_.rank(), context_.patience()),
                               std::string(context_.engine().name())));
}

// What is done leaves the list first: the callbacks may start further transfers.
void AgentHost::end_transfers() {
  const auto is_under_way = [](const Transfer& transfer) { return !transfer.is_done && !transfer.is_gone; };
  const auto first_done = std::ranges::stable_partition(transfers_, is_under_way).begin();
  std::vector<Transfer> done(std::make_move_iterator(first_done), std::make_move_iterator(transfers_.end()));
  transfers_.erase(first_done, transfers_.end());
  for (const Transfer& transfer : done) (transfer.is_gone || transfer.is_withdrawn ? transfer.over : transfer.done)();
}

void AgentHost::end_watched() {
  const auto is_under_way = [](const Watched& watched) { return !watched.is_done(); };
  const auto first_done = std::ranges::stable_partition(watched_, is_under_way).begin();
  std::vector<Watched> done(std::make_move_iterator(first_done), std::make_move_iterator(watched_.end()));
  watched_.erase(first_done, watched_.end());
  for (const Watched& watched : done) watched.done();
}

// The oldest is tested once more: reacting may have taken long.
void AgentHost::require_in_time() {
  if (transfers_.empty() || now() < transfers_.front().deadline || transfers_.front().operation->done()) return;
  const Transfer& late = transfers_.front();
  context_.engine().fail(Error(
      ErrorCode::deadline,
      fmt::format("worker {} has {} the agent '{}' of worker {} within {:.3g} s; it is stuck or gone, or the deadline "
                  "is too short",
                  late.peer, late.is_send ? "taken nothing from" : "sent nothing to", name_, context_.rank(),
                  context_.patience().count()),
      std::string(context_.engine().name())));
}

// One that ended and was not needed any more is no loss. What is under way may be all that is missing; the engine knows
// whether it comes.
std::optional<int> AgentHost::needed_one_that_ended() const {
  if (service_.outlives_peers()) return std::nullopt;
  if (transfers_.empty()) return ended_;
  for (const Transfer& transfer : transfers_)
    if (const auto gone = transfer.is_done ? std::nullopt : transfer.operation->gone()) return gone;
  return std::nullopt;
}

void AgentHost::require_all() {
  const auto gone = transfers_.empty() ? ended_ : gone_;
  if (!gone || !owes_answer_) return;
  context_.engine().fail(Error(ErrorCode::peer_lost, engines::gone_sentence(context_.rank(), *gone),
                               std::string(context_.engine().name())));
}

}  // namespace flockstep::runtime
