// Somebody who speaks to a mesh worker without being one: it may or may not know the secret, and says what it likes.
#pragma once

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <exception>

#include "engines/mesh/address.h"
#include "engines/mesh/frames.h"
#include "engines/mesh/handshake.h"

namespace flockstep::engines::conformance {

class Stranger {
 public:
  explicit Stranger(const std::string& address, const std::string& from = "127.0.0.1") {
    const auto place = mesh::parse_address(address, "a worker");
    socket_.open(asio::ip::tcp::v4());
    socket_.bind({asio::ip::make_address(from), 0});
    socket_.connect({asio::ip::make_address(place.host), place.port});
  }

  // As a worker that knows the secret; the card of the one who is there.
  mesh::Card greet(const mesh::Secret& secret, int rank, Incarnation incarnation = 1, std::uint64_t instance = 77) {
    mesh::Card own, peer;
    own.rank = rank;
    own.incarnation = incarnation;
    own.instance = instance;
    own.address = "127.0.0.1:1";  // where nobody listens
    std::exception_ptr thrown;
    asio::co_spawn(io_, mesh::dial(socket_, secret, own), [&](std::exception_ptr error, const mesh::Card& card) {
      thrown = error;
      peer = card;
    });
    io_.restart();
    io_.run();
    if (thrown) std::rethrow_exception(thrown);
    if (peer.verdict == mesh::Verdict::admitted) say({&mesh::kHeard, 1});
    return peer;
  }

  void say(ConstBytes bytes) { asio::write(socket_, asio::buffer(bytes.data(), bytes.size())); }
  void say(mesh::FrameHeader header, Incarnation from = 1, Incarnation to = 1) {
    header.from = from;
    header.to = to;
    say(std::as_bytes(std::span(&header, 1)));
  }
  void hear(Bytes bytes) { asio::read(socket_, asio::buffer(bytes.data(), bytes.size())); }
  // Whether the other side closes the connection, in good time; what it says before is thrown away.
  bool is_closed() {
    std::array<std::byte, 4096> ignored;
    bool is_closed = false;
    const std::function<void()> read = [&] {
      socket_.async_read_some(asio::buffer(ignored), [&](const std::error_code& error, std::size_t) {
        is_closed = static_cast<bool>(error) && error != asio::error::operation_aborted;
        if (!error) read();
      });
    };
    read();
    io_.restart();
    io_.run_for(std::chrono::minutes(1));
    if (!is_closed) {
      socket_.cancel();
      io_.run();
    }
    return is_closed;
  }

 private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_{io_};
};

}  // namespace flockstep::engines::conformance
