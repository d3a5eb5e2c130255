// Addresses as users write them: host:port, or [host]:port for one with colons in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flockstep::engines::mesh {

struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
};

// Throws Error{bad_input}, naming `what` the address is.
HostAndPort parse_address(std::string_view text, std::string_view what);
std::string address_text(std::string_view host, std::uint16_t port);

}  // namespace flockstep::engines::mesh
