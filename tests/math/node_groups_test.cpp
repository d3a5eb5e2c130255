#include "math/node_groups.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>

#include "base/random.h"
#include "math/reach.h"

namespace flockstep::math {
namespace {

using Sizes = std::vector<int>;
constexpr int kMost = 64;

std::string named(const Sizes& sizes, std::int64_t across) {
  std::string text = "k = " + std::to_string(across) + ", nodes of";
  for (const int size : sizes) text += " " + std::to_string(size);
  return text;
}

int workers_of(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), 0); }

bool all_are_alone(const Sizes& sizes) {
  return std::ranges::all_of(sizes, [](int size) { return size == 1; });
}

// Any number of workers, any size of nodes that are equal but for the last, and nodes of any sizes.
void for_all_nodes(const std::function<void(const Sizes& sizes, std::int64_t across)>& check) {
  for (std::int64_t across = 2; across <= 6; ++across)
    for (int workers = 2; workers <= 40; ++workers)
      for (int per_node = 1; per_node <= workers + 1; ++per_node) check(node_sizes(workers, {}, per_node), across);
  base::Random random(5, base::Purpose::test);
  const auto below = [&](std::uint32_t most) { return static_cast<int>(random.below(most)); };
  for (int draw = 0; draw < 2000; ++draw) {
    Sizes sizes;
    for (int left = 1 + below(7); left > 0; --left) sizes.push_back(1 + below(draw % 2 == 0 ? 3 : 9));
    if (workers_of(sizes) >= 2) check(sizes, 2 + below(5));
  }
}

TEST(NodeGroups, holdEveryWorkerOnceAndNobodyAlone) {
  for_all_nodes([](const Sizes& sizes, std::int64_t across) {
    SCOPED_TRACE(named(sizes, across));
    const NodeSchedule schedule(sizes, across);
    for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{1} << 40})
      for (std::int64_t round = begin; round < begin + across + 1; ++round) {
        std::vector<int> met(static_cast<std::size_t>(workers_of(sizes)));
        for (const auto& group : schedule.partition(round)) {
          ASSERT_GE(group.size(), 2u);
          ASSERT_TRUE(std::ranges::is_sorted(group));
          for (const int member : group) {
            ++met[static_cast<std::size_t>(member)];
            ASSERT_EQ(schedule.group_of(member, round), group);
          }
        }
        ASSERT_EQ(std::ranges::count(met, 1), workers_of(sizes));
      }
  });
}

// Places that two nodes have, once no worker has a node to itself; nobody has more than these in common with others.
bool all_nodes_have_the_shared_places(const NodeSchedule& schedule) {
  std::vector<std::size_t> sizes;
  for (const auto& node : schedule.partition(0)) sizes.push_back(node.size());
  std::ranges::sort(sizes);
  return sizes.size() == 1 || sizes.front() == sizes[sizes.size() - 2];
}

TEST(NodeGroups, letEverybodyInfluenceEverybodyWithinOneRoundMoreThanFromAcrossToAcross) {
  int within_k = 0;
  for_all_nodes([&](const Sizes& sizes, std::int64_t across) {
    if (all_are_alone(sizes)) return;  // GroupSchedule's
    const int workers = workers_of(sizes);
    const NodeSchedule schedule(sizes, across);
    const bool is_even = all_nodes_have_the_shared_places(schedule);
    within_k += is_even;
    const auto window = static_cast<std::size_t>(is_even ? across : across + 1);
    std::vector<Partition> rounds;
    for (std::int64_t round = 0; round < 2 * across + 1; ++round) rounds.push_back(schedule.partition(round));
    for (std::size_t start = 0; start < static_cast<std::size_t>(across); ++start)
      ASSERT_EQ(least_reach<kMost>(std::span(rounds).subspan(start, window), workers),
                static_cast<std::size_t>(workers))
          << named(sizes, across) << ", from round " << start;
  });
  EXPECT_GT(within_k, 1000);
}

struct NodeCase {
  const char* name;
  Sizes sizes;
  Partition nodes, across;  // the latter in every kth round
};

TEST(NodeGroups, areNodesAndInEveryKthRoundEqualPlaces) {
  const NodeCase cases[] = {
      {"equal nodes", {3, 3, 3}, {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}, {{0, 3, 6}, {1, 4, 7}, {2, 5, 8}}},
      {"a last node that is partly filled", {3, 3, 2}, {{0, 1, 2}, {3, 4, 5}, {6, 7}}, {{0, 3, 6}, {1, 4, 7}, {2, 5}}},
      {"places that one node has begin again", {4, 2}, {{0, 1, 2, 3}, {4, 5}}, {{0, 2, 4}, {1, 3, 5}}},
      {"so with more nodes", {4, 2, 2}, {{0, 1, 2, 3}, {4, 5}, {6, 7}}, {{0, 2, 4, 6}, {1, 3, 5, 7}}},
      {"a worker with a node to itself joins the node before",
       {3, 3, 1},
       {{0, 1, 2}, {3, 4, 5, 6}},
       {{0, 3, 6}, {1, 4}, {2, 5}}},
      {"or after", {1, 3, 1}, {{0, 1, 2, 3, 4}}, {{0, 1, 2, 3, 4}}},
      {"one node", {5}, {{0, 1, 2, 3, 4}}, {{0, 1, 2, 3, 4}}}};
  for (const NodeCase& each : cases)
    for (const std::int64_t k : {2, 4}) {
      const NodeSchedule schedule(each.sizes, k);
      for (std::int64_t round = 0; round < 12; ++round) {
        const bool is_kth = round % k == k - 1;
        EXPECT_EQ(schedule.partition(round), is_kth ? each.across : each.nodes) << each.name << ", round " << round;
        EXPECT_TRUE(schedule.goes_across(round) == is_kth || each.nodes.size() == 1) << each.name;
      }
    }
}

TEST(NodeGroups, whereEachWorkerHasANodeToItselfAreThoseOfRounds) {
  for (const int workers : {2, 3, 16, 50}) {
    const NodeSchedule schedule(node_sizes(workers, {}, 1), 3);
    const GroupSchedule expected(workers, default_group_size(workers));
    for (std::int64_t round = 0; round < 8; ++round) {
      EXPECT_EQ(schedule.partition(round), expected.partition(round));
      EXPECT_EQ(schedule.group_of(1, round), expected.group_of(1, round));
    }
  }
}

TEST(NodeSizes, areThoseToldAndThenAsManyAsThereAreWorkers) {
  EXPECT_EQ(node_sizes(7, {}, 3), (Sizes{3, 3, 1}));
  EXPECT_EQ(node_sizes(6, {}, 3), (Sizes{3, 3}));
  EXPECT_EQ(node_sizes(2, {}, 3), (Sizes{2}));
  EXPECT_EQ(node_sizes(7, Sizes{3, 2, 2}, 3), (Sizes{3, 2, 2}));
  EXPECT_EQ(node_sizes(11, Sizes{3, 2, 2}, 3), (Sizes{3, 2, 2, 3, 1}));
  EXPECT_EQ(node_sizes(4, Sizes{3, 2, 2}, 3), (Sizes{3, 1}));
}

}  // namespace
}  // namespace flockstep::math
