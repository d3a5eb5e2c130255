// Files of mazes: what they say, and whatever else they may hold.
#include <gtest/gtest.h>

#include <fstream>

#include "image_files.h"
#include "tasks/navigation/mazes.h"

namespace flockstep::tasks::navigation_maze_file_test {
namespace {

const std::string kGood = "####\n#SG#\n####\n\n\n#.G\r\n. S\r\n";

std::string refusal_of(const std::string& text) {
  return refusal([&] { parse_mazes(text, "the file"); });
}

TEST(MazeFile, aPlainFileIsRead) {
  const std::vector<Maze> mazes = parse_mazes(kGood, "the file");
  ASSERT_EQ(mazes.size(), 2u);
  EXPECT_EQ(mazes[0].rows, 3);
  EXPECT_EQ(mazes[0].columns, 4);
  EXPECT_EQ(mazes[0].start, (Cell{1, 1}));
  EXPECT_EQ(mazes[0].goal, (Cell{1, 2}));
  EXPECT_EQ(mazes[0].heading, Heading::north);
  EXPECT_EQ(mazes[1].walls, (std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(mazes[1].start, (Cell{1, 2}));
  EXPECT_EQ(parse_mazes("SG", "").size(), 1u);  // walls all around are a matter of course
}

TEST(MazeFile, whatIsNoMazeIsRefusedInOneSentence) {
  const std::string widest(255, '.'), too_wide(256, '.');
  std::string tall;
  for (int i = 0; i < 254; ++i) tall += ".\n";
  for (const auto& [text, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"", "the file holds no maze"},
           {"\n\r\n\n", "the file holds no maze"},
           {"SG\n...\n", "the file line 2: 3 cells, where the maze has 2 in a row"},
           {"#S#\n#G\n", "the file line 2: 2 cells, where the maze has 3 in a row"},
           {"SG\n\nSxG\n", "the file line 3: cell 2 is none of # . S G and blanks"},
           {std::string("S\0G", 3), "the file line 1: cell 2 is none of # . S G and blanks"},
           {"S\tG", "the file line 1: cell 2 is none of # . S G and blanks"},
           {"S\xc3\xa4G", "the file line 1: cell 2 is none of # . S G and blanks"},
           {"sg", "the file line 1: cell 1 is none of # . S G and blanks"},
           {"SGS", "the file line 1: a second start in one maze"},
           {"SG\nG.", "the file line 2: a second goal in one maze"},
           {"...\n\nSG", "the file line 2: the maze that ends here has no start (S)"},
           {"S..", "the file line 1: the maze that ends here has no goal (G)"},
           {"S#G", "the file line 1: in the maze that ends here no way leads from the start to the goal"},
           {"S" + too_wide + "G", "the file line 1: a maze has at most 255 cells in a row"},
           {tall + "S\nG", "the file line 256: a maze has at most 255 rows"},
       })
    EXPECT_EQ(refusal_of(text), sentence) << text;
  EXPECT_EQ(refusal_of(tall.substr(2) + "S\nG"), "");
  EXPECT_EQ(refusal_of("S" + widest.substr(2) + "G"), "");
}

// Cut, changed, doubled: reading ends with mazes that can be walked, or with one sentence.
TEST(MazeFile, damagedFilesAreReadOrRefused) {
  base::Random random(5, base::Purpose::test);
  const std::string signs = "#. SG\n\r\0x\xff";
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = kGood;
    const auto draw = [&](std::size_t bound) { return random.below(static_cast<std::uint32_t>(bound)); };
    for (std::uint32_t change = draw(4); change < 4 && !text.empty(); ++change) {
      const std::size_t place = draw(text.size());
      switch (draw(4)) {
        case 0: text[place] = signs[draw(signs.size())]; break;
        case 1: text.insert(place, 1 + draw(300), signs[draw(signs.size())]); break;
        case 2: text.erase(place, 1 + draw(5)); break;
        default: text.resize(place);
      }
    }
    try {
      for (const Maze& maze : parse_mazes(text, "the file")) {
        ASSERT_EQ(maze.walls.size(), static_cast<std::size_t>(maze.rows * maze.columns));
        ASSERT_FALSE(maze.is_wall(maze.start) || maze.is_wall(maze.goal));
        ASSERT_GT(distances_to_goal(maze)[maze.index(maze.start)], 0);
      }
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.code(), ErrorCode::bad_file);
      const std::string sentence = error.what();
      ASSERT_TRUE(sentence.starts_with("the file ")) << sentence;
      ASSERT_EQ(sentence.find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 5000);
}

class MazeFolder : public testing::Test {
 protected:
  MazeFolder() : folder_(testing::TempDir() + "mazes_of_" + std::to_string(::getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~MazeFolder() override { std::filesystem::remove_all(folder_); }
  void write(const char* name, const std::string& text) { std::ofstream(folder_ / name, std::ios::binary) << text; }
  Mazes read(Shard shard = Shard::iid, int rank = 0, int workers = 4) {
    return Mazes({.side = 3, .open = 0, .data = folder_.string()}, {.shard = shard},
                 WorkerData(TaskInputs{{}, 1, 64, rank, workers}));
  }
  std::string corridors(int count) const {
    std::string text;
    for (int i = 0; i < count; ++i) text += "S" + std::string(static_cast<std::size_t>(i), '.') + "G\n\n";
    return text;
  }

  std::filesystem::path folder_;
};

TEST_F(MazeFolder, aTenthOfTheTrainingMazesIsKeptAsideAndSkewedWorkersHaveTheirShare) {
  write("train.txt", corridors(20));
  write("test.txt", kGood);
  const Mazes all = read();
  EXPECT_EQ(all.count(train::Split::test), 2u);
  EXPECT_EQ(all.count(train::Split::validation), 2u);
  EXPECT_EQ(all.fixed(train::Split::validation, 1).columns, 21);
  EXPECT_EQ(all.mean_distance(), 1);
  base::Random random(6, base::Purpose::test);
  int narrowest = 100, widest = 0, own_narrowest = 100, own_widest = 0;
  const Mazes own = read(Shard::skewed, 1, 3);  // 18 mazes: 6 for each
  for (int i = 0; i < 300; ++i) {
    const int columns = all.draw(random).columns, own_columns = own.draw(random).columns;
    narrowest = std::min(narrowest, columns), widest = std::max(widest, columns);
    own_narrowest = std::min(own_narrowest, own_columns), own_widest = std::max(own_widest, own_columns);
  }
  EXPECT_EQ(narrowest, 2);
  EXPECT_EQ(widest, 19);
  EXPECT_EQ(own_narrowest, 8);
  EXPECT_EQ(own_widest, 13);
}

TEST_F(MazeFolder, missingAndTooShortFilesAreTold) {
  const std::string train = (folder_ / "train.txt").string(), test = (folder_ / "test.txt").string();
  EXPECT_EQ(refusal([&] { read(); }), train + " is not there");
  write("train.txt", kGood);
  EXPECT_EQ(refusal([&] { read(); }), test + " is not there");
  write("test.txt", "");
  EXPECT_EQ(refusal([&] { read(); }), test + " is empty");
  write("test.txt", "SG\n?");
  EXPECT_EQ(refusal([&] { read(); }), test + " line 2: 1 cells, where the maze has 2 in a row");
  write("test.txt", kGood);
  EXPECT_EQ(refusal([&] { read(); }), "");
  EXPECT_EQ(refusal([&] { read(Shard::skewed, 2, 3); }),
            "there are fewer mazes in " + train + " than workers: use --shard iid");
}

}  // namespace
}  // namespace flockstep::tasks::navigation_maze_file_test
