#include "engines/mesh/connection.h"

#include <fmt/core.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>
#include <cstring>
#include <utility>

namespace flockstep::engines::mesh {
namespace {

constexpr std::size_t kBufferBytes = 2 * kMostPayload;
constexpr std::size_t kMostUnsent = 64 << 20;  // a peer that takes no frames any more

void set_option(asio::ip::tcp::socket& socket, int level, int option, int value) {
  (void)setsockopt(socket.native_handle(), level, option, &value,
                   sizeof value);  // one that is missing costs speed only
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, ConnectionEnds ends, std::unique_ptr<ProvableMemory> memory,
                       Clock::duration timeout, ConstBytes first)
    : socket_(std::move(socket)),
      ends_(ends),
      memory_(std::move(memory)),
      timeout_(timeout),
      unsent_(first.begin(), first.end()),
      buffer_(kBufferBytes) {
  const auto timeout_ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  set_option(socket_, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket_, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout_ms));
  set_option(socket_, IPPROTO_TCP, TCP_NOTSENT_LOWAT,
             static_cast<int>(kSliceBytes));  // what may be overtaken by nobody
}

void Connection::start(std::shared_ptr<Owner> owner) {
  owner_ = std::move(owner);
  heard_ = Clock::now();
  std::error_code error;
  socket_.non_blocking(true, error);
  read();
}

void Connection::append(FrameHeader header, ConstBytes payload) {
  header.from = ends_.own;
  header.to = ends_.peer;
  header.length = static_cast<std::uint32_t>(payload.size());
  const ConstBytes bytes = std::as_bytes(std::span(&header, 1));
  unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  unsent_.insert(unsent_.end(), payload.begin(), payload.end());
}

void Connection::say(FrameHeader header, ConstBytes payload) {
  if (is_closed_ || is_leaving_) return;
  append(header, payload);
  if (unsent_.size() > kMostUnsent) return close("takes nothing any more");
  pump();
}

void Connection::stream(std::uint64_t number, ConstBytes message) {
  if (is_closed_ || is_leaving_) return;
  streams_.push_back({number, message});
  pump();
}

// Its last slice may have arrived, and been answered, before this end hears that it was written.
bool Connection::is_streaming(std::uint64_t number) const {
  const auto found = std::ranges::find(streams_, number, &Stream::number);
  if (found == streams_.end()) return false;
  return found->sent + (found == streams_.begin() ? slice_sending_.value_or(0) : 0) < found->message.size();
}

void Connection::pump() {
  if (is_writing_ || is_closed_ || has_shut_) return;
  if (is_leaving_ && !slice_sending_) streams_.clear();
  if (unsent_.empty() && streams_.empty()) {
    if (!is_leaving_) return;
    has_shut_ = true;
    std::error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    return;
  }
  std::array<asio::const_buffer, 3> buffers;
  sending_.clear();
  std::swap(sending_, unsent_);
  buffers[0] = asio::buffer(sending_);
  if (!streams_.empty()) {
    const Stream& stream = streams_.front();
    const ConstBytes slice =
        stream.message.subspan(stream.sent, std::min(stream.message.size() - stream.sent, kSliceBytes));
    slice_sending_ = slice.size();
    slice_header_ = {.code = FrameCode::data,
                     .length = static_cast<std::uint32_t>(slice.size()),
                     .from = ends_.own,
                     .to = ends_.peer,
                     .number = stream.number,
                     .size = stream.message.size(),
                     .position = stream.sent};
    buffers[1] = asio::buffer(&slice_header_, sizeof slice_header_);
    buffers[2] = asio::buffer(slice.data(), slice.size());
  }
  is_writing_ = true;
  asio::async_write(socket_, buffers, [self = shared_from_this()](const std::error_code& error, std::size_t) {
    self->on_written(error);
  });
}

void Connection::on_written(const std::error_code& error) {
  is_writing_ = false;
  said_ = Clock::now();
  if (is_closed_) return settle();
  if (error) return close(error.message());
  if (const auto sent = std::exchange(slice_sending_, {})) {  // the next slice is one of the next stream
    Stream stream = streams_.front();
    streams_.pop_front();
    stream.sent += *sent;
    if (stream.sent < stream.message.size()) streams_.push_back(stream);
  }
  pump();
}

void Connection::read() {
  if (is_closed_) return settle();
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  is_reading_ = true;
  socket_.async_read_some(
      asio::buffer(buffer_.data() + end_, buffer_.size() - end_),
      [self = shared_from_this()](const std::error_code& error, std::size_t count) { self->on_read(error, count); });
}

void Connection::on_read(const std::error_code& error, std::size_t count) {
  is_reading_ = false;
  if (is_closed_) return settle();
  if (error) return close(error == asio::error::eof ? "has closed its connection" : error.message());
  end_ += count;
  parse();
}

void Connection::parse() {
  while (parse_one()) {
  }
  if (is_closed_) return settle();
  if (slice_place_.empty())
    read();
  else
    read_slice();
}

bool Connection::parse_one() {
  if (is_closed_ || end_ - begin_ < kHeaderBytes) return false;
  FrameHeader header;
  std::memcpy(&header, buffer_.data() + begin_, sizeof header);
  if (!is_sound(header, ends_.peer, ends_.own)) {
    close("has sent an invalid frame");
    return false;
  }
  const ConstBytes rest = ConstBytes(buffer_).subspan(begin_ + kHeaderBytes, end_ - begin_ - kHeaderBytes);
  if (header.code == FrameCode::data) {
    const auto place = owner_->place_for(header);
    if (!place) {
      close("has sent a slice that nobody asked for");
      return false;
    }
    const ConstBytes here = rest.first(std::min<std::size_t>(rest.size(), header.length));
    std::ranges::copy(here, place->data());
    begin_ += kHeaderBytes + here.size();
    heard_ = Clock::now();
    slice_ = header;
    slice_place_ = place->subspan(here.size());
    if (!slice_place_.empty()) return false;
    owner_->placed(header);
    return true;
  }
  if (rest.size() < header.length) return false;
  begin_ += kHeaderBytes + header.length;
  heard_ = Clock::now();
  if (!owner_->hear(header, rest.first(header.length))) {
    close("has sent a frame that breaks the rules");
    return false;
  }
  return true;
}

void Connection::read_slice() {
  is_reading_ = true;
  socket_.async_read_some(asio::buffer(slice_place_.data(), slice_place_.size()),
                          [self = shared_from_this()](const std::error_code& error, std::size_t count) {
                            self->is_reading_ = false;
                            if (self->is_closed_) return self->settle();
                            if (error) return self->close("has closed its connection during a message");
                            self->heard_ = Clock::now();
                            self->slice_place_ = self->slice_place_.subspan(count);
                            if (self->slice_place_.empty()) self->owner_->placed(self->slice_);
                            self->parse();
                          });
}

void Connection::leave(ConstBytes farewell) {
  if (is_closed_ || is_leaving_) return;
  append({.code = FrameCode::farewell}, farewell);
  is_leaving_ = true;
  pump();
}

void Connection::close(std::string_view why) {
  if (is_closed_) return;
  const auto self = shared_from_this();
  is_closed_ = true;
  memory_->revoke();
  std::error_code ignored;
  socket_.close(ignored);
  if (owner_) owner_->on_closed(why);
  asio::post(socket_.get_executor(), [self] { self->settle(); });  // never amid what the owner does
}

void Connection::settle() {
  if (!is_closed_ || is_reading_ || is_writing_ || !owner_) return;
  std::exchange(owner_, nullptr)->on_idle();
}

void Connection::tend(Clock::time_point now) {
  if (is_closed_) return;
  if (now - heard_ > timeout_)
    return close(fmt::format("has been silent for {:.3g} s", std::chrono::duration<double>(timeout_).count()));
  if (!is_writing_ && now - said_ >= timeout_ / 4) say({.code = FrameCode::heartbeat});
}

}  // namespace flockstep::engines::mesh
