#include "tasks/torch/transformer.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "task_case.h"

namespace flockstep::tasks::transformer_test {
namespace {

constexpr TransformerOptions kSmall{.width = 16, .heads = 2, .inner = 24, .layers = 2, .vocabulary = 30};

std::shared_ptr<Transformer> network(std::uint64_t seed = 1) {
  at::set_num_threads(1);
  auto made = std::make_shared<Transformer>(kSmall);
  made->reset(seed);
  return made;
}

torch::Tensor tokens(const std::vector<std::vector<std::int64_t>>& rows) {
  torch::Tensor result =
      torch::zeros({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())}, torch::kInt64);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < rows[i].size(); ++j)
      result[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(j)] = rows[i][j];
  return result;
}

double farthest(const torch::Tensor& a, const torch::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(Transformer, hasTheParametersOfThePaper) {
  EXPECT_EQ(parameters_of(Transformer(translation_options_of({{"size", "paper"}}, 1, 0).network)), 61'362'176);
  // An attention has four matrices, a hidden layer two with biases, a norm two vectors.
  EXPECT_EQ(parameters_of(Transformer(kSmall)),
            30 * 16 + 2 * (12 * 16 * 16 + 2 * (2 * 16 * 24 + 16 + 24) + 5 * 2 * 16) + 2 * 2 * 16);
}

TEST(Transformer, aChangedFutureTokenNeverChangesAPastOutput) {
  const torch::NoGradGuard no_grad;
  const auto model = network();
  const torch::Tensor source = tokens({{5, 6, 7, 8}}), target = tokens({{1, 9, 10, 11, 12, 13}});
  const torch::Tensor scores = model->forward(source, target);
  for (std::int64_t place = 0; place < 6; ++place) {
    torch::Tensor changed = target.clone();
    changed[0][place] = 20;
    const torch::Tensor other = model->forward(source, changed);
    EXPECT_TRUE(at::equal(scores.narrow(1, 0, place), other.narrow(1, 0, place))) << place;
    for (std::int64_t later = place; later < 6; ++later)  // but what comes then sees it
      EXPECT_GT(farthest(scores.select(1, later), other.select(1, later)), 1e-4) << place;
  }
}

TEST(Transformer, everyOutputDependsOnEverySourceToken) {
  const torch::NoGradGuard no_grad;
  const auto model = network();
  const torch::Tensor source = tokens({{5, 6, 7, 8}}), target = tokens({{1, 9, 10}});
  const torch::Tensor scores = model->forward(source, target);
  for (std::int64_t place = 0; place < 4; ++place) {
    torch::Tensor changed = source.clone();
    changed[0][place] = 20;
    const torch::Tensor other = model->forward(changed, target);
    for (std::int64_t at = 0; at < 3; ++at) EXPECT_GT(farthest(scores.select(1, at), other.select(1, at)), 1e-4);
  }
  EXPECT_GT(farthest(model->forward(tokens({{6, 5, 7, 8}}), target), scores), 1e-4);  // and on their order
}

TEST(Transformer, paddingNeverChangesAResult) {
  const torch::NoGradGuard no_grad;
  const auto model = network();
  const torch::Tensor alone = model->forward(tokens({{5, 6, 7}}), tokens({{1, 9, 10}}));
  const torch::Tensor padded = model->forward(tokens({{5, 6, 7, 0, 0, 0, 0}, {8, 9, 10, 11, 12, 13, 14}}),
                                              tokens({{1, 9, 10, 0, 0}, {1, 20, 21, 22, 23}}));
  EXPECT_LT(farthest(padded[0].narrow(0, 0, 3), alone[0]), 1e-5);
  // Whatever the embedding of padding is.
  for (const auto& item : model->named_parameters())
    if (item.key() == "embedding.rows") item.value()[kPadding].fill_(100);
  const torch::Tensor loud = model->forward(tokens({{5, 6, 7, 0, 0, 0, 0}, {8, 9, 10, 11, 12, 13, 14}}),
                                            tokens({{1, 9, 10, 0, 0}, {1, 20, 21, 22, 23}}));
  EXPECT_TRUE(at::equal(loud[0].narrow(0, 0, 3).narrow(1, 1, 29), padded[0].narrow(0, 0, 3).narrow(1, 1, 29)));
}

TEST(Transformer, tokenByTokenItFindsWhatItFindsAtOnce) {
  const torch::NoGradGuard no_grad;
  const auto model = network();
  const torch::Tensor source = tokens({{5, 6, 7, 0}, {8, 9, 10, 11}});
  const torch::Tensor first = tokens({{1, 9, 10, 11}, {1, 12, 13, 14}}), second = tokens({{1, 20, 21, 22}});
  const torch::Tensor whole = model->forward(source, first).log_softmax(-1);
  Decoded decoded = model->begin(source, 1);
  for (std::int64_t at = 0; at < 4; ++at)
    EXPECT_LT(farthest(model->next(decoded, first.select(1, at)), whole.select(1, at)), 1e-5);

  // Two rows for each sentence; on the way the second sentence's rows both go on from its second one.
  Decoded rows = model->begin(source, 2);
  model->next(rows, tokens({{1, 1, 1, 1}})[0]);
  model->next(rows, tokens({{9, 9, 12, 20}})[0]);
  rows.select(tokens({{0, 1, 3, 3}})[0]);
  model->next(rows, tokens({{10, 10, 21, 21}})[0]);
  const torch::Tensor last = model->next(rows, tokens({{11, 11, 22, 22}})[0]);
  const torch::Tensor expected = model->forward(source.narrow(0, 1, 1), second).log_softmax(-1).select(1, 3)[0];
  EXPECT_LT(farthest(last[0], whole[0][3]), 1e-5);
  EXPECT_LT(farthest(last[2], expected), 1e-5);
  EXPECT_LT(farthest(last[3], expected), 1e-5);
}

TEST(Transformer, startsFromTheSeedAloneAndLeavesTheSharedGeneratorAlone) {
  const torch::Tensor before = at::globalContext().defaultGenerator(at::kCPU).get_state();
  const auto first = network(1), second = network(1), other = network(2);
  base::Random random(1, base::Purpose::test);
  first->forward(tokens({{5, 6}}), tokens({{1, 7}}), {0.5, &random});
  EXPECT_TRUE(at::equal(before, at::globalContext().defaultGenerator(at::kCPU).get_state()));
  const auto parameters = first->named_parameters();
  for (const auto& item : second->named_parameters()) EXPECT_TRUE(at::equal(item.value(), parameters[item.key()]));
  const std::string some = "decoder2.source.queries";
  EXPECT_FALSE(at::equal(other->named_parameters()[some], parameters[some]));
  EXPECT_NEAR(parameters[some].square().mean().item<double>(), 1.0 / 16, 0.01);
  EXPECT_NEAR(parameters["embedding.rows"].square().mean().item<double>(), 1.0 / 16, 0.015);
  EXPECT_TRUE(parameters["encoded.scale"].eq(1).all().item<bool>());
}

TEST(Dropout, dropsAShareAndKeepsTheMean) {
  base::Random random(1, base::Purpose::test), same(1, base::Purpose::test);
  const torch::Tensor ones = torch::ones({100, 100});
  const torch::Tensor dropped = Dropout{0.2, &random}(ones);
  EXPECT_NEAR(dropped.eq(0).to(torch::kFloat64).mean().item<double>(), 0.2, 0.02);
  EXPECT_NEAR(dropped.max().item<double>(), 1.25, 1e-6);
  EXPECT_NEAR(dropped.mean().item<double>(), 1, 0.02);
  EXPECT_TRUE(at::equal(Dropout{0.2, &same}(ones), dropped));
  EXPECT_FALSE(at::equal(Dropout{0.2, &same}(ones), dropped));
  EXPECT_TRUE(at::equal(Dropout{}(ones), ones));
}

}  // namespace
}  // namespace flockstep::tasks::transformer_test
