// Frames over one socket. Small frames go out in their order, between the slices of long messages; long messages come
// into the place that their receiver has for them. The connections' thread only.
#pragma once

#include <asio/ip/tcp.hpp>
#include <chrono>
#include <deque>

#include "engines/mesh/frames.h"
#include "engines/mesh/memory_proof.h"

namespace flockstep::engines::mesh {

using Clock = std::chrono::steady_clock;

struct ConnectionEnds {
  Incarnation own = 0, peer = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Owner {
    virtual ~Owner() = default;
    // False for what breaks the rules, which ends the connection.
    virtual bool hear(const FrameHeader& header, ConstBytes payload) = 0;
    // Where a slice goes, as long as its payload; nothing where it breaks the rules. placed() follows, or on_idle().
    virtual std::optional<Bytes> place_for(const FrameHeader& header) = 0;
    virtual void placed(const FrameHeader& header) = 0;
    virtual void on_closed(std::string_view why) = 0;  // once
    virtual void on_idle() = 0;                        // once, after it: nobody here touches anybody's bytes any more
  };

  // Says `first` before all frames.
  Connection(asio::ip::tcp::socket socket, ConnectionEnds ends, std::unique_ptr<ProvableMemory> memory,
             Clock::duration timeout, ConstBytes first);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start(std::shared_ptr<Owner> owner);
  void say(FrameHeader header, ConstBytes payload = {});
  void stream(std::uint64_t number, ConstBytes message);  // in slices; it belongs to the connection until it is idle
  bool is_streaming(std::uint64_t number) const;
  // Says this last, throws away what comes, and ends when the peer does.
  void leave(ConstBytes farewell);
  void close(std::string_view why);
  bool is_closed() const { return is_closed_; }
  // Says that this end is alive, and ends the connection when the peer has been silent for too long.
  void tend(Clock::time_point now);
  void forgive_silence(Clock::time_point now) { heard_ = now; }  // when nobody was there to hear

 private:
  struct Stream {
    std::uint64_t number;
    ConstBytes message;
    std::size_t sent = 0;
  };
  void append(FrameHeader header, ConstBytes payload);
  void pump();
  void on_written(const std::error_code& error);
  void parse();
  bool parse_one();  // false where more bytes have to come first, or none will
  void read();
  void read_slice();
  void on_read(const std::error_code& error, std::size_t count);
  void settle();

  asio::ip::tcp::socket socket_;
  const ConnectionEnds ends_;
  const std::unique_ptr<ProvableMemory> memory_;
  const Clock::duration timeout_;
  std::shared_ptr<Owner> owner_;  // until it is idle

  std::vector<std::byte> unsent_, sending_;
  FrameHeader slice_header_;
  std::deque<Stream> streams_;
  std::optional<std::size_t> slice_sending_;  // of the first stream
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of the bytes in the buffer that were not looked at
  FrameHeader slice_;
  Bytes slice_place_;  // what is left of it
  bool is_reading_ = false, is_writing_ = false, is_closed_ = false, is_leaving_ = false, has_shut_ = false;
  Clock::time_point heard_ = Clock::now(), said_ = Clock::now();
};

}  // namespace flockstep::engines::mesh
