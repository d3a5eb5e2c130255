// Sockets as the listeners and diallers of this folder use them.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "engines/mesh/address.h"

namespace flockstep::engines::mesh {

// Throws Error{unavailable}; `what` is who listens, such as "a worker".
void listen_at(asio::ip::tcp::acceptor& acceptor, const HostAndPort& place, std::string_view what);
bool is_loopback(const std::string& host);
void close_quietly(asio::ip::tcp::socket& socket) noexcept;
asio::awaitable<void> pause_for(asio::io_context& io, std::chrono::nanoseconds duration);
// Closes a socket when the time is up, unless it is lifted before, or the socket is gone.
struct TimeLimit {
  asio::steady_timer timer;
  bool is_lifted = false;

  void lift() {  // the timer alone does not do: it may have run out already, without having been heard
    is_lifted = true;
    timer.cancel();
  }
};
using TimeLimitPtr = std::shared_ptr<TimeLimit>;
TimeLimitPtr limit_time(const std::shared_ptr<asio::ip::tcp::socket>& socket, std::chrono::nanoseconds patience);
// Throws std::system_error. The time is limited from when the host's name is looked up.
asio::awaitable<TimeLimitPtr> connect_to(std::shared_ptr<asio::ip::tcp::socket> socket, HostAndPort place,
                                         std::chrono::nanoseconds patience);

}  // namespace flockstep::engines::mesh
