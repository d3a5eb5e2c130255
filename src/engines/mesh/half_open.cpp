#include "engines/mesh/half_open.h"

#include <algorithm>
#include <map>

#include "engines/mesh/sockets.h"

namespace flockstep::engines::mesh {
namespace {

// A host of IPv6 usually has a whole /64 network to itself.
std::string source_of(const asio::ip::tcp::socket& socket) {
  std::error_code error;
  const auto address = socket.remote_endpoint(error).address();
  if (error || !address.is_v6()) return error ? "" : address.to_string();
  const auto bytes = address.to_v6().to_bytes();
  return {bytes.begin(), bytes.begin() + 8};
}

}  // namespace

void HalfOpen::add(const std::shared_ptr<asio::ip::tcp::socket>& socket) {
  std::erase_if(all_, [](const One& one) { return one.socket.expired(); });
  all_.push_back({source_of(*socket), socket});
  if (all_.size() <= kMostHalfOpen) return;
  std::map<std::string, std::size_t> counts;
  for (const One& one : all_) ++counts[one.source];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  const auto oldest = std::ranges::find(all_, most->first, &One::source);
  if (const auto open = oldest->socket.lock()) close_quietly(*open);
  all_.erase(oldest);
}

void HalfOpen::close() {
  for (const One& one : all_)
    if (const auto open = one.socket.lock()) close_quietly(*open);
}

}  // namespace flockstep::engines::mesh
