#include "tasks/images/images.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/random.h"
#include "image_files.h"
#include "support/refusal.h"
#include "tasks/images/dense.h"
#include "tasks/images/image_set.h"

namespace flockstep::tasks::images_test {
namespace {

constexpr std::uint64_t kSeed = 7;

struct Case {
  explicit Case(base::Settings given, int rank = 0, int workers = 1, std::int64_t batch = 16, int data_rank = -1)
      : settings(std::move(given)),
        task(find_task("images").make({settings, kSeed, batch, rank, workers, data_rank < 0 ? rank : data_rank})),
        model(task->parameters()),
        gradient(model.size()) {
    task->initialise(model);
  }
  double compute(std::int64_t step) {
    return task->gradient(step, model, gradient, [](std::size_t, std::size_t) {});
  }
  base::Settings settings;
  std::unique_ptr<train::Task> task;
  std::vector<float> model, gradient;
};

// The network once more, in double and one sample at a time.
double loss_of(const std::vector<double>& model, const ImageSet& set, std::size_t hidden,
               const std::vector<std::size_t>& images) {
  const double *w1 = model.data(), *b1 = w1 + set.pixels() * hidden, *w2 = b1 + hidden, *b2 = w2 + hidden * kClasses;
  double loss = 0;
  for (const std::size_t image : images) {
    std::vector<double> scores(b2, b2 + kClasses);
    for (std::size_t j = 0; j < hidden; ++j) {
      double sum = b1[j];
      for (std::size_t k = 0; k < set.pixels(); ++k)
        sum += static_cast<double>(set.value_of[0][set.train.pixels[image * set.pixels() + k]]) * w1[k * hidden + j];
      for (std::size_t c = 0; c < kClasses; ++c) scores[c] += std::max(sum, 0.0) * w2[j * kClasses + c];
    }
    double powers = 0;
    for (const double score : scores) powers += std::exp(score);
    loss += std::log(powers) - scores[set.train.labels[image]];
  }
  return loss / static_cast<double>(images.size());
}

TEST(Dense, theProductIsThatOfAPlainLoopBitForBit) {
  base::Random random(1, base::Purpose::test);
  for (const auto& [rows, inner, columns] : {std::array<std::size_t, 3>{1, 1, 1}, {5, 7, 10}, {9, 3, 13}, {8, 20, 64}})
    for (const bool transposed : {false, true}) {
      std::vector<float> a(rows * inner), b(inner * columns), out(rows * columns);
      for (auto* numbers : {&a, &b, &out}) random.fill_uniform(*numbers, -1, 1);
      auto expected = out;
      const MatrixView view = transposed ? MatrixView{a.data(), 1, rows} : MatrixView{a.data(), inner, 1};
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c)
          for (std::size_t i = 0; i < inner; ++i) {
            const volatile float product = a[r * view.row_stride + i * view.column_stride] * b[i * columns + c];
            expected[r * columns + c] += product;  // rounded on its own: volatile keeps the two from being fused
          }
      add_product(view, b.data(), out.data(), rows, inner, columns);
      EXPECT_EQ(out, expected) << rows << " x " << inner << " x " << columns;
    }
}

TEST(Images, theGradientIsTheDerivativeOfTheLoss) {
  const ImageFiles files;
  constexpr std::size_t kHidden = 6, kSamples = 70;  // more than pass through the network at once
  Case images({{"data", files.string()}, {"hidden", "6"}}, 0, 1, kSamples);
  // Biases that matter, and hidden numbers on both sides of zero.
  base::Random(5, base::Purpose::test).fill_uniform(images.model, -0.5, 0.5);
  const double loss = images.compute(3);

  const auto set = load_image_set(files.string());
  base::Random random(kSeed, base::Purpose::data, 0, 3);
  std::vector<std::size_t> drawn(kSamples);
  for (auto& image : drawn) image = random.below(ImageFiles::kTrain);
  std::vector<double> model(images.model.begin(), images.model.end());
  EXPECT_NEAR(loss, loss_of(model, *set, kHidden, drawn), 1e-6);
  for (std::size_t i = 0; i < model.size(); ++i) {
    constexpr double kStep = 1e-6;
    const double kept = model[i];
    model[i] = kept + kStep;
    const double above = loss_of(model, *set, kHidden, drawn);
    model[i] = kept - kStep;
    const double below = loss_of(model, *set, kHidden, drawn);
    model[i] = kept;
    EXPECT_NEAR((above - below) / (2 * kStep), images.gradient[i], 2e-6) << i;
  }
}

TEST(Images, rangesBecomeFinalFromTheLastLayerToTheFirst) {
  const ImageFiles files;
  for (const std::int64_t batch : {5, 150}) {
    Case images({{"data", files.string()}, {"hidden", "3"}}, 0, 1, batch);
    EXPECT_EQ(images.task->tensors(), (std::vector<std::size_t>{36, 3, 30, 10}));
    std::size_t end = images.task->parameters();
    EXPECT_EQ(end, 79u);
    std::vector<float> seen(end);
    images.task->gradient(0, images.model, images.gradient, [&](std::size_t begin, std::size_t size) {
      EXPECT_EQ(begin + size, end);
      std::copy_n(images.gradient.begin() + static_cast<std::ptrdiff_t>(begin), size,
                  seen.begin() + static_cast<std::ptrdiff_t>(begin));
      end = begin;
    });
    EXPECT_EQ(end, 0u);
    EXPECT_EQ(seen, images.gradient);
  }
}

// The classes that a worker's gradient of the last bias pulls up: those among its labels.
std::set<std::size_t> labels_seen(Case& images, int steps) {
  std::set<std::size_t> seen;
  for (int step = 0; step < steps; ++step) {
    images.compute(step);
    for (std::size_t c = 0; c < kClasses; ++c)
      if (images.gradient[images.gradient.size() - kClasses + c] < 0) seen.insert(c);
  }
  return seen;
}

TEST(Images, shardsByClassCoverAllClassesAndTheLastWorkersDrawTheirLabels) {
  const ImageFiles files;
  // One sample per step, so that its own class is the only one with a negative derivative.
  const auto seen = [&](int rank, int workers, const std::string& noisy) {
    Case images({{"data", files.string()}, {"shard", "skewed"}, {"noisy_workers", noisy}}, rank, workers, workers);
    return labels_seen(images, 100);
  };
  for (const int workers : {1, 3, 8, 10, 23})
    for (int rank = 0; rank < workers; ++rank) {
      const std::size_t step = std::min<std::size_t>(10, static_cast<std::size_t>(workers));
      std::set<std::size_t> expected;
      for (std::size_t c = static_cast<std::size_t>(rank) % step; c < 10; c += step) expected.insert(c);
      EXPECT_EQ(seen(rank, workers, "0"), expected) << rank << " of " << workers;
    }
  for (const int rank : {6, 7, 9}) EXPECT_EQ(seen(rank, 10, "3").size(), rank < 7 ? 1u : kClasses) << rank;
}

TEST(Images, workersSeeDifferentDataAndTheSameModelAndShareTheTestImages) {
  const ImageFiles files;
  const base::Settings settings{{"data", files.string()}};
  Case first(settings, 0, 3, 16), second(settings, 1, 3, 16), copy(settings, 1, 3, 16, 0);
  EXPECT_EQ(first.model, second.model);
  EXPECT_NE(first.compute(0), second.compute(0));
  EXPECT_EQ(first.task->samples_per_step(), 6);  // 16 over three workers: 6, 5, 5
  EXPECT_EQ(second.task->samples_per_step(), 5);
  EXPECT_EQ(copy.compute(0), first.compute(0)) << "reads worker 0's data, and as much of it";
  EXPECT_EQ(copy.gradient, first.gradient);
  const auto of_test = [&](const Case& worker) { return worker.task->evaluate(first.model, train::Split::test); };
  EXPECT_EQ(of_test(copy), of_test(second)) << "but not its share of the test";
  double correct = 0, count = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto sums = of_test(Case(settings, rank, 3));
    correct += sums[0], count += sums[1];
  }
  EXPECT_EQ(count, ImageFiles::kTest);
  EXPECT_EQ(of_test(Case(settings)), (std::vector<double>{correct, count}));
}

TEST(Images, momentumIsKeptInACheckpoint) {
  const ImageFiles files;
  Case images({{"data", files.string()}, {"momentum", "0.5"}, {"learning_rate", "1"}});
  images.compute(0);
  const auto optimizer = images.task->make_optimizer(), restored = images.task->make_optimizer();
  std::vector<float> model(images.model.size());
  optimizer->update(model, images.gradient);
  base::Archive archive;
  optimizer->save(archive);
  restored->restore(archive);
  restored->update(model, images.gradient);
  for (std::size_t i = 0; i < model.size(); ++i) EXPECT_FLOAT_EQ(model[i], -2.5f * images.gradient[i]);
}

TEST(Images, batchesMayBeUnevenButLeaveNoWorkerWithoutASample) {
  const auto refused = [](std::int64_t batch) {
    return test::refusal([&] { complete({.task = "images", .batch = batch}, 7); });
  };
  EXPECT_EQ(refused(30), "");
  EXPECT_EQ(refused(6), "a batch of 6 leaves some of 7 workers without a sample: use at least 7");
}

}  // namespace
}  // namespace flockstep::tasks::images_test
