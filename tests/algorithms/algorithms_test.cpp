#include <gtest/gtest.h>

#include <limits>

#include "algorithms/averagers/local_sgd.h"
#include "algorithms/registry.h"
#include "support/on_threads.h"
#include "support/refusal.h"

namespace flockstep::algorithms::algorithms_test {
namespace {

// Worker i starts from i, and each "update" adds i + 1 to every number.
struct Trainee {
  Trainee(runtime::Context& context, std::string_view name, const base::Settings& settings)
      : layout(30, 8), algorithm(find_algorithm(name).make({context, layout, settings})), rank(context.rank()) {
    model.assign(30, static_cast<float>(rank));
    algorithm->begin(0, model);
  }
  void step() {
    std::vector<float> gradient(30, static_cast<float>(rank + 1));
    for (std::size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) algorithm->bucket_ready(bucket, gradient);
    algorithm->finish_gradient(gradient, 1);
    for (std::size_t i = 0; i < model.size(); ++i) model[i] += gradient[i];
    algorithm->after_update(steps++, model);
  }
  runtime::Layout layout;
  std::unique_ptr<Algorithm> algorithm;
  int rank;
  std::vector<float> model;
  std::int64_t steps = 0;
};

TEST(Mean, everyWorkerAddsTheMeanGradient) {
  test::on_threads(4, [](runtime::Context& context) {
    Trainee trainee(context, "mean", {});
    for (int step = 0; step < 3; ++step) trainee.step();
    EXPECT_EQ(trainee.model, std::vector<float>(30, static_cast<float>(context.rank()) + 3 * 2.5f));
  });
}

TEST(LocalSgd, modelsStayApartForAPeriodAndMeetAtItsEnd) {
  test::on_threads(4, [](runtime::Context& context) {
    const base::Settings settings{{"period", "3"}};
    Trainee trainee(context, "local_sgd", settings);
    const auto local = [&](int steps) { return static_cast<float>(context.rank() + steps * (context.rank() + 1)); };
    trainee.step();
    trainee.step();
    EXPECT_EQ(trainee.model, std::vector<float>(30, local(2)));
    trainee.step();
    EXPECT_EQ(trainee.model, std::vector<float>(30, 1.5f + 3 * 2.5f));
    trainee.step();
    EXPECT_NE(trainee.model[0], 1.5f + 4 * 2.5f);
    trainee.algorithm->consolidate(trainee.model);
    EXPECT_EQ(trainee.model, std::vector<float>(30, 1.5f + 4 * 2.5f));
  });
}

TEST(Algorithms, everyOneRunsAloneAndLeavesALoneWorkerToItsOwnSteps) {
  for (const auto& row : algorithms())
    test::on_threads(1, [&](runtime::Context& context) {
      base::Settings settings;  // some rules divide by the norm: mean_norm gives it back
      if (row.family == Family::gradient) settings["magnitude"] = "mean_norm";
      Trainee trainee(context, row.name, settings);
      for (int step = 0; step < 20; ++step) trainee.step();
      trainee.algorithm->consolidate(trainee.model);
      for (const float value : trainee.model) EXPECT_NEAR(value, 20.0f, 1e-4) << row.name;
      EXPECT_TRUE(facts_of(row, settings, 1).replicas_are_equal) << row.name;
      EXPECT_EQ(trainee.algorithm->meetings(), nullptr) << row.name;
    });
}

TEST(Algorithms, sendTheBytesThatTheirRowStates) {
  for (const auto& row : algorithms())
    for (const int workers : {1, 2, 3, 5})
      test::on_threads(workers, [&](runtime::Context& context) {
        base::Settings settings;  // what is stated holds in the long run
        if (row.name == "post_local_sgd") settings["switch_after"] = "0";
        if (row.name == "diloco") settings["period"] = "8";
        if (row.name == "wagma" || row.name == "flock") settings["period"] = "8";
        if (row.family == Family::model) settings["guard"] = "off";  // what guards tell each other is not counted
        Trainee trainee(context, row.name, settings);
        constexpr int kSteps = 16;  // a multiple of all periods
        for (int step = 0; step < kSteps; ++step) trainee.step();
        // Workers own shards of different sizes, so the statement holds for their mean.
        double mine = static_cast<double>(context.engine().bytes_sent()) / kSteps;
        std::vector<double> sum{mine};
        std::vector<double> all(static_cast<std::size_t>(workers));
        std::vector<engines::Bytes> receive;
        for (auto& each : all) receive.push_back(engines::bytes_of(std::span(&each, 1)));
        context.wait(context.engine().all_gather(engines::const_bytes_of(std::span(&mine, 1)), receive), "gather");
        double mean = 0;
        for (const double each : all) mean += each / workers;
        const double stated = row.bytes_per_step(workers, 30, settings);
        if (row.bytes_text.starts_with("at most"))  // averages are skipped where they would be too many at once
          EXPECT_LE(mean, stated + 1e-9) << row.name << " with " << workers;
        else
          EXPECT_NEAR(mean, stated, 1e-9) << row.name << " with " << workers;
        trainee.algorithm->consolidate(trainee.model);
      });
}

TEST(Algorithms, inEveryKindOfGroupsSendTheBytesThatTheirRowStates) {
  const std::vector<base::Settings> kinds = {
      {{"groups", "fixed"}, {"group_size", "3"}},
      {{"groups", "nodes"}},  // the engine has one
      {{"groups", "nodes"}, {"workers_per_node", "2"}, {"across", "3"}},
      {{"groups", "nodes"}, {"workers_per_node", "3"}, {"across", "4"}},
      {{"groups", "nodes"}, {"workers_per_node", "1"}},
  };
  for (const std::string name : {"wagma", "flock"})
    for (base::Settings settings : kinds)
      for (const int workers : {3, 5, 8}) {
        settings["period"] = "8";
        test::on_threads(workers, [&](runtime::Context& context) {
          constexpr int kSteps = 24;  // a multiple of all periods
          Trainee trainee(context, name, settings);
          // At the start each worker tells the others its place in its node, two numbers, where that is asked for.
          const bool asks = settings.at("groups") == "nodes" && !settings.contains("workers_per_node");
          const double before = asks ? 16.0 * (workers - 1) : 0;
          for (int step = 0; step < kSteps; ++step) trainee.step();
          std::vector<double> sent{(static_cast<double>(context.engine().bytes_sent()) - before) / kSteps};
          sent = context.all_reduce(sent, "bytes");
          EXPECT_NEAR(sent[0] / workers, find_algorithm(name).bytes_per_step(workers, 30, settings), 1e-9)
              << name << " with " << workers << ", " << settings.at("groups");
          trainee.algorithm->consolidate(trainee.model);
        });
      }
}

TEST(Algorithms, defaultsSuitAnyNumberOfWorkersAndOneThatIsNotKnownYet) {
  for (const auto& row : algorithms())
    for (const int workers : {1, 2, 3, 1024, std::numeric_limits<int>::max()}) row.check({}, workers);
}

TEST(Algorithms, unknownNamesAndImpossibleOptionsGetOneSentence) {
  const auto sentence_of = [](const auto& action) -> std::string { return test::refusal([&] { action(); }); };
  EXPECT_EQ(sentence_of([] { find_algorithm("maen"); }),
            "unknown algorithm 'maen' (did you mean mean?); there are mean, weighted_mean, normalized_mean, adacons, "
            "adasum, direction_consensus, geometric_median, eager_solo, eager_majority, local_sgd, post_local_sgd, "
            "diloco, dpsgd, sgp, adpsgd, swarm, wagma, flock");
  EXPECT_EQ(sentence_of([] {
              find_algorithm("local_sgd").check({{"period", "0"}}, 4);
            }),
            "--local_sgd.period takes a whole number at least 1, not '0'");
  const auto of_sgp = [&](const std::string& neighbours, int workers) {
    return sentence_of([&] { find_algorithm("sgp").check({{"neighbours", neighbours}}, workers); });
  };
  EXPECT_EQ(of_sgp("3", 4), "--sgp.neighbours takes a whole number from 1 to 2, not '3'");
  EXPECT_EQ(of_sgp("2", 2), "--sgp.neighbours takes a whole number from 1 to 1, not '2'");
  for (const auto& [neighbours, workers] : {std::pair{"1", 1}, {"1", 2}, {"2", 3}, {"2", 4}, {"3", 5}, {"10", 1024}})
    EXPECT_EQ(of_sgp(neighbours, workers), "");
  EXPECT_NE(sentence_of([] { find_algorithm("mean").check({{"beta", "1"}}, 4); }), "");
  const auto adacons = [&](const std::string& option, const std::string& value) {
    return sentence_of([&] { find_algorithm("adacons").check({{option, value}}, 4); });
  };
  for (const std::string wrong : {"1", "-0.1", "nan", "much"})
    EXPECT_EQ(adacons("beta", wrong), "--adacons.beta takes a number from 0 to below 1, not '" + wrong + "'");
  for (const std::string wrong : {"0", "-1e-8", "inf", "nan"})
    EXPECT_EQ(adacons("eps", wrong), "--adacons.eps takes a number above 0, not '" + wrong + "'");
  EXPECT_EQ(adacons("granularity", "layer"), "--adacons.granularity takes model, bucket or tensor, not 'layer'");
  EXPECT_EQ(adacons("wire", "float64"), "--adacons.wire takes float32 or bfloat16, not 'float64'");
  const auto wagma = [&](const std::string& option, const std::string& value) {
    return sentence_of([&] { find_algorithm("wagma").check({{option, value}}, 4); });
  };
  for (const std::string wrong : {"1", "5", "-2"})
    EXPECT_EQ(wagma("group_size", wrong), "--wagma.group_size takes a whole number from 2 to 4, not '" + wrong + "'");
  for (const std::string wrong : {"0", "5", "some"})
    EXPECT_EQ(wagma("quorum", wrong), "--wagma.quorum takes a whole number from 1 to 4, not '" + wrong + "'");
  EXPECT_EQ(wagma("period", "0"), "--wagma.period takes a whole number at least 1, not '0'");
  EXPECT_EQ(wagma("activation", "last"), "--wagma.activation takes first, majority, quorum or deadline, not 'last'");
  EXPECT_EQ(wagma("deadline", "soon"), "--wagma.deadline takes a time such as 320ms, 1.5s or 50us, not 'soon'");
  for (const std::string wrong : {"0ms", "0s"})
    EXPECT_EQ(wagma("deadline", wrong), "--wagma.deadline takes a time above 0, not '" + wrong + "'");
  EXPECT_EQ(wagma("deadline", "5ms"), "--wagma.deadline needs --wagma.activation deadline, not 'first'");
  EXPECT_EQ(wagma("quorum", "3"), "--wagma.quorum needs --wagma.activation quorum, not 'first'");
  EXPECT_EQ(wagma("quorum", "auto"), "");
  EXPECT_EQ(wagma("groups", "static"), "--wagma.groups takes dynamic, fixed or nodes, not 'static'");
  EXPECT_EQ(wagma("across", "3"), "--wagma.across needs --wagma.groups nodes, not 'dynamic'");
  EXPECT_EQ(wagma("workers_per_node", "2"), "--wagma.workers_per_node needs --wagma.groups nodes, not 'dynamic'");
  const auto nodes = [&](const std::string& option, const std::string& value) {
    return sentence_of([&] { find_algorithm("flock").check({{"groups", "nodes"}, {option, value}}, 4); });
  };
  EXPECT_EQ(nodes("group_size", "2"),
            "--flock.group_size is not for --flock.groups nodes, where a group is as large as a node: give "
            "--flock.workers_per_node");
  for (const std::string wrong : {"1", "0", "often"})
    EXPECT_EQ(nodes("across", wrong), "--flock.across takes a whole number at least 2, not '" + wrong + "'");
  for (const std::string wrong : {"0", "5", "all"})
    EXPECT_EQ(nodes("workers_per_node", wrong),
              "--flock.workers_per_node takes a whole number from 1 to 4, not '" + wrong + "'");
  EXPECT_EQ(nodes("workers_per_node", "4"), "");
  EXPECT_EQ(nodes("group_size", "auto"), "");
  for (const std::string name : {"eager_solo", "eager_majority"})
    EXPECT_TRUE(sentence_of([&] {
                  find_algorithm(name).check({{"period", "1"}}, 4);
                }).starts_with("unknown option of " + name));
  const auto alone = [&](const base::Settings& settings) {
    return sentence_of([&] { find_algorithm("flock").check(settings, 1); });
  };
  EXPECT_EQ(alone({{"group_size", "abc"}}), "--flock.group_size takes a whole number at least 2, not 'abc'");
  EXPECT_EQ(alone({{"quorum", "abc"}}), "--flock.quorum takes a whole number at least 1, not 'abc'");
  EXPECT_EQ(alone({{"group_size", "4"}, {"activation", "quorum"}, {"quorum", "2"}}), "");
  EXPECT_EQ(adacons("permutation", "none"), "--adacons.permutation takes inverse or published, not 'none'");
}

}  // namespace
}  // namespace flockstep::algorithms::algorithms_test
