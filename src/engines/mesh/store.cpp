#include "engines/mesh/store.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "engines/mesh/frames.h"
#include "engines/mesh/half_open.h"
#include "engines/mesh/sockets.h"
#include "engines/mesh/store_client.h"
#include "engines/mesh/wire.h"

namespace flockstep::engines::mesh {
namespace {

using asio::use_awaitable;
using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto kPatienceWithRequest = 2s;

}  // namespace

// The thread serves one request per connection. The lock is for those who call the Store itself.
struct Store::Server {
  explicit Server(const StoreOptions& options)
      : secret(options.secret), acceptor(io), workers(options.workers), next_rank(workers) {
    listen_at(acceptor, {options.host, options.port}, "the run's store");
    address = address_text(options.host, acceptor.local_endpoint().port());
    asio::co_spawn(io, serve(), asio::detached);
    thread = std::thread([this] { io.run(); });
  }
  ~Server() {
    io.stop();
    thread.join();
  }

  asio::awaitable<void> serve() {
    while (true) {
      const auto socket = std::make_shared<tcp::socket>(io);
      std::error_code error;
      co_await acceptor.async_accept(*socket, asio::redirect_error(use_awaitable, error));
      if (error) {
        co_await pause_for(io, 100ms);
        continue;
      }
      half_open.add(socket);
      asio::co_spawn(io, answer_one(socket), asio::detached);
    }
  }

  // A stranger without the secret gets nothing but a random number and a refusal.
  asio::awaitable<void> answer_one(std::shared_ptr<tcp::socket> socket) {
    const auto limit = limit_time(socket, kPatienceWithRequest);
    try {
      co_await answer(*socket);
    } catch (const std::exception&) {  // whoever has gone asks again
    }
    limit->lift();
    close_quietly(*socket);
  }

  asio::awaitable<void> answer(tcp::socket& socket) {
    const Nonces nonces = co_await exchange_nonces_as_acceptor(socket, kStoreMagic);
    std::array<std::byte, kRequestBytes + sizeof(Proof)> asked;
    co_await asio::async_read(socket, asio::buffer(asked), use_awaitable);
    const ConstBytes bytes = ConstBytes(asked).first(kRequestBytes);
    const bool is_proven =
        secret.is_proven(ConstBytes(asked).subspan(kRequestBytes), "ask", {nonces[0], nonces[1], bytes});
    const auto request = is_proven ? request_in(bytes) : std::nullopt;
    if (!request) {
      WireWriter refusal;
      refusal.put(kOtherSecret);
      refusal.put(Proof{});
      co_await asio::async_write(socket, asio::buffer(refusal.bytes()), use_awaitable);
      co_return;
    }
    const StoreAnswer answer = carry_out(*request);
    WireWriter body, whole;
    body.put(static_cast<std::int32_t>(answer.number));
    body.put_bytes(book_payload(answer.book, kMostBookBytes));
    whole.put(static_cast<std::uint32_t>(body.bytes().size()));
    whole.put(secret.prove("answer", {nonces[0], nonces[1], bytes, body.bytes()}));
    whole.put_bytes(body.bytes());
    co_await asio::async_write(socket, asio::buffer(whole.bytes()), use_awaitable);
  }

  StoreAnswer carry_out(const StoreRequest& request) {
    const std::lock_guard lock(mutex);
    StoreAnswer answer;
    if (request.what == StoreRequest::What::read) answer.number = workers;
    if (request.what == StoreRequest::What::reserve) answer.number = reserve(request.number);
    if (request.what == StoreRequest::What::progress) has_trained = true;
    if (request.what == StoreRequest::What::finish) is_over = true;
    if (request.what == StoreRequest::What::begin)
      answer.number = is_over ? kRunIsOver : has_trained && request.steps == 0 ? kRunHasTrained : 0;
    if (request.what == StoreRequest::What::enter && is_over) {
      answer.number = kRunIsOver;
    } else if (request.what == StoreRequest::What::enter) {
      BookEntry& entry = entries[request.number];
      entry.rank = request.number;
      entry.incarnation = std::max(entry.incarnation + 1, request.at_least);
      entry.address = request.address;
      next_rank = std::max(next_rank, request.number + 1);
      answer.number = static_cast<int>(entry.incarnation);
    }
    for (const auto& [rank, entry] : entries) answer.book.push_back(entry);
    return answer;
  }

  int reserve(int count) {  // -1: there are no more
    if (count > kMostRanks - next_rank) return -1;
    return std::exchange(next_rank, next_rank + count);
  }

  asio::io_context io;
  const Secret secret;
  tcp::acceptor acceptor;
  std::string address;
  HalfOpen half_open;
  mutable std::mutex mutex;
  std::map<int, BookEntry> entries;
  const int workers;
  int next_rank;
  bool has_trained = false;  // some worker has ended a step
  bool is_over = false;
  std::thread thread;
};

Store::Store(const StoreOptions& options) : server_(std::make_unique<Server>(options)) {}
Store::~Store() = default;

std::string Store::address() const { return server_->address; }

Book Store::book() const {
  const std::lock_guard lock(server_->mutex);
  Book book;
  for (const auto& [rank, entry] : server_->entries) book.push_back(entry);
  return book;
}

void Store::end_run() {
  const std::lock_guard lock(server_->mutex);
  server_->is_over = true;
}

bool Store::is_over() const {
  const std::lock_guard lock(server_->mutex);
  return server_->is_over;
}

bool Store::has_trained() const {
  const std::lock_guard lock(server_->mutex);
  return server_->has_trained;
}

std::vector<int> Store::reserve_ranks(int count) {
  const std::lock_guard lock(server_->mutex);
  const int first = server_->reserve(count);
  if (first < 0) throw Error(ErrorCode::bad_input, "the run has no more ranks to give", "mesh");
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

}  // namespace flockstep::engines::mesh
