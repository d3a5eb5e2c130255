#include "engines/mesh/store_client.h"

#include <fmt/core.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <numeric>
#include <thread>

#include "engines/mesh/frames.h"
#include "engines/mesh/sockets.h"
#include "engines/mesh/wire.h"

namespace flockstep::engines::mesh {
namespace {

using asio::use_awaitable;
using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto kPatienceWithOne = 2s;  // attempt
constexpr auto kBackOff = 100ms;

StoreAnswer ask(const StoreAddress& store, const StoreRequest& request) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(store.patience);
  while (true) {
    std::string why;
    try {
      asio::io_context io;
      StoreAnswer answer;
      std::exception_ptr thrown;
      asio::co_spawn(io, ask_store(store, request), [&](std::exception_ptr error, StoreAnswer got) {
        thrown = error;
        answer = std::move(got);
        io.stop();
      });
      io.run();
      if (thrown) std::rethrow_exception(thrown);
      return answer;
    } catch (const std::system_error& error) {  // such as a connection that a flood of others has closed
      const bool is_late =
          error.code() == asio::error::operation_aborted || error.code() == asio::error::bad_descriptor;
      why = is_late ? fmt::format("it has said nothing for {} s", kPatienceWithOne.count()) : error.code().message();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;
      why = error.what();
    }
    if (std::chrono::steady_clock::now() + kBackOff >= end)
      throw Error(ErrorCode::unavailable, fmt::format("the run's store at {} does not answer: {}", store.address, why),
                  "mesh");
    std::this_thread::sleep_for(kBackOff);
  }
}

}  // namespace

std::vector<std::byte> bytes_of_request(const StoreRequest& request) {
  WireWriter writer;
  writer.put(request.what);
  writer.put(static_cast<std::int32_t>(request.number));
  writer.put(request.at_least);
  writer.put(request.steps);
  writer.put_text(request.address);
  std::vector<std::byte> bytes = writer.bytes();
  bytes.resize(kRequestBytes);
  return bytes;
}

std::optional<StoreRequest> request_in(ConstBytes bytes) {
  WireReader reader(bytes);
  StoreRequest request;
  request.what = reader.get<StoreRequest::What>();
  request.number = reader.get<std::int32_t>();
  request.at_least = reader.get<Incarnation>();
  request.steps = reader.get<std::int64_t>();
  request.address = reader.get_text(kMostAddressBytes);
  const bool is_sound = reader.is_whole() && request.what >= StoreRequest::What::read &&
                        request.what <= StoreRequest::What::finish && request.number >= 0 &&
                        request.number < kMostRanks && request.at_least < Incarnation{1} << 30;
  return is_sound ? std::optional(request) : std::nullopt;
}

asio::awaitable<StoreAnswer> ask_store(StoreAddress store, StoreRequest request) {
  const Secret secret(store.secret);
  const auto socket = std::make_shared<tcp::socket>(co_await asio::this_coro::executor);
  const auto limit = co_await connect_to(socket, parse_address(store.address, "the store"), kPatienceWithOne);
  if (request.address.starts_with(':'))
    request.address =
        address_text(socket->local_endpoint().address().to_string(), parse_address(request.address, "a worker").port);
  const Nonces nonces = co_await exchange_nonces_as_dialler(*socket, kStoreMagic);
  WireWriter writer;
  const std::vector<std::byte> asked = bytes_of_request(request);
  writer.put_bytes(asked);
  writer.put(secret.prove("ask", {nonces[0], nonces[1], asked}));
  co_await asio::async_write(*socket, asio::buffer(writer.bytes()), use_awaitable);

  std::array<std::byte, sizeof(std::uint32_t) + sizeof(Proof)> head;
  co_await asio::async_read(*socket, asio::buffer(head), use_awaitable);
  const auto size = WireReader(head).get<std::uint32_t>();
  if (size == kOtherSecret)
    throw Error(ErrorCode::bad_input,
                fmt::format("the store at {} does not know this run: give the secret of its launcher", store.address),
                "mesh");
  if (size > sizeof(std::int32_t) + kMostBookBytes)
    throw Error(ErrorCode::unavailable, "what answers there is no store", "mesh");
  std::vector<std::byte> answered(size);
  co_await asio::async_read(*socket, asio::buffer(answered), use_awaitable);
  limit->lift();
  if (!secret.is_proven(ConstBytes(head).subspan(sizeof size), "answer", {nonces[0], nonces[1], asked, answered}))
    throw Error(ErrorCode::unavailable, "what answers there does not know the run's secret", "mesh");
  WireReader reader(answered);
  StoreAnswer answer;
  answer.number = reader.get<std::int32_t>();
  const auto book = book_in(ConstBytes(answered).subspan(std::min(sizeof(std::int32_t), answered.size())));
  if (!reader.is_whole() || !book) throw Error(ErrorCode::unavailable, "the store's answer is malformed", "mesh");
  answer.book = *book;
  co_return answer;
}

namespace {

constexpr std::string_view kOverSentence =
    "the run is over: another worker has finished, so that there is nothing to join";

}  // namespace

Registration register_worker(const StoreAddress& store, int rank, const std::string& address, Incarnation at_least) {
  StoreAnswer answer = ask(store, {StoreRequest::What::enter, rank, at_least, address});
  if (answer.number == kRunIsOver) throw Error(ErrorCode::unavailable, std::string(kOverSentence), "mesh");
  return {static_cast<Incarnation>(answer.number), std::move(answer.book)};
}

std::vector<int> reserve_ranks(const StoreAddress& store, int count) {
  const StoreAnswer answer = ask(store, {StoreRequest::What::reserve, count, 1, {}});
  if (answer.number < 0) throw Error(ErrorCode::bad_input, "the run has no more ranks to give", "mesh");
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), answer.number);
  return ranks;
}

Book read_book(const StoreAddress& store) { return ask(store, {}).book; }

int read_workers(const StoreAddress& store) { return ask(store, {}).number; }

std::optional<std::string> refusal_to_begin(const StoreAddress& store, int rank, std::int64_t steps) {
  const int answer = ask(store, {.what = StoreRequest::What::begin, .number = rank, .steps = steps}).number;
  if (answer == kRunIsOver) return std::string(kOverSentence);
  if (answer == kRunHasTrained)
    return fmt::format(
        "the run has trained already and worker {} reaches no worker that has its model: load a checkpoint and give "
        "the steps that it was trained for, or start a new run",
        rank);
  return std::nullopt;
}

void tell_progress(const StoreAddress& store, int rank) {
  ask(store, {.what = StoreRequest::What::progress, .number = rank});
}

void tell_end(const StoreAddress& store, int rank) { ask(store, {.what = StoreRequest::What::finish, .number = rank}); }

}  // namespace flockstep::engines::mesh
