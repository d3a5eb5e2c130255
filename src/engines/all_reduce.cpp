#include "engines/all_reduce.h"

#include <algorithm>

#include "base/partition.h"
#include "engines/wait.h"

namespace flockstep::engines {

// Through buffers of the engine's memory, which outlive a transfer that can no longer be waited for.
std::vector<double> all_reduce(Engine& engine, std::vector<double> values, base::Time deadline) {
  const auto size = static_cast<std::size_t>(engine.size()), rank = static_cast<std::size_t>(engine.rank());
  if (size == 1 || values.empty()) return values;
  const base::Partition parts(values.size(), size);
  const std::size_t mine = parts.size(rank);

  const auto whole = engine.memory().allocate<double>(values.size(), "all_reduce");
  std::ranges::copy(values, whole.span().begin());
  values = std::vector<double>();  // gives the memory back, which clear() would not
  auto received = engine.memory().allocate<double>(mine * size, "all_reduce");
  std::vector<ConstBytes> send;
  std::vector<Bytes> receive, gathered;
  for (std::size_t peer = 0; peer < size; ++peer) {
    send.push_back(const_bytes_of(parts.of(whole.span(), peer)));
    receive.push_back(bytes_of(received.span().subspan(peer * mine, mine)));
    gathered.push_back(bytes_of(parts.of(whole.span(), peer)));
  }
  const Pending exchange = engine.all_to_all(send, receive, Traffic::figures);
  wait(engine, *exchange, deadline, "the exchange of a small sum");

  const auto own = parts.of(whole.span(), rank);
  for (std::size_t i = 0; i < mine; ++i) {
    double sum = 0;
    for (std::size_t peer = 0; peer < size; ++peer) sum += received.data()[peer * mine + i];
    own[i] = sum;
  }
  received = {};
  const Pending gather = engine.all_gather(const_bytes_of(own), gathered, Traffic::figures);
  wait(engine, *gather, deadline, "the gathering of a small sum");
  return {whole.span().begin(), whole.span().end()};
}

}  // namespace flockstep::engines
