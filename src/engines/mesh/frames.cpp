#include "engines/mesh/frames.h"

#include "engines/mesh/wire.h"
#include "engines/roll_call.h"

namespace flockstep::engines::mesh {
namespace {

std::size_t most_payload(const FrameHeader& header) {
  switch (header.code) {
    case FrameCode::book:
    case FrameCode::farewell: return kMostPayload;
    case FrameCode::control: return kControlBytes;
    case FrameCode::answer: return sizeof(RollCall::Issued);
    case FrameCode::offer: return kInlineBytes;
    case FrameCode::data: return kSliceBytes;
    case FrameCode::heartbeat:
    case FrameCode::question:
    case FrameCode::pull:
    case FrameCode::taken:
    case FrameCode::retract:
    case FrameCode::retracted: break;
  }
  return 0;
}

}  // namespace

bool is_sound(const FrameHeader& header, Incarnation from, Incarnation to) {
  const auto code = static_cast<std::uint8_t>(header.code);
  if (header.mark != kFrameMark || code < static_cast<std::uint8_t>(FrameCode::heartbeat) ||
      code > static_cast<std::uint8_t>(FrameCode::retracted))
    return false;
  if (header.from != from || header.to != to || header.length > most_payload(header)) return false;
  if (static_cast<std::uint8_t>(header.kind) > static_cast<std::uint8_t>(Kind::collective)) return false;
  if (header.code == FrameCode::offer)
    return header.tag >= 0 && header.tag <= kMaximalLongTag && (header.length == 0 || header.length == header.size);
  if (header.code == FrameCode::data) return header.length > 0;
  return true;
}

std::vector<std::byte> book_payload(const Book& book, std::size_t most) {
  WireWriter writer;
  for (const BookEntry& entry : book) {
    if (writer.bytes().size() + 10 + entry.address.size() > most) break;
    writer.put(static_cast<std::int32_t>(entry.rank));
    writer.put(entry.incarnation);
    writer.put_text(entry.address);
  }
  return writer.bytes();
}

std::optional<Book> book_in(ConstBytes payload) {
  WireReader reader(payload);
  Book book;
  while (!reader.is_at_end()) {
    BookEntry entry;
    entry.rank = reader.get<std::int32_t>();
    entry.incarnation = reader.get<Incarnation>();
    entry.address = reader.get_text(kMostAddressBytes);
    const bool rises = book.empty() ? entry.rank >= 0 : entry.rank > book.back().rank;
    if (!reader.is_whole() || !rises || entry.rank >= kMostRanks || entry.incarnation == 0) return {};
    book.push_back(std::move(entry));
  }
  return book;
}

}  // namespace flockstep::engines::mesh
