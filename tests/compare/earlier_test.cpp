#include "compare/earlier.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "flockstep/version.h"
#include "made_up.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"
#include "tasks/image_files.h"
#include "tasks/registry.h"

namespace flockstep::compare {
namespace {

class Earlier : public testing::Test {
 protected:
  Earlier() {
    request_ = request();
    request_.out = folder_.path();
    request_.on_earlier = [this](std::ptrdiff_t done, std::size_t) { done_ = done; };
  }

  // Compares with made-up runs that leave what real ones do; `made_` are the folders of those that were not read back.
  Comparison compare_in_folder(std::size_t most = 1000) {
    done_ = 0;
    made_.clear();
    return compare(request_, [&](const PlannedRun& run) {
      if (made_.size() == most) throw Error(ErrorCode::peer_lost, "gone");
      made_.push_back(run.folder);
      auto outcome = outcome_of(run);
      outcome.options = tasks::complete(run.request.train, outcome.workers);
      outcome.summary.steps = outcome.options.steps;
      outcome.summary.evaluations = {{0, 0, 9}, {outcome.summary.steps, 1, outcome.summary.quality}};
      const auto described = train::describe(outcome.summary, outcome.options, run.request.engine, outcome.workers);
      base::write_atomically(run.request.train.out / "metrics.jsonl", "");
      base::write_atomically(run.request.train.out / "summary.json", described.dump());
      return outcome;
    });
  }

  std::string refusal() {
    return test::refusal([&] { compare_in_folder(); });
  }

  // The fields of a run's file, changed.
  void change(const std::string& file, const std::function<void(nlohmann::json&)>& how) {
    const auto path = folder_ / "runs" / file;
    auto json = nlohmann::json::parse(base::read_text(path));
    how(json);
    base::write_atomically(path, json.dump());
  }

  const test::TemporaryFolder folder_;
  CompareRequest request_;
  std::vector<std::string> made_;
  std::ptrdiff_t done_ = 0;
};

TEST_F(Earlier, runsThatAreDoneAreReadBackWithAllTheirFigures) {
  const std::string first = to_json(compare_in_folder()).dump();
  EXPECT_EQ(made_.size(), 6u);
  EXPECT_EQ(to_json(compare_in_folder()).dump(), first);
  EXPECT_TRUE(made_.empty());
  EXPECT_EQ(done_, 6);
  EXPECT_EQ(nlohmann::json::parse(base::read_text(folder_ / "compare.json")).dump(), first);
}

TEST_F(Earlier, aComparisonThatFailedGoesOnWhereItStopped) {
  EXPECT_THROW(compare_in_folder(4), Error);
  const auto second = compare_in_folder();
  EXPECT_EQ(made_, (std::vector<std::string>{"runs/mean-seed-3", "runs/local_sgd-seed-3"}));
  EXPECT_EQ(done_, 4);
  EXPECT_FALSE(second.interrupted);
  EXPECT_EQ(second.cases[0].rows[0].result.quality.mean, 3);
}

TEST_F(Earlier, moreSeedsAndAlgorithmsAreMadeBesideThoseThatAreThere) {
  compare_in_folder();
  request_.seeds = 4;
  request_.algorithms.push_back("adacons");
  compare_in_folder();
  EXPECT_EQ(done_, 6);
  EXPECT_EQ(made_.size(), 6u);
}

TEST_F(Earlier, whatWasCutShortOrIsDamagedIsMadeAgainFromNothing) {
  compare_in_folder();
  change("mean-seed-1/summary.json", [](auto& json) { json["interrupted"] = true; });
  change("mean-seed-2/summary.json", [](auto& json) { json["steps"] = 7; });
  change("mean-seed-3/summary.json", [](auto& json) { json.erase("evaluations"); });
  base::write_atomically(folder_ / "runs" / "local_sgd-seed-1" / "summary.json", "{");
  base::write_atomically(folder_ / "runs" / "local_sgd-seed-1" / "trace.json", "left over");
  compare_in_folder();
  EXPECT_EQ(made_, (std::vector<std::string>{"runs/mean-seed-1", "runs/local_sgd-seed-1", "runs/mean-seed-2",
                                             "runs/mean-seed-3"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs" / "local_sgd-seed-1" / "trace.json"));
}

TEST_F(Earlier, whatWasCutShortWithACheckpointGoesOnFromThereIfCheckpointsWereAskedFor) {
  request_.base.train.checkpoint_every = 3;
  compare_in_folder();
  std::filesystem::remove(folder_ / "runs" / "mean-seed-2" / "summary.json");
  base::make_directory(folder_ / "runs" / "mean-seed-2" / "checkpoint");
  base::write_atomically(folder_ / "runs" / "mean-seed-2" / "checkpoint" / "latest", "5 4");
  Plan plan = plan_of(request_);
  const auto earlier = find_earlier(request_, plan);
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    EXPECT_EQ(plan.runs[i].request.train.resume, plan.runs[i].folder == "runs/mean-seed-2");
    EXPECT_EQ(earlier.done[i].has_value(), plan.runs[i].folder != "runs/mean-seed-2");
  }
}

TEST_F(Earlier, aRunWithOtherOptionsIsRefusedWithTheFirstOfThemAndNothingIsTouched) {
  compare_in_folder();
  change("mean-seed-1/summary.json", [](auto& json) { json["interrupted"] = true; });
  const CompareRequest same = request_;
  const auto refused = [&](const std::function<void(CompareRequest&)>& with) {
    request_ = same;
    with(request_);
    return refusal();
  };
  const std::string where = (folder_ / "runs" / "mean-seed-1").string() + " holds a run with ",
                    what_to_do = ": choose another --out, or remove that folder to repeat the run";
  EXPECT_EQ(refused([](auto& other) { other.base.train.steps = 17; }), where + "steps 500, not 17" + what_to_do);
  const std::vector<std::pair<std::string, std::function<void(CompareRequest&)>>> others{
      {"linear.dimension at its default, not 7",
       [](auto& other) { other.base.train.task_settings["dimension"] = "7"; }},
      {"engine", [](auto& other) { other.base.engine = "sim"; }},
      {"workers", [](auto& other) { other.base.launch.workers = 2; }},
      {"batch", [](auto& other) { other.base.train.batch = 32; }},
      {"evaluate-every", [](auto& other) { other.base.train.evaluate_every = 3; }},
      {"checkpoint-every", [](auto& other) { other.base.train.checkpoint_every = 3; }},
      {"bucket-kib", [](auto& other) { other.base.train.bucket_kib = 3; }},
      {"faulty", [](auto& other) { other.base.train.faults = train::parse_faults("1:zeros"); }},
      {"compute_s", [](auto& other) { other.base.train.pace.compute = base::Duration(1); }},
      {"fixed_stragglers", [](auto& other) { train::parse_fixed_stragglers("1:5ms", other.base.train.pace); }},
      {"deterministic", [](auto& other) { other.base.launch.deterministic = true; }},
  };
  for (const auto& [name, with] : others) EXPECT_EQ(refused(with).find(where + name), 0u) << name << ": " << refusal();
  EXPECT_NE(refused([](auto& other) {
              other.algorithm_settings["local_sgd"]["period"] = "5";
            }).find("local_sgd-seed-1 holds a run with local_sgd.period 4, not 5"),
            std::string::npos);
  EXPECT_NE(
      refused([](auto& other) { other.algorithm_settings.clear(); }).find("local_sgd.period 4, not at its default"),
      std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "runs" / "mean-seed-1" / "summary.json"));
}

TEST_F(Earlier, aRunOfAnotherVersionOrThatNoComparisonHasBegunIsLeftAlone) {
  compare_in_folder();
  change("mean-seed-2/request.json", [](auto& json) { json["version"] = "0.0.1"; });
  EXPECT_NE(refusal().find(std::string("mean-seed-2 holds a run with version 0.0.1, not ") + kVersion),
            std::string::npos);
  std::filesystem::remove(folder_ / "runs" / "mean-seed-2" / "request.json");
  EXPECT_NE(refusal().find("mean-seed-2 holds a run that no comparison has begun"), std::string::npos);
}

TEST_F(Earlier, aRunWithOtherFilesOfDataIsRefused) {
  const tasks::ImageFiles files;
  request_.base.train.task = "images";
  request_.base.train.task_settings = {{"data", files.string()}};
  compare_in_folder();
  compare_in_folder();
  EXPECT_EQ(done_, 6);
  const std::filesystem::path labels = files.string() + "/t10k-labels-idx1-ubyte";
  const std::string before = base::read_text(labels);
  const auto written = std::filesystem::last_write_time(labels);
  const std::string was = "mean-seed-1 holds a run with " + labels.string() + " of 15 bytes from ";
  base::write_atomically(labels, before + "x");
  EXPECT_NE(refusal().find(was), std::string::npos);
  base::write_atomically(labels, before);
  std::filesystem::last_write_time(labels, written + std::chrono::seconds(1));
  EXPECT_NE(refusal().find(was), std::string::npos);
  std::filesystem::last_write_time(labels, written);
  compare_in_folder();
  EXPECT_EQ(done_, 6) << "the files are as they were";
}

TEST_F(Earlier, aCallFindsTheFolderLockedWhileAnotherIsUnderWay) {
  std::string second;
  compare(request_, [&](const PlannedRun& run) {
    second = refusal();
    return outcome_of(run);
  });
  EXPECT_EQ(second,
            "another call is writing to " + folder_.string() + ": wait until it has ended, or choose another --out");
  EXPECT_TRUE(made_.empty());
  compare_in_folder();
  EXPECT_EQ(made_.size(), 6u) << "nobody has it any more; made-up runs without a summary are made again";
}

}  // namespace
}  // namespace flockstep::compare
