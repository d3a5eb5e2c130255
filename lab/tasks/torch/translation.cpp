// `translation`: a Transformer with smoothed labels and Adam, whose rate warms up and then falls.
#include "tasks/torch/translation.h"

#include <torch/types.h>

#include <algorithm>

#include "tasks/torch/torch_task.h"
#include "tasks/torch/transformer.h"
#include "tasks/translation/bleu.h"
#include "tasks/translation/pair_sampler.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kRowsAtOnce = 128;  // hypotheses that are followed together
constexpr std::size_t kSentenceRecord = 4 + 2 * BleuCounts::kOrders;

// Rows of one length, filled up with padding.
class Rows {
 public:
  Rows(std::size_t count, std::size_t length, const at::TensorOptions& options)
      : tensor_(torch::zeros({static_cast<std::int64_t>(count), static_cast<std::int64_t>(length)}, options)) {}

  void put(std::size_t row, std::size_t first, std::span<const Token> tokens) const {
    std::ranges::copy(tokens,
                      tensor_.data_ptr<std::int64_t>() + row * static_cast<std::size_t>(tensor_.size(1)) + first);
  }
  const torch::Tensor& tensor() const { return tensor_; }

 private:
  torch::Tensor tensor_;
};

// The network as a search sees it.
class NetworkRows final : public NextToken {
 public:
  NetworkRows(Transformer& network, const torch::Tensor& source, std::size_t width)
      : network_(network),
        device_(source.device()),
        decoded_(network.begin(source, static_cast<std::int64_t>(width))) {}

  std::span<const float> logarithms(std::span<const std::int64_t> parents, std::span<const Token> tokens) override {
    const auto count = static_cast<std::int64_t>(tokens.size());
    const torch::Tensor rows = torch::empty({count}, torch::kInt64), given = torch::empty({count}, torch::kInt64);
    std::ranges::copy(parents, rows.data_ptr<std::int64_t>());
    std::ranges::copy(tokens, given.data_ptr<std::int64_t>());
    if (!at::equal(rows, torch::arange(count))) decoded_.select(rows.to(device_));
    logarithms_ = network_.next(decoded_, given.to(device_)).cpu().contiguous();
    return {logarithms_.data_ptr<float>(), static_cast<std::size_t>(logarithms_.numel())};
  }

 private:
  Transformer& network_;
  const torch::Device device_;
  Decoded decoded_;
  torch::Tensor logarithms_;
};

class TranslationTask final : public TorchTask {
 public:
  TranslationTask(const TranslationOptions& options, const TaskInputs& inputs)
      : TranslationTask(options, inputs, std::make_shared<Transformer>(options.network)) {}

  std::int64_t samples_per_step() const override { return static_cast<std::int64_t>(worker_.samples); }
  train::Metric metric() const override { return {"BLEU", false}; }
  std::unique_ptr<train::Optimizer> make_optimizer() override { return adam(options_.adam); }
  double load() const override { return load_; }
  bool has_validation() const override { return !corpus_->validation.empty(); }
  double quality(std::span<const double> records) const override;
  std::vector<telemetry::Figure> figures(std::span<const double> records) const override;

 private:
  TranslationTask(const TranslationOptions& options, const TaskInputs& inputs, std::shared_ptr<Transformer> network)
      : TorchTask(network, inputs.device),
        options_(options),
        worker_(inputs),
        corpus_(load_corpus(options.corpus)),
        network_(std::move(network)),
        sampler_(corpus_, options.shard, worker_) {}

  void reset() override { network_->reset(worker_.seed); }
  torch::Tensor loss(std::int64_t step) override;
  std::vector<double> score(train::Split split) override;
  std::vector<std::string> translate(std::span<const TestSentence* const> sentences);

  TranslationOptions options_;
  WorkerData worker_;
  std::shared_ptr<const Corpus> corpus_;
  std::shared_ptr<Transformer> network_;
  PairSampler sampler_;
  double load_ = 1;
};

torch::Tensor TranslationTask::loss(std::int64_t step) {
  base::Random random = worker_.random(step);
  const auto batch = sampler_.draw(random);
  load_ = sampler_.load_of(batch);
  std::size_t source_length = 0, target_length = 0;
  for (const auto& [source, target] : batch) {
    source_length = std::max(source_length, source->size());
    target_length = std::max(target_length, target->size());
  }
  const at::TensorOptions options = batch_options(torch::kInt64);
  const Rows sources(batch.size(), source_length, options), targets(batch.size(), target_length + 1, options),
      labels(batch.size(), target_length + 1, options);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& [source, target] = batch[i];
    sources.put(i, 0, *source);
    targets.put(i, 0, std::array{kBegin});
    targets.put(i, 1, *target);
    labels.put(i, 0, *target);
    labels.put(i, target->size(), std::array{kEnd});
  }
  const torch::Tensor scores =
      network_->forward(to_device(sources.tensor()), to_device(targets.tensor()), Dropout{options_.dropout, &random});
  return at::cross_entropy_loss(scores.flatten(0, 1), to_device(labels.tensor()).flatten(), {}, at::Reduction::Mean,
                                kPadding, options_.label_smoothing);
}

std::vector<std::string> TranslationTask::translate(std::span<const TestSentence* const> sentences) {
  std::vector<std::size_t> longest;
  std::size_t length = 0;
  for (const TestSentence* sentence : sentences) {
    length = std::max(length, sentence->source.size());
    // A network that has learned nothing finds no end.
    longest.push_back(std::min(options_.corpus.longest, 3 * sentence->source.size() / 2 + 10));
  }
  const Rows sources(sentences.size(), length, batch_options(torch::kInt64));
  for (std::size_t i = 0; i < sentences.size(); ++i) sources.put(i, 0, sentences[i]->source);
  NetworkRows rows(*network_, to_device(sources.tensor()), options_.search.width);
  std::vector<std::string> lines;
  for (const Translation& found : search(rows, longest, options_.search))
    lines.push_back(corpus_->tokenizer.decode(found.tokens));
  return lines;
}

std::vector<double> TranslationTask::score(train::Split split) {
  const auto& all = split == train::Split::test ? corpus_->test : corpus_->validation;
  std::vector<const TestSentence*> sentences;
  const auto [first, count] = worker_.share_of(all.size());
  for (const TestSentence& sentence : std::span(all).subspan(first, count)) sentences.push_back(&sentence);
  std::ranges::stable_sort(sentences, {}, [](const TestSentence* sentence) { return sentence->source.size(); });

  BleuCounts counts;
  double exact = 0;
  const std::size_t most = std::max<std::size_t>(1, kRowsAtOnce / options_.search.width);
  for (std::size_t begin = 0; begin < count; begin += most) {
    const auto part = std::span<const TestSentence* const>(sentences).subspan(begin, std::min(most, count - begin));
    const std::vector<std::string> lines = translate(part);
    for (std::size_t i = 0; i < part.size(); ++i) {
      counts += count_for_bleu(lines[i], part[i]->reference);
      exact += words_as_13a(lines[i]) == words_as_13a(part[i]->reference) ? 1 : 0;
    }
  }
  std::vector<double> record{exact, static_cast<double>(count), counts.words, counts.reference_words};
  record.insert(record.end(), counts.matches.begin(), counts.matches.end());
  record.insert(record.end(), counts.ngrams.begin(), counts.ngrams.end());
  return record;
}

double TranslationTask::quality(std::span<const double> records) const {
  BleuCounts total;
  for (std::size_t at = 0; at + kSentenceRecord <= records.size(); at += kSentenceRecord) {
    BleuCounts counts{.words = records[at + 2], .reference_words = records[at + 3]};
    std::ranges::copy(records.subspan(at + 4, BleuCounts::kOrders), counts.matches.begin());
    std::ranges::copy(records.subspan(at + 4 + BleuCounts::kOrders, BleuCounts::kOrders), counts.ngrams.begin());
    total += counts;
  }
  return bleu(total);
}

std::vector<telemetry::Figure> TranslationTask::figures(std::span<const double> records) const {
  double exact = 0, sentences = 0;
  for (std::size_t at = 0; at + kSentenceRecord <= records.size(); at += kSentenceRecord) {
    exact += records[at];
    sentences += records[at + 1];
  }
  return {{"exact sentences", exact / sentences}};
}

}  // namespace

std::unique_ptr<train::Task> make_translation(const TaskInputs& inputs) {
  const TranslationOptions options = translation_options_of(inputs.settings, inputs.workers, inputs.steps);
  return with_short_errors([&] { return std::make_unique<TranslationTask>(options, inputs); });
}

}  // namespace flockstep::tasks
