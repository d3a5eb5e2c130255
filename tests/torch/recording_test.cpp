// What workers leave of a training that is not ours, without any collective.
#include "torch/recording.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/split.h"
#include "flockstep/error.h"
#include "support/on_threads.h"
#include "support/temporary_folder.h"

namespace flockstep::torch_front::recording_test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class RecordingTest : public testing::Test {
 protected:
  std::vector<json> lines(const std::string& name) const {
    std::vector<json> found;
    std::vector<std::string> texts = base::split(base::read_text(folder_ / name), '\n');
    texts.pop_back();  // every line ends with a newline
    for (const std::string& text : texts) found.push_back(json::parse(text));
    return found;
  }
  std::vector<std::int64_t> steps(const std::string& name) const {
    std::vector<std::int64_t> found;
    for (const json& line : lines(name))
      if (line["kind"] == "step") found.push_back(line["step"]);
    return found;
  }
  json read(const std::string& name) const { return json::parse(base::read_text(folder_ / name)); }

  // Steps on one worker.
  void record(int workers, int rank, std::int64_t first, std::int64_t last) const {
    test::on_threads(workers, [&](runtime::Context& context) {
      if (context.rank() != rank) return;
      Recording recording(context, {folder_.path(), "wagma"});
      for (std::int64_t step = first; step <= last; ++step) recording.add(step, context.engine().now(), nullptr);
      recording.close();
    });
  }

  const test::TemporaryFolder folder_;
};

// `products` as a packed matrix.
algorithms::GradientReport report_of(std::size_t workers, std::vector<double> products) {
  algorithms::GradientReport report;
  report.coefficients.assign(workers, 1.0 / static_cast<double>(workers));
  report.statistics = math::Statistics::of_matrix(std::move(products), std::vector<double>(workers, 1));
  return report;
}

TEST_F(RecordingTest, everyWorkerWritesItsOwnPart) {
  const auto report = report_of(3, {4, 6, 9, 8, 12, 16});
  test::on_threads(3, [&](runtime::Context& context) {
    Recording recording(context, {folder_.path(), "adacons", {{"beta", "0.9"}}});
    for (std::int64_t step = 1; step <= 4; ++step) {
      context.wait(context.engine().barrier(), "barrier");
      recording.add(step, context.engine().now(), &report);
      recording.set_loss(static_cast<double>(10 * step + context.rank()));
    }
    recording.add_evaluation("accuracy", 0.5, false);
    recording.close();
    recording.close();
  });
  const auto first = lines("metrics.jsonl");
  EXPECT_EQ(steps("metrics.jsonl"), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(first[1]["loss"], 20);
  EXPECT_EQ(first[1]["norms"], (json{2, 3, 4}));
  EXPECT_EQ(first[1]["coefficients"].size(), 3u);
  EXPECT_GE(first[1]["wait_s"], 0);
  for (const int rank : {1, 2}) {
    const auto others = lines("metrics-" + std::to_string(rank) + ".jsonl");
    ASSERT_EQ(others.size(), 4u);
    EXPECT_EQ(others[2]["loss"], 30 + rank);
    EXPECT_FALSE(others[2].contains("norms")) << "worker 0 has them";
  }
  const auto evaluation = std::ranges::find(first, "evaluation", [](const json& line) { return line["kind"]; });
  ASSERT_NE(evaluation, first.end());
  EXPECT_EQ((*evaluation)["quality"], 0.5);
  EXPECT_EQ((*evaluation)["step"], 4);
  const json summary = read("summary.json");
  EXPECT_EQ(summary["algorithm"], "adacons");
  EXPECT_EQ(summary["algorithm_settings"], (json{{"beta", "0.9"}}));
  EXPECT_EQ(summary["workers"], 3);
  EXPECT_EQ(summary["steps"], 4);
  EXPECT_EQ(summary["metric"], "accuracy");
  std::map<int, int> gradients;
  const json trace = read("trace.json");
  for (const json& event : trace["traceEvents"]) gradients[event["pid"]] += event["name"] == "gradient";
  EXPECT_EQ(gradients, (std::map<int, int>{{0, 4}, {1, 4}, {2, 4}}));
  for (const auto& entry : fs::directory_iterator(folder_)) EXPECT_NE(entry.path().extension(), ".part");
}

TEST_F(RecordingTest, goesOnWhereAnEarlierRunIsResumedAndDropsHalfALine) {
  record(1, 0, 1, 9);
  EXPECT_TRUE(lines("metrics.jsonl")[0]["loss"].is_null()) << "which was not told";
  EXPECT_FALSE(read("summary.json").contains("quality"));
  base::write_atomically(folder_ / "metrics.jsonl", base::read_text(folder_ / "metrics.jsonl") + "{\"kind\":\"st");
  record(1, 0, 5, 6);
  EXPECT_EQ(steps("metrics.jsonl"), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  record(1, 0, 1, 2);
  EXPECT_EQ(steps("metrics.jsonl"), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(RecordingTest, theLastToEndMakesTheTraceOfAllAndPartsOfWorkersThatAreNoMoreGo) {
  record(3, 2, 1, 2);
  ASSERT_TRUE(fs::exists(folder_ / "metrics-2.jsonl"));
  record(2, 1, 1, 3);
  EXPECT_TRUE(fs::exists(folder_ / "trace-1.part"));
  EXPECT_FALSE(fs::exists(folder_ / "trace.json"));
  record(2, 0, 1, 3);
  EXPECT_TRUE(fs::exists(folder_ / "trace.json"));
  EXPECT_TRUE(fs::exists(folder_ / "metrics-1.jsonl"));
  EXPECT_FALSE(fs::exists(folder_ / "metrics-2.jsonl"));
  EXPECT_FALSE(fs::exists(folder_ / "trace-2.part"));
  record(2, 0, 1, 3);  // again, alone: what it was is no more
  EXPECT_FALSE(fs::exists(folder_ / "trace.json"));
}

TEST_F(RecordingTest, figuresAreByNameAndByWorker) {
  test::on_threads(1, [&](runtime::Context& context) {
    Recording recording(context, {});
    auto report = report_of(1, {4});
    report.clipped = {true};
    recording.add(7, context.engine().now(), &report);
    auto figures = recording.figures();
    EXPECT_FALSE(figures.contains("loss"));
    EXPECT_EQ(figures["step"], 7);
    EXPECT_EQ(figures["norm/0"], 2);
    EXPECT_EQ(figures["coefficient/0"], 1);
    EXPECT_EQ(figures["guard/clipped"], 1);
    algorithms::MeetingReport meetings{.fresh = 3, .stale = 1, .staleness = {3, 1}};
    recording.add(8, context.engine().now(), nullptr, &meetings);
    recording.set_loss(0.25);
    figures = recording.figures();
    EXPECT_EQ(figures["loss"], 0.25);
    EXPECT_EQ(figures["fresh_fraction"], 0.75);
    EXPECT_EQ(figures["mean_staleness"], 0.25);
    recording.close();
  });
}

TEST_F(RecordingTest, aFolderThatCannotBeIsRefused) {
  test::on_threads(1, [&](runtime::Context& context) { EXPECT_THROW(Recording(context, {"/proc/flockstep"}), Error); });
}

TEST_F(RecordingTest, aFileThatCannotBeWrittenIsToldAtTheEnd) {
  fs::create_directories(folder_ / "metrics.jsonl");  // a folder in its place
  test::on_threads(1, [&](runtime::Context& context) {
    Recording recording(context, {folder_.path()});
    recording.add(1, context.engine().now(), nullptr);
    recording.add(2, context.engine().now(), nullptr);
    EXPECT_EQ(recording.figures()["step"], 2) << "the training goes on";
    EXPECT_THROW(recording.close(), Error);
  });
}

}  // namespace
}  // namespace flockstep::torch_front::recording_test
