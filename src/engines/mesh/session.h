// What two workers have under way with each other: sends and receives that wait for their other ends, and messages that
// move. It begins before the two have met, has one connection, and is over when that is. The connections' thread only.
//
// A send is offered to the receiver, a small one together with its bytes. The receiver takes the offer when it has a
// place for it: it reads the bytes from the sender's memory where it can, else it pulls them through the connection.
// `taken` ends the send. So a message that nobody wants costs its receiver a header, and a send can be retracted until
// it is taken.
#pragma once

#include <asio/any_io_executor.hpp>
#include <deque>
#include <map>
#include <unordered_map>

#include "engines/mesh/connection.h"
#include "engines/mesh/copier.h"
#include "engines/mesh/exchange.h"

namespace flockstep::engines::mesh {

class Session final : public Connection::Owner, public std::enable_shared_from_this<Session> {
 public:
  struct Home {  // of all sessions of a worker
    virtual ~Home() = default;
    virtual bool hear_control(int peer, Incarnation incarnation, ConstBytes payload) = 0;  // false: too many
    virtual void hear_book(const Book& book) = 0;
    virtual std::vector<std::byte> answer() = 0;  // to the roll call
    virtual bool hear_answer(int peer, ConstBytes payload) = 0;
    virtual void on_mismatch(int peer, std::size_t expected, std::size_t sent) = 0;
    virtual void on_lost(Session& session, const std::string& sentence) = 0;  // not after leave()
    virtual void on_settled() = 0;                                            // the connection is idle
    virtual void copy(std::shared_ptr<CopyJob> job) = 0;
    virtual asio::any_io_executor executor() = 0;
    virtual bool reads_memory() const = 0;
  };

  Session(Home& home, int peer) : home_(home), peer_(peer) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int peer() const { return peer_; }
  Incarnation incarnation() const { return incarnation_; }  // the peer's, once they have met
  bool is_met() const { return connection_ != nullptr && !is_over_; }
  bool is_over() const { return is_over_; }
  bool is_settled() const { return is_over_ && is_idle_; }

  void meet(std::shared_ptr<Connection> connection, Incarnation incarnation, const MemoryProof& memory,
            const Book& book);
  void post(const PartPtr& part);
  void withdraw(const PartPtr& part);
  void say(FrameCode code, ConstBytes payload = {});
  void leave(ConstBytes farewell);   // as Connection's
  void close(std::string_view why);  // the connection, if there is one
  void tend(Clock::time_point now, bool forgive);

  bool hear(const FrameHeader& header, ConstBytes payload) override;
  std::optional<Bytes> place_for(const FrameHeader& header) override;
  void placed(const FrameHeader& header) override;
  void on_closed(std::string_view why) override;
  void on_idle() override;

 private:
  struct Key {
    Kind kind;
    Tag tag;
    auto operator<=>(const Key&) const = default;
  };
  struct Offer {  // that no receive has been posted for
    std::uint64_t number;
    std::size_t size;
    std::uint64_t place;
    std::optional<std::vector<std::byte>> message;  // a small one
  };
  struct Incoming {  // that was taken
    PartPtr part;    // null: its bytes are thrown away
    std::size_t size = 0, received = 0;
    bool is_in_place = false;  // a slice is being received
  };

  static Key key_of(const Part& part) { return {part.exchange->kind(), part.exchange->number()}; }
  void offer(const PartPtr& part);
  bool hear_offer(const FrameHeader& header, ConstBytes payload);
  bool hear_pull(std::uint64_t number);
  bool hear_taken(std::uint64_t number);
  void hear_retract(std::uint64_t number);
  bool hear_retracted(std::uint64_t number);
  bool hear_farewell(ConstBytes payload);
  void take(const PartPtr& part, const FrameHeader& offer, ConstBytes message);
  void on_copied(std::uint64_t number, CopyJob::End end);
  void say_number(FrameCode code, std::uint64_t number);
  void end_sends(std::uint64_t number, bool has_come);
  void lose_parts();

  Home& home_;
  const int peer_;
  std::shared_ptr<Connection> connection_;
  Incarnation incarnation_ = 0;
  MemoryProof memory_;
  bool is_readable_ = false;  // the peer's memory
  bool is_over_ = false, is_left_ = false, is_idle_ = false;
  std::optional<Error> told_;  // by the peer, why it ends

  std::deque<PartPtr> unsent_;  // before they have met
  std::uint64_t last_offer_ = 0, last_heard_offer_ = 0;
  std::map<std::uint64_t, PartPtr> sends_;  // offered, by number
  std::size_t inline_sends_ = 0;            // of them
  std::map<Key, std::deque<PartPtr>> receives_;
  std::map<Key, std::deque<Offer>> offers_;
  std::unordered_map<std::uint64_t, Key> key_of_offer_;
  std::size_t inline_offers_ = 0;
  std::map<std::uint64_t, Incoming> incoming_;
  std::vector<std::byte> scratch_;  // for what is thrown away
};

}  // namespace flockstep::engines::mesh
