// Makes the connections: listens, dials whoever is known and not there, and decides who is admitted. The connections'
// thread only, but for the constructor.
//
// Two workers may dial each other at once. The lower rank's attempt goes on then: the lower one answers `busy` while it
// dials, the higher one gives its own attempt up. One that dials though there is a connection has lost it, or has
// dialled before it was there: it is told to try again, and a word over the connection shows which.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <map>

#include "engines/mesh/connection.h"
#include "engines/mesh/half_open.h"
#include "engines/mesh/handshake.h"
#include "engines/mesh/options.h"

namespace flockstep::engines::mesh {

struct Circle {  // of those whom a worker has met
  virtual ~Circle() = default;
  virtual bool is_met(int rank) = 0;
  virtual void probe(int rank) = 0;  // whether the connection with it is still there
  // Says `first` before anything else.
  virtual void meet(asio::ip::tcp::socket socket, const Card& peer, std::unique_ptr<ProvableMemory> memory,
                    ConstBytes first) = 0;
  virtual void on_outdated(Incarnation known) = 0;  // a peer knows another process of this rank, with this incarnation
};

class Meetings {
 public:
  // Listens, and throws Error{unavailable} where it cannot.
  Meetings(asio::io_context& io, const MeshOptions& options, Circle& circle);
  Meetings(const Meetings&) = delete;
  Meetings& operator=(const Meetings&) = delete;

  // Where it listens; the host is empty as long as nobody has told it.
  std::string address() const { return address_; }
  Incarnation incarnation() const { return incarnation_; }

  void begin(Incarnation incarnation, const Book& book);  // from then on it dials and admits
  void pause();
  void close();
  void learn(const Book& book);
  Book book() const;  // as far as it is known here, with this worker
  void on_lost(int rank);
  void tend(Clock::time_point now);  // starts the attempts that are due

 private:
  using Socket = std::shared_ptr<asio::ip::tcp::socket>;
  struct Contact {
    Incarnation known = 0;
    std::uint64_t instance = 0;  // 0: not known
    std::string address;
    bool is_dialling = false, is_accepting = false;
    std::weak_ptr<asio::ip::tcp::socket> attempt;
    Clock::duration back_off{};
    Clock::time_point due{};
  };

  void listen(const MeshOptions& options);
  asio::awaitable<void> serve();
  asio::awaitable<void> admit(Socket socket);
  Card judge(const Card& dialler);
  void attempt(Contact& contact, int rank);
  asio::awaitable<void> try_to_meet(Contact& contact, std::string address, int rank, std::uint64_t era);
  asio::awaitable<Verdict> meet_at(Contact& contact, std::string address, int rank, std::uint64_t era);
  Card own_card() const;
  bool is_due(const Contact& contact, Clock::time_point now) const;

  asio::io_context& io_;
  Circle& circle_;
  const Secret secret_;
  const int rank_;
  asio::ip::tcp::acceptor acceptor_;
  std::string address_;
  Incarnation incarnation_ = 0;
  std::uint64_t instance_ = 0;
  std::uint64_t era_ = 0;  // counts begin() and pause(): attempts of an earlier one come to nothing
  bool is_open_ = false;
  std::map<int, Contact> contacts_;
  HalfOpen half_open_;
};

}  // namespace flockstep::engines::mesh
