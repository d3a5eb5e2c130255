#include "engines/mesh/address.h"

#include <fmt/core.h>

#include <charconv>

#include "engines/mesh/book.h"
#include "flockstep/error.h"

namespace flockstep::engines::mesh {

HostAndPort parse_address(std::string_view text, std::string_view what) {
  const std::size_t colon = text.rfind(':');
  HostAndPort parsed;
  bool is_sound = colon != std::string_view::npos && text.size() <= kMostAddressBytes;
  if (is_sound) {
    std::string_view host = text.substr(0, colon);
    const std::string_view port = text.substr(colon + 1);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
      host = host.substr(1, host.size() - 2);
    else
      is_sound = host.find(':') == std::string_view::npos;
    parsed.host = host;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
    is_sound = is_sound && error == std::errc() && end == port.data() + port.size();
  }
  if (!is_sound) throw Error(ErrorCode::bad_input, fmt::format("{} is '{}': give host:port", what, text), "mesh");
  return parsed;
}

std::string address_text(std::string_view host, std::uint16_t port) {
  const bool has_colons = host.find(':') != std::string_view::npos;
  return has_colons ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace flockstep::engines::mesh
