// What an agent sees, does and earns, by hand; and advantages against their definition.
#include <gtest/gtest.h>

#include <cmath>

#include "data_files.h"
#include "tasks/navigation/mazes.h"
#include "tasks/navigation/rollout.h"

namespace flockstep::tasks {
namespace {

Maze small_maze() {
  return parse_mazes(
      "#####\n"
      "#S..#\n"
      "#.#.#\n"
      "#..G#\n"
      "#####\n",
      "")[0];
}

std::vector<int> seen_from(const Maze& maze, Cell cell, Heading heading, int side) {
  const View view(side);
  std::vector<std::int8_t> seen(view.cells());
  view.look(maze, cell, heading, seen);
  return {seen.begin(), seen.end()};
}

// The first row is the farthest; the agent is in the middle of the last.
TEST(View, showsWhatLiesAheadAndIsNotHidden) {
  const Maze maze = small_maze();
  EXPECT_EQ(seen_from(maze, maze.start, Heading::east, 3), (std::vector<int>{0, 1, 0,    //
                                                                             -1, 1, -1,  //
                                                                             -1, 1, 1}));
  EXPECT_EQ(seen_from(maze, {2, 3}, Heading::north, 5), (std::vector<int>{0,  0,  0,  0,  0,  //
                                                                          0,  0,  0,  0,  0,  //
                                                                          -1, -1, -1, 0,  0,  //
                                                                          1,  1,  1,  -1, 0,  //
                                                                          0,  -1, 1,  -1, 0}));
}

Maze turned_right(const Maze& maze) {
  Maze turned = maze;
  const auto turn = [&](Cell cell) { return Cell{cell.column, maze.rows - 1 - cell.row}; };
  turned.rows = maze.columns, turned.columns = maze.rows;
  for (int row = 0; row < maze.rows; ++row)
    for (int column = 0; column < maze.columns; ++column)
      turned.walls[turned.index(turn({row, column}))] = maze.walls[maze.index({row, column})];
  turned.start = turn(maze.start), turned.goal = turn(maze.goal);
  turned.heading = right_of(maze.heading);
  return turned;
}

TEST(View, staysTheSameWhenTheWorldTurnsWithTheAgent) {
  base::Random random(1, base::Purpose::test);
  for (int round = 0; round < 50; ++round) {
    const Maze maze = generate_maze(4, 0.4, random), turned = turned_right(maze);
    EXPECT_EQ(seen_from(maze, maze.start, maze.heading, 7), seen_from(turned, turned.start, turned.heading, 7));
    EXPECT_EQ(sense_goal(maze, maze.start, maze.heading), sense_goal(turned, turned.start, turned.heading));
  }
}

TEST(View, theGoalIsSensedFromWhereTheAgentLooks) {
  Maze maze = small_maze();
  maze.goal = {1, 3};
  EXPECT_EQ(sense_goal(maze, maze.start, Heading::east), (GoalSense{0.2f, 1, 0}));
  EXPECT_EQ(sense_goal(maze, maze.start, Heading::north), (GoalSense{0.2f, 0, 1}));
  EXPECT_EQ(sense_goal(maze, maze.goal, Heading::south), (GoalSense{0, 0, 0}));
  maze.goal = {3, 3};
  const float root = std::sqrt(0.5f);
  const GoalSense diagonal = sense_goal(maze, maze.start, Heading::north), expected{0.4f * root, -root, root};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(diagonal[i], expected[i], 1e-6) << i;
}

using Actions = std::vector<Action>;
constexpr Action F = Action::forward, L = Action::left, R = Action::right, X = Action::stop;

Episode walked(const Actions& actions, int limit = 20) {
  Episode episode(small_maze(), limit);  // which starts looking north, four moves from the goal
  for (const Action action : actions) {
    EXPECT_FALSE(episode.is_over());
    episode.act(action);
  }
  return episode;
}

TEST(Episode, successIsWeightedByTheShortestPath) {
  EXPECT_EQ(walked({R, F, F, R, F, F, X}).success_by_length(), 1);
  EXPECT_EQ(walked({L, L, F, F, L, F, F, X}).success_by_length(), 1);        // the other way is as short
  EXPECT_EQ(walked({F, F, R, F, F, F, R, F, F, X}).success_by_length(), 1);  // walls cost time, but are no moves
  EXPECT_EQ(walked({R, F, R, R, F, R, R, F, F, R, F, F, X}).success_by_length(), 4.0 / 6);
  EXPECT_EQ(walked({R, F, F, R, F, X}).success_by_length(), 0);  // not there
  EXPECT_EQ(walked({R, F, F, R, F, F}).success_by_length(), 0);  // there, but not stopped
  const Episode late = walked({R, F, F, R, F, F}, 6);
  EXPECT_TRUE(late.is_over() && !late.succeeded());
  const Episode in_time = walked({R, F, F, R, F, F, X}, 7);
  EXPECT_TRUE(in_time.is_over() && in_time.succeeded());
  EXPECT_EQ(in_time.actions(), 7);
}

TEST(Episode, rewardsAreForComingNearerAndForStoppingAtTheGoal) {
  Episode episode(small_maze(), 20);
  EXPECT_NEAR(episode.act(F), -0.01, 1e-12);  // a wall
  EXPECT_NEAR(episode.act(R), -0.01, 1e-12);
  EXPECT_NEAR(episode.act(F), 0.09, 1e-12);
  episode.act(R), episode.act(R);
  EXPECT_NEAR(episode.act(F), -0.11, 1e-12);  // back
  EXPECT_FALSE(episode.is_over());
  for (const Action action : {R, R, F, F, R, F, F}) episode.act(action);
  EXPECT_EQ(episode.cell(), episode.maze().goal);
  EXPECT_NEAR(episode.act(X), 0.99, 1e-12);
  EXPECT_TRUE(episode.is_over());
  EXPECT_NEAR(Episode(small_maze(), 20).act(X), -0.01, 1e-12);
}

std::vector<float> random_numbers(std::size_t count, base::Random& random) {
  std::vector<float> numbers(count);
  random.fill_uniform(numbers, -1, 1);
  return numbers;
}

TEST(Advantages, areTheDirectSumOfDiscountedSurprises) {
  base::Random random(2, base::Purpose::test);
  for (const auto& [discount, reach] : {std::pair{0.99, 0.95}, {0.9, 0.0}, {1.0, 1.0}, {0.0, 0.5}, {0.7, 1.0}}) {
    const auto rewards = random_numbers(17, random), values = random_numbers(17, random);
    std::vector<float> advantages(17);
    estimate_advantages(rewards, values, {.discount = discount, .reach = reach}, advantages);
    for (std::size_t t = 0; t < 17; ++t) {
      double sum = 0;
      for (std::size_t later = t; later < 17; ++later) {
        const double next = later + 1 < 17 ? static_cast<double>(values[later + 1]) : 0;
        sum += std::pow(discount * reach, static_cast<double>(later - t)) *
               (static_cast<double>(rewards[later]) + discount * next - static_cast<double>(values[later]));
      }
      EXPECT_NEAR(advantages[t], sum, 1e-5);
    }
  }
}

Track track_of(std::size_t size, std::size_t cells, base::Random& random) {
  Track track;
  for (std::size_t i = 0; i < size * cells; ++i) track.views.push_back(static_cast<std::int8_t>(random.below(3)) - 1);
  for (std::size_t i = 0; i < size; ++i) {
    track.goals.push_back({static_cast<float>(random.uniform()), 0.5f, -0.5f});
    track.actions.push_back(static_cast<std::int8_t>(random.below(kActions)));
  }
  track.log_chances = random_numbers(size, random);
  track.rewards = random_numbers(size, random);
  track.values = random_numbers(size, random);
  return track;
}

Rollout rollout_of(std::initializer_list<std::size_t> lengths, std::size_t cells) {
  base::Random random(3, base::Purpose::test);
  Rollout rollout{.first_step = 12, .tracks = {}};
  for (const std::size_t length : lengths) rollout.tracks.push_back(track_of(length, cells, random));
  return rollout;
}

TEST(Rollout, advantagesHaveMeanZeroAndDeviationOneAndReturnsAreThoseBefore) {
  Rollout rollout = rollout_of({5, 1, 9}, 4);
  rollout.estimate({.discount = 0.9, .reach = 0.8});
  double sum = 0, squares = 0;
  for (const Track& track : rollout.tracks) {
    std::vector<float> advantages(track.size());
    estimate_advantages(track.rewards, track.values, {.discount = 0.9, .reach = 0.8}, advantages);
    for (std::size_t t = 0; t < track.size(); ++t) {
      EXPECT_EQ(track.returns[t], advantages[t] + track.values[t]);
      const auto advantage = static_cast<double>(track.advantages[t]);
      sum += advantage, squares += advantage * advantage;
    }
  }
  EXPECT_EQ(rollout.actions(), 15u);
  EXPECT_NEAR(sum / 15, 0, 1e-6);
  EXPECT_NEAR(squares / 15, 1, 1e-3);
}

TEST(Rollout, partsThatDoNotFitTogetherAreRefused) {
  const auto archived = [](const Rollout& rollout) {
    base::Archive archive;
    rollout.save(archive);
    return archive;
  };
  base::Archive archive = archived(rollout_of({5, 1, 9}, 4));
  EXPECT_THROW(Rollout::restore(archive, 9), Error);
  for (const std::vector<std::int64_t>& lengths : std::vector<std::vector<std::int64_t>>{
           {5, 1, 8}, {5, 1, 10}, {5, 0, 10}, {5, -1, 11}, {15, 1}, {5, 1}, {1L << 62, 1}}) {
    archive.put("rollout lengths", std::span<const std::int64_t>(lengths));
    EXPECT_THROW(Rollout::restore(archive, 4), Error);
  }
  for (const int action : {-1, 0, kActions - 1, kActions, 127}) {
    Rollout rollout = rollout_of({5, 1, 9}, 4);
    rollout.tracks[1].actions[0] = static_cast<std::int8_t>(action);
    const std::string said = refusal([&] { Rollout::restore(archived(rollout), 4); });
    EXPECT_EQ(said.empty(), action >= 0 && action < kActions) << action << ": " << said;
  }
}

}  // namespace
}  // namespace flockstep::tasks
