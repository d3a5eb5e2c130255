#include "engines/mesh/meetings.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "engines/mesh/address.h"
#include "engines/mesh/sockets.h"

namespace flockstep::engines::mesh {
namespace {

using asio::use_awaitable;
using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr Clock::duration kPatience = 2s;              // with a stranger, and with a host that may not be there
constexpr Clock::duration kPatienceWithMembers = 10s;  // who are slow, or cannot be reached just now
constexpr Clock::duration kFirstBackOff = 100ms, kLongestBackOff = 1s;

}  // namespace

Meetings::Meetings(asio::io_context& io, const MeshOptions& options, Circle& circle)
    : io_(io), circle_(circle), secret_(options.secret), rank_(options.rank), acceptor_(io) {
  listen(options);
}

// Without a host of its own the worker listens where the store can be: on this host only, or on all its networks.
void Meetings::listen(const MeshOptions& options) {
  HostAndPort place{options.host, 0};
  const bool has_port = options.host.find(':') != std::string::npos;
  if (has_port) place = parse_address(options.host, "the worker's host");
  const std::string told = place.host;
  if (told.empty()) place.host = is_loopback(parse_address(options.store, "the store").host) ? "127.0.0.1" : "0.0.0.0";
  listen_at(acceptor_, place, "a worker");
  address_ = address_text(told, acceptor_.local_endpoint().port());
}

void Meetings::begin(Incarnation incarnation, const Book& book) {
  const bool is_first = instance_ == 0;
  incarnation_ = incarnation;
  fill_at_random(std::as_writable_bytes(std::span(&instance_, 1)));
  instance_ |= 1;
  ++era_;
  is_open_ = true;
  for (auto& [rank, contact] : contacts_) {
    contact.is_dialling = contact.is_accepting = false;
    contact.back_off = {};
    contact.due = {};
  }
  if (is_first) asio::co_spawn(io_, serve(), asio::detached);
  learn(book);
  tend(Clock::now());
}

void Meetings::pause() {
  ++era_;
  is_open_ = false;
  for (auto& [rank, contact] : contacts_)
    if (const auto socket = contact.attempt.lock()) close_quietly(*socket);
}

void Meetings::close() {
  pause();
  std::error_code ignored;
  acceptor_.close(ignored);
  half_open_.close();
}

void Meetings::learn(const Book& book) {
  for (const BookEntry& entry : book) {
    if (entry.rank == rank_) {
      if (entry.incarnation == incarnation_ && !entry.address.empty() && address_.front() == ':')
        address_ = entry.address;
      continue;
    }
    Contact& contact = contacts_[entry.rank];
    if (entry.incarnation < contact.known || (entry.incarnation == contact.known && !contact.address.empty())) continue;
    if (entry.incarnation > contact.known) contact.instance = 0;
    contact.known = entry.incarnation;
    contact.address = entry.address;
    contact.back_off = {};
    contact.due = {};
  }
}

Book Meetings::book() const {
  Book book;
  for (const auto& [rank, contact] : contacts_)
    if (contact.known > 0 && !contact.address.empty()) book.push_back({rank, contact.known, contact.address});
  book.push_back({rank_, incarnation_, address_});
  std::ranges::sort(book, {}, &BookEntry::rank);
  return book;
}

void Meetings::on_lost(int rank) {
  Contact& contact = contacts_[rank];
  contact.back_off = kFirstBackOff;
  contact.due = Clock::now() + kFirstBackOff;
}

bool Meetings::is_due(const Contact& contact, Clock::time_point now) const {
  return is_open_ && !contact.is_dialling && !contact.is_accepting && !contact.address.empty() && now >= contact.due;
}

void Meetings::tend(Clock::time_point now) {
  for (auto& [rank, contact] : contacts_)
    if (is_due(contact, now) && !circle_.is_met(rank)) attempt(contact, rank);
}

void Meetings::attempt(Contact& contact, int rank) {
  contact.is_dialling = true;
  asio::co_spawn(io_, try_to_meet(contact, contact.address, rank, era_), asio::detached);
}

// Contacts stay where they are for as long as this lives.
asio::awaitable<void> Meetings::try_to_meet(Contact& contact, std::string address, int rank, std::uint64_t era) {
  Verdict verdict = Verdict::elsewhere;
  try {
    verdict = co_await meet_at(contact, address, rank, era);
  } catch (const std::exception&) {  // nobody there, or nobody of this run: again later
  }
  if (const auto socket = contact.attempt.lock()) close_quietly(*socket);  // moved from, where they have met
  if (era != era_) co_return;
  contact.is_dialling = false;
  if (verdict == Verdict::admitted) co_return;
  contact.back_off =
      verdict == Verdict::busy ? kFirstBackOff : std::clamp(2 * contact.back_off, kFirstBackOff, kLongestBackOff);
  contact.due = Clock::now() + contact.back_off;
}

asio::awaitable<Verdict> Meetings::meet_at(Contact& contact, std::string address, int rank, std::uint64_t era) {
  const auto socket = std::make_shared<tcp::socket>(io_);
  contact.attempt = socket;
  auto limit = co_await connect_to(socket, parse_address(address, "a worker"), kPatience);
  limit->lift();
  limit = limit_time(socket, kPatienceWithMembers / 2);  // the acceptor must not give up first
  auto memory = std::make_unique<ProvableMemory>();
  Card own = own_card();
  own.target = rank;
  own.memory = memory->proof();
  const Card peer = co_await dial(*socket, secret_, own);
  limit->lift();
  if (era != era_ || !socket->is_open()) co_return Verdict::elsewhere;
  if (peer.rank != rank) co_return Verdict::elsewhere;
  if (peer.verdict == Verdict::outdated) {
    circle_.on_outdated(peer.known);
    co_return Verdict::outdated;
  }
  if (peer.verdict != Verdict::admitted) co_return peer.verdict;
  Contact& known = contacts_[peer.rank];
  const bool is_newer = peer.incarnation > known.known;
  if (peer.incarnation < known.known || (circle_.is_met(peer.rank) && !is_newer)) co_return Verdict::elsewhere;
  known.known = peer.incarnation;
  known.instance = peer.instance;
  known.address = peer.address;
  known.back_off = {};
  circle_.meet(std::move(*socket), peer, std::move(memory), {&kHeard, 1});
  co_return Verdict::admitted;
}

Card Meetings::own_card() const {
  Card card;
  card.rank = rank_;
  card.incarnation = incarnation_;
  card.instance = instance_;
  card.address = address_;
  return card;
}

asio::awaitable<void> Meetings::serve() {
  while (acceptor_.is_open()) {
    const auto socket = std::make_shared<tcp::socket>(io_);
    std::error_code error;
    co_await acceptor_.async_accept(*socket, asio::redirect_error(use_awaitable, error));
    if (!acceptor_.is_open()) co_return;
    if (error) {  // such as too many open files
      co_await pause_for(io_, kFirstBackOff);
      continue;
    }
    half_open_.add(socket);
    asio::co_spawn(io_, admit(socket), asio::detached);
  }
}

asio::awaitable<void> Meetings::admit(Socket socket) {
  const std::uint64_t era = era_;
  auto memory = std::make_unique<ProvableMemory>();
  std::optional<Card> admitted;
  auto limit = limit_time(socket, kPatience);
  const std::function<Card(const Card&)> decide = [&](const Card& dialler) {
    limit->lift();
    limit = limit_time(socket, kPatienceWithMembers);
    Card own = judge(dialler);
    own.memory = memory->proof();
    if (own.verdict == Verdict::admitted && era == era_) {
      admitted = dialler;
      contacts_[dialler.rank].is_accepting = true;
    }
    return own;
  };
  bool is_through = false;
  try {
    co_await accept(*socket, secret_, decide);
    is_through = true;
  } catch (const std::exception&) {  // a stranger, or one that has gone: both are nobody to us
  }
  limit->lift();
  if (admitted && era == era_) {
    Contact& contact = contacts_[admitted->rank];
    contact.is_accepting = false;
    if (is_through) {
      contact.back_off = {};
      if (const auto attempt = contact.attempt.lock(); attempt && contact.is_dialling) close_quietly(*attempt);
      circle_.meet(std::move(*socket), *admitted, std::move(memory), {});
      co_return;
    }
  }
  close_quietly(*socket);
}

Card Meetings::judge(const Card& dialler) {
  Card own = own_card();
  if (dialler.rank == rank_ || (dialler.target >= 0 && dialler.target != rank_)) {
    own.verdict = Verdict::elsewhere;
    return own;
  }
  Contact& contact = contacts_[dialler.rank];
  const bool is_same = dialler.incarnation == contact.known;
  if (dialler.incarnation < contact.known ||
      (is_same && contact.instance != 0 && contact.instance != dialler.instance)) {
    own.verdict = Verdict::outdated;
    own.known = contact.known;
  } else if (!is_open_ || contact.is_accepting || (is_same && contact.is_dialling && rank_ < dialler.rank)) {
    own.verdict = Verdict::busy;
  } else if (is_same && circle_.is_met(dialler.rank)) {
    circle_.probe(dialler.rank);
    own.verdict = Verdict::busy;
  } else {
    contact.known = dialler.incarnation;
    contact.instance = dialler.instance;
    contact.address = dialler.address;
  }
  return own;
}

}  // namespace flockstep::engines::mesh
