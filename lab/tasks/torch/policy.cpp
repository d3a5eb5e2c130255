#include "tasks/torch/policy.h"

#include <torch/types.h>

#include <cmath>

#include "tasks/navigation/episode.h"
#include "tasks/navigation/view.h"
#include "tasks/torch/initial_values.h"
#include "tasks/torch/resnet.h"

namespace flockstep::tasks {
namespace {

constexpr std::int64_t kEmbedded = 32;        // numbers for the goal, and for the last action
constexpr std::int64_t kDepth = 18;           // of the residual network
constexpr std::int64_t kShrinksBy = 32;       // how much smaller than the image its last stage is
constexpr std::int64_t kAboutEncoded = 2048;  // numbers that its image is brought down to
constexpr double kActionScale = 0.01;

void fill_layer(const torch::Tensor& weights, const torch::Tensor& bias, base::Random& random, double scale = 1) {
  fill_uniform(weights, scale / std::sqrt(static_cast<double>(weights.size(1))), random);
  bias.zero_();
}

}  // namespace

// Views to `hidden` numbers: in one layer, or through a residual network and a convolution to fewer channels.
class ViewEncoder : public torch::nn::Module {
 public:
  explicit ViewEncoder(const PolicyOptions& options) : image_(options.image) {
    std::int64_t numbers = options.view * options.view;
    if (options.encoder == Encoder::resnet) {
      const ResNetOptions network{
          .depth = kDepth, .width = options.width, .norm = Norm::group, .channels = 1, .classes = 0};
      const std::int64_t side = options.image / kShrinksBy,
                         channels = std::max<std::int64_t>(1, kAboutEncoded / (side * side));
      network_ = register_module("network", std::make_shared<ResNet>(network));
      compression_ = register_module(
          "compression", std::make_shared<ConvolutionNorm>(network, network_->widths().back(), channels, 3, 1));
      numbers = channels * side * side;
    }
    weights_ = register_parameter("weights", torch::zeros({options.hidden, numbers}));
    bias_ = register_parameter("bias", torch::zeros({options.hidden}));
  }

  torch::Tensor forward(const torch::Tensor& views) {
    torch::Tensor numbers = views.flatten(2);
    if (network_) {
      const torch::Tensor images = at::upsample_nearest2d(views.flatten(0, 1).unsqueeze(1), {image_, image_});
      const torch::Tensor encoded = compression_->forward(network_->stages(images).back()).relu();
      numbers = encoded.view({views.size(0), views.size(1), -1});
    }
    return at::linear(numbers, weights_, bias_).relu();
  }

  void reset(std::uint64_t seed, base::Random& random) {
    fill_layer(weights_, bias_, random);
    if (!network_) return;
    network_->reset(seed);
    compression_->reset(random);
  }

 private:
  std::int64_t image_;
  std::shared_ptr<ResNet> network_;
  std::shared_ptr<ConvolutionNorm> compression_;
  torch::Tensor weights_, bias_;
};

// The goal and the last action.
class PolicyInputs : public torch::nn::Module {
 public:
  PolicyInputs() {
    weights_ = register_parameter("goal_weights", torch::zeros({kEmbedded, kSenses}));
    bias_ = register_parameter("goal_bias", torch::zeros({kEmbedded}));
    actions_ = register_parameter("last_actions", torch::zeros({kActions + 1, kEmbedded}));
  }
  torch::Tensor goal(const torch::Tensor& goals) const { return at::linear(goals, weights_, bias_); }
  torch::Tensor last_action(const torch::Tensor& actions) const { return at::embedding(actions_, actions); }
  void reset(base::Random& random) {
    fill_layer(weights_, bias_, random);
    fill_uniform(actions_, 1, random);
  }

 private:
  torch::Tensor weights_, bias_, actions_;
};

// cuDNN would like an LSTM's weights in an order of its own, and says so in every call.
class WithoutWarnings {
 private:
  struct Silence final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  Silence silence_;
  const c10::WarningUtils::WarningHandlerGuard guard_{&silence_};
};

class Lstm : public torch::nn::Module {
 public:
  Lstm(std::int64_t inputs, std::int64_t hidden, std::int64_t layers) : layers_(layers) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto add = [&](const char* name, at::IntArrayRef shape) {
        tensors_.push_back(register_parameter(name + std::to_string(layer), torch::zeros(shape)));
      };
      add("input_weights", {4 * hidden, layer == 0 ? inputs : hidden});
      add("state_weights", {4 * hidden, hidden});
      add("input_bias", {4 * hidden});
      add("state_bias", {4 * hidden});
    }
  }
  at::TensorOptions options() const { return at::TensorOptions().device(tensors_.front().device()); }
  torch::Tensor forward(const torch::Tensor& inputs, Policy::State& state) const {
    const WithoutWarnings quiet;
    auto [outputs, output, cell] =
        at::lstm(inputs, {state.output, state.cell}, tensors_, /*has_biases=*/true, layers_,
                 /*dropout=*/0, is_training(), /*bidirectional=*/false, /*batch_first=*/false);
    state = {output, cell};
    return outputs;
  }
  void reset(base::Random& random) {
    for (const torch::Tensor& tensor : tensors_)
      if (tensor.dim() > 1)
        fill_uniform(tensor, 1 / std::sqrt(static_cast<double>(tensor.size(1))), random);
      else
        tensor.zero_();
  }

 private:
  std::int64_t layers_;
  std::vector<torch::Tensor> tensors_;  // as at::lstm wants them
};

// Scores of the actions, and the value.
class Heads : public torch::nn::Module {
 public:
  explicit Heads(std::int64_t hidden) {
    action_weights_ = register_parameter("action_weights", torch::zeros({kActions, hidden}));
    action_bias_ = register_parameter("action_bias", torch::zeros({kActions}));
    value_weights_ = register_parameter("value_weights", torch::zeros({1, hidden}));
    value_bias_ = register_parameter("value_bias", torch::zeros({1}));
  }
  Policy::Outputs forward(const torch::Tensor& hidden) const {
    return {at::linear(hidden, action_weights_, action_bias_),
            at::linear(hidden, value_weights_, value_bias_).squeeze(-1)};
  }
  void reset(base::Random& random) {
    fill_layer(action_weights_, action_bias_, random, kActionScale);
    fill_layer(value_weights_, value_bias_, random);
  }

 private:
  torch::Tensor action_weights_, action_bias_, value_weights_, value_bias_;
};

Policy::Policy(const PolicyOptions& options)
    : options_(options),
      encoder_(register_module("encoder", std::make_shared<ViewEncoder>(options))),
      embedding_(register_module("embedding", std::make_shared<PolicyInputs>())),
      lstm_(register_module("lstm",
                            std::make_shared<Lstm>(options.hidden + 2 * kEmbedded, options.hidden, options.layers))),
      heads_(register_module("heads", std::make_shared<Heads>(options.hidden))) {}

Policy::State Policy::first_state(std::int64_t episodes) const {
  const auto zeros = [&, like = lstm_->options()] {
    return torch::zeros({options_.layers, episodes, options_.hidden}, like);
  };
  return {zeros(), zeros()};
}

Policy::Outputs Policy::forward(const Inputs& inputs, State& state) {
  const torch::Tensor features = at::cat(
      {encoder_->forward(inputs.views), embedding_->goal(inputs.goals), embedding_->last_action(inputs.last_actions)},
      -1);
  if (options_.memory) return heads_->forward(lstm_->forward(features, state));
  State alone = first_state(features.size(0) * features.size(1));
  return heads_->forward(
      lstm_->forward(features.flatten(0, 1).unsqueeze(0), alone).view({features.size(0), features.size(1), -1}));
}

void Policy::reset(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  base::Random random(seed, base::Purpose::initial_model, 1);  // the residual network draws as worker 0
  encoder_->reset(seed, random);
  embedding_->reset(random);
  lstm_->reset(random);
  heads_->reset(random);
}

}  // namespace flockstep::tasks
