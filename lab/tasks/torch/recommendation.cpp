// `recommendation`: a deep learning recommendation model that predicts clicks.
#include "tasks/torch/recommendation.h"

#include <torch/types.h>

#include <algorithm>

#include "tasks/recommendation/click_metrics.h"
#include "tasks/recommendation/click_set.h"
#include "tasks/recommendation/recommendation.h"
#include "tasks/torch/dlrm.h"
#include "tasks/torch/torch_task.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kClicksAtATime = 1024;  // clicks that pass through the network together

// An evaluation tells of a click its log odds, its label and the planted probability: half where it is from a file.
constexpr std::size_t kRecordSize = 3;

class Recommendation final : public TorchTask {
 public:
  Recommendation(const RecommendationOptions& options, const TaskInputs& inputs, std::shared_ptr<const ClickSet> set)
      : Recommendation(options, inputs, std::move(set), std::make_shared<Dlrm>(options.model)) {}

  std::int64_t samples_per_step() const override { return static_cast<std::int64_t>(worker_.samples); }
  train::Metric metric() const override { return {"AUC", false}; }
  std::unique_ptr<train::Optimizer> make_optimizer() override { return adam(options_.adam, weights()); }
  bool has_validation() const override { return true; }
  double quality(std::span<const double> records) const override;
  std::vector<telemetry::Figure> figures(std::span<const double> records) const override;

 private:
  Recommendation(const RecommendationOptions& options, const TaskInputs& inputs, std::shared_ptr<const ClickSet> set,
                 std::shared_ptr<Dlrm> network)
      : TorchTask(network, inputs.device),
        options_(options),
        worker_(inputs),
        set_(std::move(set)),
        network_(std::move(network)),
        sampler_(set_, options.shard, worker_) {}

  void reset() override { network_->reset(worker_.seed); }
  torch::Tensor loss(std::int64_t step) override;
  std::vector<double> score(train::Split split) override;
  torch::Tensor log_odds_of(const Clicks& clicks);

  RecommendationOptions options_;
  WorkerData worker_;
  std::shared_ptr<const ClickSet> set_;
  std::shared_ptr<Dlrm> network_;
  ClickSampler sampler_;
};

torch::Tensor Recommendation::log_odds_of(const Clicks& clicks) {
  const auto count = static_cast<std::int64_t>(clicks.count());
  const torch::Tensor numbers = torch::empty({count, static_cast<std::int64_t>(set_->shape.numbers)}, batch_options()),
                      ids = torch::empty({count, static_cast<std::int64_t>(set_->shape.categories())},
                                         batch_options(torch::kInt64));
  std::ranges::copy(clicks.numbers, numbers.data_ptr<float>());
  std::ranges::copy(clicks.ids, ids.data_ptr<std::int64_t>());
  return network_->forward(to_device(numbers), to_device(ids));
}

torch::Tensor Recommendation::loss(std::int64_t step) {
  const Clicks clicks = sampler_.draw(worker_.samples, worker_.random(step));
  const torch::Tensor labels = torch::empty({static_cast<std::int64_t>(clicks.count())}, batch_options());
  std::ranges::copy(clicks.labels, labels.data_ptr<float>());
  return at::binary_cross_entropy_with_logits(log_odds_of(clicks), to_device(labels));
}

std::vector<double> Recommendation::score(train::Split split) {
  const Clicks& from = split == train::Split::test ? set_->test : set_->validation;
  const auto [first, total] = worker_.share_of(from.count());
  std::vector<double> records;
  for (std::size_t begin = 0; begin < total; begin += kClicksAtATime) {
    Clicks clicks;
    clicks.append(from, first + begin, std::min(kClicksAtATime, total - begin), set_->shape);
    const torch::Tensor log_odds = log_odds_of(clicks).cpu();
    for (std::size_t i = 0; i < clicks.count(); ++i)
      records.insert(records.end(), {log_odds.data_ptr<float>()[i], static_cast<double>(clicks.labels[i]),
                                     set_->is_generated ? clicks.probabilities[i] : 0.5});
  }
  return records;
}

// The columns of the records of all workers.
struct Evaluated {
  explicit Evaluated(std::span<const double> records) {
    for (; !records.empty(); records = records.subspan(kRecordSize)) {
      log_odds.push_back(records[0]);
      labels.push_back(records[1] > 0 ? 1 : 0);
      probabilities.push_back(records[2]);
    }
  }
  std::vector<double> log_odds, probabilities;
  std::vector<std::uint8_t> labels;
};

double Recommendation::quality(std::span<const double> records) const {
  const Evaluated all(records);
  return area_under_curve(all.log_odds, all.labels);
}

std::vector<telemetry::Figure> Recommendation::figures(std::span<const double> records) const {
  const Evaluated all(records);
  std::vector<telemetry::Figure> figures{{"log loss", log_loss(all.log_odds, all.labels)}};
  if (set_->is_generated) figures.push_back({"Bayes AUC", area_under_curve(all.probabilities, all.labels)});
  return figures;
}

}  // namespace

std::unique_ptr<train::Task> make_recommendation(const TaskInputs& inputs) {
  const RecommendationOptions options = recommendation_options_of(inputs.settings, inputs.workers, inputs.steps);
  return with_short_errors([&] {
    return std::make_unique<Recommendation>(options, inputs, load_click_set(options.data, options.model.shape));
  });
}

}  // namespace flockstep::tasks
