#include "engines/all_reduce.h"

#include "base/parts.h"
#include "engines/wait.h"

namespace flockstep::engines {

void all_reduce(Engine& engine, std::span<double> values, base::Time deadline) {
  const int size = engine.size(), rank = engine.rank();
  if (size == 1 || values.empty()) return;
  const base::Parts parts(values.size(), static_cast<std::size_t>(size));
  const std::size_t mine = parts.size(static_cast<std::size_t>(rank));

  auto gathered = engine.memory().allocate<double>(mine * static_cast<std::size_t>(size), "all_reduce");
  std::vector<ConstBytes> send;
  std::vector<Bytes> receive, whole;
  for (int peer = 0; peer < size; ++peer) {
    const auto part = static_cast<std::size_t>(peer);
    send.push_back(const_bytes_of(parts.of(values, part)));
    receive.push_back(bytes_of(gathered.span().subspan(part * mine, mine)));
    whole.push_back(bytes_of(parts.of(values, part)));
  }
  const Pending exchange = engine.all_to_all(send, receive);
  wait(engine, *exchange, deadline, "the exchange of a small sum");

  const auto own = parts.of(values, static_cast<std::size_t>(rank));
  for (std::size_t i = 0; i < mine; ++i) {
    double sum = 0;
    for (std::size_t peer = 0; peer < static_cast<std::size_t>(size); ++peer) sum += gathered.data()[peer * mine + i];
    own[i] = sum;
  }
  const Pending gather = engine.all_gather(const_bytes_of(own), whole);
  wait(engine, *gather, deadline, "the gathering of a small sum");
}

}  // namespace flockstep::engines
