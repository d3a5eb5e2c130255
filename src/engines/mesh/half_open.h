// Half-open connections: the other end has not proven yet that it knows the run's secret. There is room for a few
// hundred. When the room is full, the source address with the most connections loses its oldest one: so a flood from
// one address does not close the handshakes of others.
#pragma once

#include <asio/ip/tcp.hpp>
#include <list>
#include <memory>

namespace flockstep::engines::mesh {

inline constexpr std::size_t kMostHalfOpen = 256;

class HalfOpen {
 public:
  // A connection counts for as long as its socket exists. It may close an older one.
  void add(const std::shared_ptr<asio::ip::tcp::socket>& socket);
  void close();  // all of them

 private:
  struct One {
    std::string source;
    std::weak_ptr<asio::ip::tcp::socket> socket;
  };
  std::list<One> all_;  // the oldest first
};

}  // namespace flockstep::engines::mesh
