// Small pictures as files, for tests: PNG made here, JPEG made by another program.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "flockstep/error.h"
#include "tasks/images/picture.h"

namespace flockstep::tasks {

inline std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

inline std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string checked = type + data;
  const auto sum = ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + checked + big_endian(static_cast<std::uint32_t>(sum));
}

// The header's fields behind width and height are those of red, green and blue in bytes.
inline std::string png_header(std::uint32_t width, std::uint32_t height) {
  return big_endian(width) + big_endian(height) + std::string("\x08\x02\0\0\0", 5);
}

inline std::string packed(const std::string& bytes) {
  std::string out(bytes.size() + 100, '\0');
  auto size = static_cast<uLongf>(out.size());
  ::compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
             static_cast<uLong>(bytes.size()));
  out.resize(size);
  return out;
}

inline constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

// `pixels` row by row, red, green and blue.
inline std::string png_bytes(std::uint32_t width, std::uint32_t height, const std::string& pixels) {
  std::string rows;
  for (std::size_t row = 0; row < height; ++row)
    rows += std::string(1, '\0') + pixels.substr(row * 3 * width, 3 * std::size_t{width});  // 0: as they are
  return std::string(kPngSignature) + png_chunk("IHDR", png_header(width, height)) + png_chunk("IDAT", packed(rows)) +
         png_chunk("IEND", "");
}

inline std::string from_hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<char>(16 * digit(text[i]) + digit(text[i + 1])));
  return bytes;
}

// 16 x 8 pixels: (200, 30, 20) on the left, (20, 40, 220) on the right.
inline std::string jpeg_bytes() {
  return from_hex(
      "ffd8ffe000104a46494600010100000100010000ffdb0043000503040404030504040405050506070c08070707070f0b0b090c110f121211"
      "0f111113161c1713141a1511111821181a1d1d1f1f1f13172224221e241c1e1f1effdb0043010505050706070e08080e1e1411141e1e1e1e"
      "1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1effc00011080008001003"
      "011100021101031101ffc4001500010100000000000000000000000000000607ffc40014100100000000000000000000000000000000ffc4"
      "001501010100000000000000000000000000000806ffc40014110100000000000000000000000000000000ffda000c03010002110311003f"
      "00992248a1732c4d7fffd9");
}
// The same, in scans from coarse to fine.
inline std::string progressive_jpeg_bytes() {
  return from_hex(
      "ffd8ffe000104a46494600010100000100010000ffdb0043000503040404030504040405050506070c08070707070f0b0b090c110f121211"
      "0f111113161c1713141a1511111821181a1d1d1f1f1f13172224221e241c1e1f1effdb0043010505050706070e08080e1e1411141e1e1e1e"
      "1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1effc20011080008001003"
      "011100021101031101ffc4001500010100000000000000000000000000000506ffc4001501010100000000000000000000000000000705ff"
      "da000c0301000210031000000198888a5b2937ffc40014100100000000000000000000000000000010ffda00080101000105023fffc40014"
      "110100000000000000000000000000000010ffda0008010301013f013fffc40014110100000000000000000000000000000010ffda000801"
      "0201013f013fffc40014100100000000000000000000000000000010ffda0008010100063f023fffc4001410010000000000000000000000"
      "0000000010ffda0008010100013f213fffda000c030100020003000000109bffc40014110100000000000000000000000000000010ffda00"
      "08010301013f103fffc40014110100000000000000000000000000000010ffda0008010201013f103fffc400141001000000000000000000"
      "00000000000010ffda0008010100013f103fffd9");
}
// The same in grey.
inline std::string grey_jpeg_bytes() {
  return from_hex(
      "ffd8ffe000104a46494600010100000100010000ffdb0043000503040404030504040405050506070c08070707070f0b0b090c110f121211"
      "0f111113161c1713141a1511111821181a1d1d1f1f1f13172224221e241c1e1f1effc0000b080008001001011100ffc40015000101000000"
      "00000000000000000000000607ffc40014100100000000000000000000000000000000ffda0008010100003f00990bbfffd9");
}

inline std::span<const std::byte> as_file(const std::string& text) { return std::as_bytes(std::span(text)); }

// Whether this build reads such files; one that does not must say so.
inline bool build_reads(const std::string& good_file) {
  try {
    decode_picture(as_file(good_file), "the file");
  } catch (const Error& error) {
    return error.code() != ErrorCode::unavailable;
  }
  return true;
}

}  // namespace flockstep::tasks
