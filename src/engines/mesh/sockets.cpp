#include "engines/mesh/sockets.h"

#include <fmt/core.h>

#include <asio/connect.hpp>
#include <asio/use_awaitable.hpp>

#include "flockstep/error.h"

namespace flockstep::engines::mesh {

using asio::use_awaitable;
using asio::ip::tcp;

void listen_at(tcp::acceptor& acceptor, const HostAndPort& place, std::string_view what) {
  try {
    tcp::resolver resolver(acceptor.get_executor());
    const tcp::endpoint endpoint =
        *resolver.resolve(place.host, std::to_string(place.port), tcp::resolver::passive).begin();
    acceptor.open(endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen();
    acceptor.non_blocking(true);
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::unavailable,
                fmt::format("{} cannot listen at {}: {}; name an address of this host that is free", what,
                            address_text(place.host, place.port), error.code().message()),
                "mesh");
  }
}

bool is_loopback(const std::string& host) {
  std::error_code error;
  const auto address = asio::ip::make_address(host, error);
  return error ? host == "localhost" : address.is_loopback();
}

void close_quietly(tcp::socket& socket) noexcept {
  std::error_code ignored;
  socket.close(ignored);
}

asio::awaitable<void> pause_for(asio::io_context& io, std::chrono::nanoseconds duration) {
  asio::steady_timer timer(io, duration);
  co_await timer.async_wait(use_awaitable);
}

TimeLimitPtr limit_time(const std::shared_ptr<tcp::socket>& socket, std::chrono::nanoseconds patience) {
  auto limit = std::make_shared<TimeLimit>(asio::steady_timer(socket->get_executor(), patience));
  limit->timer.async_wait([limit, weak = std::weak_ptr(socket)](const std::error_code&) {
    if (const auto open = weak.lock(); open && !limit->is_lifted) close_quietly(*open);
  });
  return limit;
}

// An address of numbers is not looked up, which would take a thread of its own.
asio::awaitable<TimeLimitPtr> connect_to(std::shared_ptr<tcp::socket> socket, HostAndPort place,
                                         std::chrono::nanoseconds patience) {
  std::error_code error;
  const auto address = asio::ip::make_address(place.host, error);
  if (!error) {
    const auto limit = limit_time(socket, patience);
    co_await socket->async_connect({address, place.port}, use_awaitable);
    co_return limit;
  }
  tcp::resolver resolver(socket->get_executor());
  const auto found = co_await resolver.async_resolve(place.host, std::to_string(place.port), use_awaitable);
  const auto limit = limit_time(socket, patience);
  co_await asio::async_connect(*socket, found, use_awaitable);
  co_return limit;
}

}  // namespace flockstep::engines::mesh
