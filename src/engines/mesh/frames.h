// What goes over a connection once both ends are admitted: frames, each a header of fixed size and a payload. Whatever
// does not follow these rules ends the connection.
#pragma once

#include <array>

#include "engines/mesh/book.h"

namespace flockstep::engines::mesh {

enum class FrameCode : std::uint8_t {
  heartbeat = 1,
  book,       // payload: the sender's book
  control,    // payload: a control message
  farewell,   // the last frame; payload: failure_message() of what broke the sender, or nothing
  question,   // of the roll call
  answer,     // payload: RollCall::answer()
  offer,      // of a message: kind, tag, number, size, address; payload: all of a small one
  pull,       // number: send the payload of this offer through the connection
  data,       // number, position; payload: a slice
  taken,      // number: the receiver has this message, or does without it
  retract,    // number: the sender wants this offer back
  retracted,  // number: it was not taken, and never will be
};

// What tells operations apart: messages by their tag, collectives by their number.
enum class Kind : std::uint8_t { message = 0, collective = 1 };

inline constexpr std::uint16_t kFrameMark = 0xF10C;
inline constexpr std::size_t kInlineBytes = 16 << 10;  // the longest message that comes with its offer
inline constexpr std::size_t kSliceBytes = 256 << 10;  // of data
inline constexpr std::size_t kMostPayload = 64 << 10;  // of all frames but data

struct FrameHeader {  // as it goes over the wire: no padding
  std::uint16_t mark = kFrameMark;
  FrameCode code = FrameCode::heartbeat;
  Kind kind = Kind::message;
  std::uint32_t length = 0;  // of the payload
  Incarnation from = 0, to = 0;
  Tag tag = 0;
  std::uint64_t number = 0;    // of an offer, by its sender: 1, 2 and so on
  std::uint64_t size = 0;      // of the message
  std::uint64_t position = 0;  // of a slice in it; of an offer the address of the message in its sender's memory
};
inline constexpr std::size_t kHeaderBytes = 48;
static_assert(sizeof(FrameHeader) == kHeaderBytes);

// Whether the header can be one of this connection, whatever was said before.
bool is_sound(const FrameHeader& header, Incarnation from, Incarnation to);

// As much of the book as goes into so many bytes: the rest is learnt from others.
std::vector<std::byte> book_payload(const Book& book, std::size_t most = kMostPayload);
// Nothing for bytes that book_payload() has not made.
std::optional<Book> book_in(ConstBytes payload);

}  // namespace flockstep::engines::mesh
