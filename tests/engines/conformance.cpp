#include "conformance.h"

#include <exception>
#include <thread>

namespace flockstep::engines::conformance {

Subject& subject() {
  static Subject chosen;
  return chosen;
}

void on_a_thread_each(const std::function<void(int rank)>& body) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(subject().workers));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < subject().workers; ++rank)
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
  }
  for (const auto& each : thrown)
    if (each) std::rethrow_exception(each);
}

CheckedAllToAll::CheckedAllToAll(Engine& engine, int round, std::size_t base_size)
    : round_(round), base_size_(base_size) {
  std::vector<ConstBytes> send;
  std::vector<Bytes> receive;
  for (int peer = 0; peer < engine.size(); ++peer) {
    send_.push_back(words(round, engine.rank(), peer, block_size(engine.rank(), peer)));
    receive_.emplace_back(block_size(peer, engine.rank()));
  }
  for (auto& block : send_) send.push_back(bytes(std::as_const(block)));
  for (auto& block : receive_) receive.push_back(bytes(block));
  operation_ = engine.all_to_all(send, receive);
}

std::size_t CheckedAllToAll::block_size(int from, int to) const {
  return base_size_ == 0 ? 0 : base_size_ + static_cast<std::size_t>((7 * from + 3 * to + round_) % 5);
}

void CheckedAllToAll::finish_and_check(Engine& engine) {
  finish(engine, operation_);
  for (int peer = 0; peer < engine.size(); ++peer)
    EXPECT_EQ(receive_[static_cast<std::size_t>(peer)],
              words(round_, peer, engine.rank(), block_size(peer, engine.rank())));
}

}  // namespace flockstep::engines::conformance
