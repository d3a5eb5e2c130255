// Schedules carried out in a loop, in an order drawn from a seed: what arrives, in how many waves, and who sends how
// much.
#include "engines/schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace flockstep::engines {
namespace {

const std::vector<int> kSizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33};

// Delivers messages one at a time, any that may set out, until none may. What nobody expects is lost.
class Delivery {
 public:
  explicit Delivery(std::vector<std::vector<Transfer>> schedules) : open_(std::move(schedules)) {}

  void run(std::uint32_t seed) {
    base::Random random(seed, base::Purpose::test);
    const auto size = static_cast<std::uint32_t>(open_.size());
    for (std::uint32_t idle = 0, rank = 0; idle < size;) {
      idle = deliver_one(static_cast<int>(rank)) ? 0 : idle + 1;
      rank = idle == 0 ? random.below(size) : (rank + 1) % size;
    }
  }
  bool is_done(int rank) { return of(rank).empty(); }

 private:
  std::vector<Transfer>& of(int rank) { return open_[static_cast<std::size_t>(rank)]; }

  bool deliver_one(int rank) {
    for (std::size_t i = 0; i < of(rank).size(); ++i) {
      if (!of(rank)[i].is_send || !may_set_out(rank, of(rank)[i])) continue;
      deliver(rank, i);
      return true;
    }
    return false;
  }

  bool may_set_out(int rank, const Transfer& send) {
    return std::ranges::none_of(of(rank), [&](const Transfer& each) { return !each.is_send && each.wave < send.wave; });
  }

  void deliver(int rank, std::size_t index) {
    const Transfer sent = of(rank)[index];
    auto& theirs = of(sent.peer);
    const auto place =
        std::ranges::find_if(theirs, [&](const auto& each) { return !each.is_send && each.peer == rank; });
    of(rank).erase(of(rank).begin() + static_cast<std::ptrdiff_t>(index));
    if (place == theirs.end() || place->receive.size() != sent.send.size()) return;
    if (!sent.send.empty()) std::memcpy(place->receive.data(), sent.send.data(), sent.send.size());
    theirs.erase(place);
  }

  std::vector<std::vector<Transfer>> open_;  // by rank
};

TEST(Schedules, aBroadcastReachesEverybodyFromEveryRoot) {
  for (const int size : kSizes)
    for (int root = 0; root < size; ++root)
      for (const bool in_slices : {false, true}) {
        if (in_slices && size < 3) continue;
        std::vector<std::vector<std::byte>> data(static_cast<std::size_t>(size), std::vector<std::byte>(100));
        const auto all = static_cast<std::size_t>(root);
        for (std::size_t i = 0; i < 100; ++i) data[all][i] = static_cast<std::byte>(i + 1);
        std::vector<std::vector<Transfer>> schedules;
        for (int rank = 0; rank < size; ++rank)
          schedules.push_back(broadcast_schedule(rank, size, root, data[static_cast<std::size_t>(rank)], in_slices));
        Delivery delivery(schedules);
        delivery.run(static_cast<std::uint32_t>(size + root));
        for (int rank = 0; rank < size; ++rank) EXPECT_TRUE(delivery.is_done(rank)) << size << " " << root;
        for (const auto& each : data) EXPECT_EQ(each, data[all]) << size << " " << root << " " << in_slices;
      }
}

TEST(Schedules, inSlicesNobodySendsMoreThanTheDataOnce) {
  std::vector<std::byte> data(1000);
  for (const int size : {3, 9, 33})
    for (int rank = 0; rank < size; ++rank) {
      std::size_t sent = 0;
      for (const Transfer& transfer : broadcast_schedule(rank, size, 2, data, true)) sent += transfer.send.size();
      EXPECT_LE(sent, data.size());
    }
}

TEST(Schedules, aBarrierEndsForAllIfAllHaveComeAndForNobodyIfOneHasNot) {
  for (const int size : kSizes)
    for (int missing = -1; missing < size; ++missing) {
      std::vector<std::vector<Transfer>> schedules;
      for (int rank = 0; rank < size; ++rank)
        schedules.push_back(rank == missing ? std::vector<Transfer>() : barrier_schedule(rank, size));
      Delivery delivery(schedules);
      delivery.run(static_cast<std::uint32_t>(size));
      for (int rank = 0; rank < size; ++rank)
        EXPECT_TRUE(rank == missing || delivery.is_done(rank) == (missing < 0)) << size << " " << missing;
    }
}

TEST(Schedules, roundsAreAsFewAsDoublingAllows) {
  for (const auto& [workers, waves] : {std::pair(1, 0), {2, 1}, {3, 2}, {8, 3}, {9, 4}, {1024, 10}})
    EXPECT_EQ(waves_among(workers), waves) << workers;
  EXPECT_EQ(barrier_schedule(3, 1024).size(), 20u);
}

}  // namespace
}  // namespace flockstep::engines
