#include "engines/mesh/hub.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>

#include "engines/mesh/store_client.h"

namespace flockstep::engines::mesh {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration kFarewell = 1s;     // for peers to hear it
constexpr Clock::duration kTendEvery = 50ms;  // at most
constexpr int kMostSupersessions = 8;         // more: two processes fight for one rank

}  // namespace

Hub::Hub(const MeshOptions& options, Ears& ears)
    : options_(options),
      ears_(ears),
      meetings_(io_, options, *this),
      timeout_(std::chrono::duration_cast<Clock::duration>(options.heartbeat)),
      tend_every_(std::min(timeout_ / 8, kTendEvery)) {
  allow_reading();
  const Registration registration =
      register_worker(options.store_address(), options.rank, meetings_.address(), options.incarnation);
  incarnation_ = registration.incarnation;
  asio::post(io_, [this, registration] {
    begin(registration.incarnation, registration.book);
    tend();
  });
  thread_ = std::thread([this] { run(); });
}

Hub::~Hub() { end(); }

// What is thrown here is a mistake of this folder or a lack of memory: the worker cannot go on.
void Hub::run() noexcept {
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception& failure) {
      ears_.hear_failure(
          Error(ErrorCode::unavailable, fmt::format("the mesh engine failed: {}", failure.what()), "mesh"));
    }
  }
}

void Hub::begin(Incarnation incarnation, const Book& book) {
  if (has_left_) return;
  incarnation_ = incarnation;
  meetings_.begin(incarnation, book);
}

// A thread that comes late, on a busy or stopped machine, has not heard what its peers have said meanwhile.
void Hub::tend() {
  const auto now = Clock::now();
  const bool was_away = now - tended_ > timeout_ / 2;
  tended_ = now;
  std::vector<std::shared_ptr<Session>> sessions;
  for (const auto& [rank, session] : sessions_) sessions.push_back(session);
  for (const auto& session : sessions) session->tend(now, was_away);
  for (const auto& [session, end] : leaving_)
    if (now >= end) session->close("has not answered a farewell");
  meetings_.tend(now);
  tending_.expires_after(tend_every_);
  tending_.async_wait([this](const std::error_code& error) {
    if (!error) tend();
  });
}

std::shared_ptr<Session>& Hub::session_with(int peer) {
  auto& session = sessions_[peer];
  if (!session) session = std::make_shared<Session>(*this, peer);
  return session;
}

void Hub::start(const std::shared_ptr<Exchange>& exchange) {
  asio::post(io_, [this, exchange] { exchange->start(*this); });
}

void Hub::withdraw(const std::shared_ptr<Exchange>& exchange) {
  asio::post(io_, [exchange] { exchange->withdraw(); });
}

void Hub::send_control(int peer, ConstBytes payload) {
  asio::post(io_, [this, peer, copy = std::vector<std::byte>(payload.begin(), payload.end())] {
    const auto found = sessions_.find(peer);
    if (found != sessions_.end()) found->second->say(FrameCode::control, copy);
  });
}

void Hub::ask(int peer) {
  asio::post(io_, [this, peer] {
    const auto found = sessions_.find(peer);
    if (found != sessions_.end()) found->second->say(FrameCode::question);
  });
}

void Hub::post(const PartPtr& part) {
  if (has_left_)
    part->exchange->end(*part);
  else
    session_with(part->transfer.peer)->post(part);
}

bool Hub::is_met(int rank) {
  const auto found = sessions_.find(rank);
  return found != sessions_.end() && found->second->is_met();
}

void Hub::meet(asio::ip::tcp::socket socket, const Card& peer, std::unique_ptr<ProvableMemory> memory,
               ConstBytes first) {
  if (has_left_) return;
  if (is_met(peer.rank)) session_with(peer.rank)->close("has a new connection");
  auto& session = session_with(peer.rank);
  if (session->is_over()) session = std::make_shared<Session>(*this, peer.rank);
  const auto met = session;
  const ConnectionEnds ends{incarnation_, peer.incarnation};
  ears_.hear({peer.rank, {}, Control::What::met, peer.incarnation});
  met->meet(std::make_shared<Connection>(std::move(socket), ends, std::move(memory), timeout_, first), peer.incarnation,
            peer.memory, meetings_.book());
}

bool Hub::hear_control(int peer, Incarnation incarnation, ConstBytes payload) {
  return ears_.hear({peer, {payload.begin(), payload.end()}, Control::What::message, incarnation});
}

void Hub::hear_book(const Book& book) {
  meetings_.learn(book);
  meetings_.tend(Clock::now());
}

void Hub::on_mismatch(int peer, std::size_t expected, std::size_t sent) {
  ears_.hear_failure(Error(ErrorCode::mismatch,
                           fmt::format("worker {} expected {} bytes and worker {} sent {}; give every worker the same "
                                       "sizes",
                                       options_.rank, expected, peer, sent),
                           "mesh"));
}

void Hub::on_lost(Session& session, const std::string& sentence) {
  const auto bytes = std::as_bytes(std::span(sentence));
  ears_.hear({session.peer(), {bytes.begin(), bytes.end()}, Control::What::lost, session.incarnation()});
  meetings_.on_lost(session.peer());
}

void Hub::on_settled() {
  std::erase_if(leaving_, [](const auto& each) { return each.first->is_settled(); });
  if (has_left_ && leaving_.empty() && !std::exchange(is_settled_, true)) settled_.set_value();
}

// Another process has, or had, this worker's rank under an incarnation that peers have met.
void Hub::on_outdated(Incarnation known) {
  if (has_left_ || known < incarnation_) return;
  if (++supersessions_ > kMostSupersessions)
    return ears_.hear_failure(Error(ErrorCode::unavailable,
                                    fmt::format("another process takes the place of worker {} again and again: give "
                                                "every worker a rank of its own",
                                                options_.rank),
                                    "mesh"));
  leave_all({});
  begin(known + 1, {});
  asio::co_spawn(
      io_,
      ask_store(options_.store_address(), {StoreRequest::What::enter, options_.rank, known + 1, meetings_.address()}),
      [](std::exception_ptr, const StoreAnswer&) {});  // a store that has gone changes nothing
}

void Hub::leave_all(ConstBytes farewell) {
  meetings_.pause();
  for (auto& [rank, session] : std::exchange(sessions_, {})) {
    const bool was_met = session->is_met();
    session->leave(farewell);
    if (!was_met) continue;
    leaving_.emplace_back(session, Clock::now() + kFarewell);
    ears_.hear({rank, {}, Control::What::lost, session->incarnation()});
  }
}

template <typename Task>
void Hub::ask_thread(Task task) {
  std::promise<void> done;
  asio::post(io_, [&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

void Hub::begin_again(Incarnation next) {
  std::string address;
  ask_thread([&] {
    leave_all({});
    address = meetings_.address();
  });
  Registration registration{std::max(next, Incarnation(incarnation_ + 1)), {}};
  try {
    StoreAddress store = options_.store_address();
    store.patience = {};  // one attempt
    registration = register_worker(store, options_.rank, address, registration.incarnation);
  } catch (const Error& error) {  // the store has gone: the peers know enough
    if (error.code() != ErrorCode::unavailable) throw;
  }
  ask_thread([&] { begin(registration.incarnation, registration.book); });
}

// Once in a worker's life; a request that fails is made again with the next step.
void Hub::tell_progress() {
  if (has_told_progress_.exchange(true)) return;
  asio::post(io_, [this] {
    asio::co_spawn(io_, ask_store(options_.store_address(), {StoreRequest::What::progress, options_.rank}),
                   [this](std::exception_ptr failure, const StoreAnswer&) {
                     if (failure) has_told_progress_ = false;
                   });
  });
}

void Hub::leave(std::vector<std::byte> farewell) {
  asio::post(io_, [this, farewell = std::move(farewell)] {
    if (std::exchange(has_left_, true)) return;
    leave_all(farewell);
    meetings_.close();
    on_settled();
  });
}

void Hub::end() noexcept {
  if (!thread_.joinable()) return;
  leave({});
  settled_.get_future().wait();
  io_.stop();
  thread_.join();
  {
    const std::lock_guard lock(late_);
    has_ended_ = true;
  }
  end_the_late();
}

void Hub::end_the_late() noexcept {
  const std::lock_guard lock(late_);
  if (!has_ended_) return;
  io_.restart();
  io_.poll();
}

}  // namespace flockstep::engines::mesh
