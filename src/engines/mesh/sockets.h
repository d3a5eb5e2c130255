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
// Closes the socket when the time is up, unless it is cancelled or gone before.
std::shared_ptr<asio::steady_timer> limit_time(const std::shared_ptr<asio::ip::tcp::socket>& socket,
                                               std::chrono::nanoseconds patience);
// Throws std::system_error. The time is limited from when the host's name is looked up.
asio::awaitable<std::shared_ptr<asio::steady_timer>> connect_to(std::shared_ptr<asio::ip::tcp::socket> socket,
                                                                HostAndPort place, std::chrono::nanoseconds patience);

}  // namespace flockstep::engines::mesh
