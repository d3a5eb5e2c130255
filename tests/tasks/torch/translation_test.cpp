// The translation task against a plain computation with torch, in double, on tensors of its own.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "task_case.h"
#include "tasks/torch/transformer.h"
#include "tasks/torch/translation.h"
#include "tasks/translation/pair_sampler.h"

namespace flockstep::tasks::translation_test {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr int kRank = 2, kWorkers = 3;
constexpr std::int64_t kBatch = 20;  // 7, 7 and 6
constexpr std::int64_t kStep = 5;

const base::Settings kTest{{"width", "8"}, {"heads", "2"}, {"inner", "12"}, {"layers", "2"}, {"test_sentences", "20"}};

base::Settings with(base::Settings settings) {
  settings.insert(kTest.begin(), kTest.end());
  return settings;
}

struct Case : TaskCase {
  explicit Case(const base::Settings& given = {})
      : TaskCase(make_translation, with(given), {.seed = kSeed, .batch = kBatch, .rank = kRank, .workers = kWorkers}) {}
};

// One sentence at a time, so that there is no padding, and one head at a time.
class Plain {
 public:
  explicit Plain(const Tensors& tensors) : tensors_(tensors) {}

  torch::Tensor logarithms(const Tokens& source, const Tokens& before) const {
    torch::Tensor encoded = embed(source);
    for (const std::string layer : {"encoder1", "encoder2"}) {
      const torch::Tensor normal = norm(encoded, layer + ".attention_norm");
      encoded = encoded + attend(normal, normal, layer + ".attention", false);
      encoded = encoded + hidden(norm(encoded, layer + ".hidden_norm"), layer + ".hidden");
    }
    encoded = norm(encoded, "encoded");
    torch::Tensor output = embed(before);
    for (const std::string layer : {"decoder1", "decoder2"}) {
      const torch::Tensor normal = norm(output, layer + ".own_norm");
      output = output + attend(normal, normal, layer + ".own", true);
      output = output + attend(norm(output, layer + ".source_norm"), encoded, layer + ".source", false);
      output = output + hidden(norm(output, layer + ".hidden_norm"), layer + ".hidden");
    }
    return norm(output, "decoded").matmul(get("embedding.rows").t()).log_softmax(-1);
  }

 private:
  const torch::Tensor& get(const std::string& name) const { return tensors_.at(name); }
  torch::Tensor embed(const Tokens& tokens) const {
    std::vector<torch::Tensor> rows;
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      torch::Tensor position = torch::zeros({8}, torch::kFloat64);
      for (int i = 0; i < 8; ++i) {
        const double angle = static_cast<double>(at) / std::pow(10000, (i - i % 2) / 8.0);
        position[i] = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
      }
      rows.push_back(get("embedding.rows")[tokens[at]] * std::sqrt(8.0) + position);
    }
    return at::stack(rows);
  }
  torch::Tensor norm(const torch::Tensor& x, const std::string& name) const {
    const torch::Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * get(name + ".scale") + get(name + ".shift");
  }
  torch::Tensor attend(const torch::Tensor& x, const torch::Tensor& to, const std::string& name, bool causal) const {
    const torch::Tensor queries = x.matmul(get(name + ".queries").t());
    const torch::Tensor both = to.matmul(get(name + ".keys_values").t());
    std::vector<torch::Tensor> heads;
    for (int head = 0; head < 2; ++head) {
      torch::Tensor scores = queries.narrow(1, 4 * head, 4).matmul(both.narrow(1, 4 * head, 4).t()) / std::sqrt(4.0);
      if (causal) scores = scores + torch::full_like(scores, -1e9).triu(1);
      heads.push_back(scores.softmax(-1).matmul(both.narrow(1, 8 + 4 * head, 4)));
    }
    return at::cat(heads, 1).matmul(get(name + ".result").t());
  }
  torch::Tensor hidden(const torch::Tensor& x, const std::string& name) const {
    return (x.matmul(get(name + ".first").t()) + get(name + ".first_bias")).relu().matmul(get(name + ".second").t()) +
           get(name + ".second_bias");
  }

  const Tensors& tensors_;
};

TEST(Translation, theGradientIsThatOfAPlainComputation) {
  Case translation({{"label_smoothing", "0.2"}, {"noisy_workers", "1"}});
  base::Random(3, base::Purpose::test).fill_uniform(translation.model, -0.7f, 0.7f);
  const double loss = translation.compute(kStep);

  const TranslationOptions options = translation_options_of(translation.settings, kWorkers, 0);
  const Transformer shapes(options.network);
  const Tensors tensors = cut_to_learn(translation.model, shapes);
  const WorkerData worker({translation.settings, kSeed, kBatch, kRank, kWorkers});
  base::Random random = worker.random(kStep);
  torch::Tensor sum = torch::zeros({}, torch::kFloat64);
  std::int64_t count = 0;
  const auto corpus = load_corpus(options.corpus);
  for (const auto& [source, target] : PairSampler(corpus, options.shard, worker).draw(random)) {
    Tokens before{kBegin}, labels = *target;
    before.insert(before.end(), target->begin(), target->end());
    labels.push_back(kEnd);
    const torch::Tensor logarithms = Plain(tensors).logarithms(*source, before);
    for (std::size_t i = 0; i < labels.size(); ++i, ++count) {
      const torch::Tensor row = logarithms[static_cast<std::int64_t>(i)];
      sum = sum - 0.8 * row[labels[i]] - 0.2 * row.mean();
    }
  }
  expect_loss_and_gradient(loss, translation.gradient, shapes, sum / count, tensors);
}

TEST(Translation, aStepIsTheSameWheneverItIsComputed) {
  const base::Settings dropout{{"dropout", "0.3"}};
  Case first(dropout), second(dropout), without;
  first.compute(3);
  const double load = first.task->load(), loss = first.compute(kStep);
  EXPECT_NE(first.task->load(), load) << "it follows the lengths of sentences";
  EXPECT_EQ(second.compute(kStep), loss);
  EXPECT_EQ(first.gradient, second.gradient);
  EXPECT_NE(without.compute(kStep), loss);
}

TEST(Translation, qualityIsBleuOfTheSumOfAllRecordsAndFiguresTellOfWholeSentences) {
  const Case translation;
  // Exact sentences, sentences, words, words of references, matches and n-grams of one to four words.
  const std::vector<double> records{1, 2, 5, 5, 4, 3, 2, 1, 5, 4, 3, 2, 1, 2, 2, 5, 2, 1, 0, 0, 2, 1, 0, 0};
  EXPECT_NEAR(translation.task->quality(records),
              100 * std::exp(1 - 10.0 / 7) * std::pow(6.0 / 7 * 4 / 5 * 2 / 3 * 1 / 2, 0.25), 1e-9);
  EXPECT_EQ(translation.task->figures(records)[0].name, "exact sentences");
  EXPECT_EQ(translation.task->figures(records)[0].value, 0.5);
}

}  // namespace
}  // namespace flockstep::tasks::translation_test
