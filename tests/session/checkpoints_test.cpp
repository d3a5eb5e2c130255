// What a folder of checkpoints holds after writes that succeed and fail, and what every worker then reads. On threads.
#include "session/checkpoints.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/files.h"
#include "support/on_threads.h"
#include "support/temporary_folder.h"

namespace flockstep::session {
namespace {

using runtime::Context;

constexpr int kWorkers = 3;

class CheckpointsTest : public testing::Test {
 protected:
  static std::string word(std::int64_t step, int rank) {
    return "worker " + std::to_string(rank) + " after step " + std::to_string(step);
  }
  std::filesystem::path file_of(const std::string& name, int rank) const {
    return folder_ / name / ("worker-" + std::to_string(rank) + ".bin");
  }

  void write(std::int64_t step, int workers = kWorkers) {
    test::on_threads(workers, [&](Context& context) { write(context, step); });
  }
  void write(Context& context, std::int64_t step) {
    const std::string text = word(step, context.rank());
    Checkpoints(context, folder_, ".bin").write(step, [&] {
      const auto bytes = std::as_bytes(std::span(text));
      return std::vector(bytes.begin(), bytes.end());
    });
  }
  // Every worker's file is that of `step`; worker 0's where `writers` are not as many as there are now.
  void expect_read(std::int64_t step, const std::string& warning = "", int workers = kWorkers, int writers = kWorkers) {
    test::on_threads(workers, [&](Context& context) {
      const auto found = Checkpoints(context, folder_, ".bin").read();
      ASSERT_TRUE(found) << context.rank();
      const std::string text(reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size());
      EXPECT_EQ(text, word(step, workers == writers ? context.rank() : 0));
      EXPECT_EQ(found->workers, writers);
      EXPECT_EQ(found->warning, warning);
    });
  }
  // All workers are told the same, and nobody is kept waiting.
  static void expect_refused(const std::string& part, const std::function<void(Context&)>& body) {
    std::atomic<int> refused = 0;
    test::on_threads(kWorkers, [&](Context& context) {
      try {
        body(context);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_file);
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        ++refused;
      }
    });
    EXPECT_EQ(refused, kWorkers);
  }
  void expect_unreadable(const std::string& part) {
    expect_refused(part, [&](Context& context) { Checkpoints(context, folder_, ".bin").read(); });
  }

  const test::TemporaryFolder folder_;
};

TEST_F(CheckpointsTest, aFolderWithoutAnyHasNothingToRead) {
  test::on_threads(kWorkers, [&](Context& context) { EXPECT_FALSE(Checkpoints(context, folder_, ".bin").read()); });
  EXPECT_FALSE(Checkpoints::exist_in(folder_));
}

TEST_F(CheckpointsTest, theNewestIsReadAndTheOneBeforeItKept) {
  for (const std::int64_t step : {5, 10, 15}) {
    write(step);
    expect_read(step);
  }
  EXPECT_EQ(base::read_text(file_of("a", 2)), word(15, 2));
  EXPECT_EQ(base::read_text(file_of("b", 2)), word(10, 2));
  EXPECT_TRUE(Checkpoints::exist_in(folder_));
}

TEST_F(CheckpointsTest, aSecondWriteOfOneStepIsNotWrittenOverTheFirst) {
  write(5);
  write(5);
  EXPECT_EQ(base::read_text(file_of("a", 1)), base::read_text(file_of("b", 1)));
}

TEST_F(CheckpointsTest, anotherNumberOfWorkersReadsWorkerZerosFile) {
  write(5);
  base::write_atomically(file_of("a", 1), "damaged");
  for (const int workers : {1, 2, 4}) expect_read(5, "", workers);
}

TEST_F(CheckpointsTest, aBadFileOfOneWorkerSendsAllBackAndTheNextWriteKeepsWhatWasRead) {
  write(5);
  write(10);
  base::write_atomically(file_of("b", 1), "damaged");
  const std::string why = file_of("b", 1).string() +
                          " is not the file that was saved (its checksum is wrong): it is "
                          "damaged, or of another training";
  expect_read(5, "going back to the checkpoint after step 5: " + why);
  write(10);
  expect_read(10);
  EXPECT_EQ(base::read_text(file_of("a", 1)), word(5, 1));
}

TEST_F(CheckpointsTest, aFileOfAnotherWorkerOrStepIsNamed) {
  write(5);
  write(10);
  constexpr auto kOver = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(file_of("b", 0), file_of("b", 2), kOver);
  std::filesystem::copy_file(file_of("b", 1), file_of("a", 1), kOver);
  expect_unreadable("worker-2.bin is the file of worker 0 of 3 after step 10, not of worker 2 of 3 after step 10");
  std::filesystem::remove_all(folder_ / "b");
  expect_unreadable("is whole: cannot read");
}

TEST_F(CheckpointsTest, aListThatIsNotOursIsRefused) {
  write(5);
  for (const char* text :
       {"", "garbage", R"({"generations": []})", R"({"generations": [{"step": 5, "checksums": [1]}]})",
        R"({"generations": [{"name": "..", "step": 5, "checksums": [1]}]})",
        R"({"generations": [{"name": "a", "step": 5, "checksums": []}]})"}) {
    base::write_atomically(folder_ / "latest", std::string_view(text));
    expect_unreadable("latest does not list checkpoints as this version writes them");
  }
  base::write_atomically(folder_ / "latest", R"({"schema": 99})");
  expect_unreadable("latest has schema 99");
  write(10);
  expect_read(10);
}

TEST_F(CheckpointsTest, whatOneWorkerCannotWriteIsEverybodysFailureAndTheNewestStays) {
  write(5);
  write(10);
  const std::string beside = file_of("a", 1).string() + ".part";
  base::make_directory(beside);  // nothing can be written there
  expect_refused("cannot write " + beside, [&](Context& context) { write(context, 15); });
  expect_read(10);
  base::remove_folder(beside);
  expect_refused("no bytes", [&](Context& context) {
    Checkpoints(context, folder_, ".bin").write(15, [&]() -> std::vector<std::byte> {
      if (context.rank() == 2) throw std::runtime_error("no bytes\nand where that was");
      return {};
    });
  });
  expect_read(10);
}

TEST_F(CheckpointsTest, aListThatCannotBeWrittenIsEverybodysFailure) {
  base::make_directory(folder_ / "latest.part");
  expect_refused("cannot write " + (folder_ / "latest.part").string(), [&](Context& context) { write(context, 5); });
  EXPECT_FALSE(Checkpoints::exist_in(folder_));
}

TEST_F(CheckpointsTest, workersThatDoNotShareTheFolderAreTold) {
  expect_refused("is missing on worker 0: the folder must be one that all workers share", [&](Context& context) {
    const auto own = folder_ / std::to_string(context.rank());
    Checkpoints(context, own, ".bin").write(5, [] { return std::vector<std::byte>(); });
  });
}

}  // namespace
}  // namespace flockstep::session
