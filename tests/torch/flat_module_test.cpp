// The module as flat spans, against the values that torch itself has.
#include "torch/flat_module.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "load_from.h"
#include "refuses.h"

namespace flockstep::torch_front::flat_module_test {
namespace {

using torch::Tensor;
namespace nn = torch::nn;

// A convolution, a normalisation with its statistics and counter, a frozen layer and a shared one.
struct Mixed : nn::Module {
  Mixed() {
    convolution = register_module("convolution", nn::Conv2d(2, 3, 3));
    normalisation = register_module("normalisation", nn::BatchNorm2d(3));
    frozen = register_module("frozen", nn::Linear(3, 4));
    shared = register_module("shared", nn::Linear(4, 4));
    register_module("again", shared);
    for (Tensor& parameter : frozen->parameters()) parameter.requires_grad_(false);
  }
  Tensor forward(Tensor x) {
    x = normalisation(convolution(x)).mean({2, 3});
    return shared(torch::tanh(shared(frozen(x))));  // no unit that may be dead
  }
  nn::Conv2d convolution{nullptr};
  nn::BatchNorm2d normalisation{nullptr};
  nn::Linear frozen{nullptr}, shared{nullptr};
};

struct Attached {
  explicit Attached(nn::Module& module)
      : flat(module), model(flat.parameters() + flat.buffers()), gradient(flat.parameters()) {
    flat.attach(model, gradient);
  }
  std::vector<float> part(std::size_t index, const std::vector<float>& of) const {
    const auto range = flat.range(index);
    return {of.begin() + static_cast<std::ptrdiff_t>(range.begin),
            of.begin() + static_cast<std::ptrdiff_t>(range.end())};
  }
  FlatModule flat;
  std::vector<float> model, gradient;
};

std::vector<float> numbers(const Tensor& tensor) {
  const Tensor flat = tensor.detach().to(torch::kFloat).contiguous().flatten();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

using Floats = std::vector<float>;
bool all(const Floats& values, float value) { return std::ranges::count(values, value) == std::ssize(values); }

testing::AssertionResult refuses(const std::string& part, const std::function<void()>& action) {
  return test::refuses(ErrorCode::bad_input, part, action);
}

TEST(FlatModule, laysParametersOutLastRegisteredFirstAndSharedOnesOnceAndBuffersBehind) {
  Mixed module;
  const FlatModule flat(module);
  std::vector<std::string> names;
  for (std::size_t index = 0; index < flat.count(); ++index) names.push_back(flat.name(index));
  EXPECT_EQ(names, (std::vector<std::string>{"shared.bias", "shared.weight", "normalisation.bias",
                                             "normalisation.weight", "convolution.bias", "convolution.weight"}));
  EXPECT_EQ(flat.tensors(), (std::vector<std::size_t>{4, 16, 3, 3, 3, 54}));
  EXPECT_EQ(flat.parameters(), 83u);
  EXPECT_EQ(flat.buffers(), 6u);
  EXPECT_EQ(flat.fixed().size(), 3u) << "the frozen weight and bias, and the counter";
  EXPECT_EQ(flat.counters().size(), 1u);
  EXPECT_EQ(flat.range(2).begin, 20u);
}

TEST(FlatModule, viewsKeepValuesIdentityAndStrides) {
  Mixed module;
  Tensor weight = module.convolution->weight;
  weight.set_data(weight.contiguous(torch::MemoryFormat::ChannelsLast));
  const auto strides = weight.strides().vec();
  const auto before = numbers(weight);
  const void* const identity = weight.unsafeGetTensorImpl();
  Attached attached(module);

  EXPECT_EQ(module.convolution->weight.unsafeGetTensorImpl(), identity);
  EXPECT_EQ(weight.strides().vec(), strides);
  EXPECT_EQ(numbers(weight), before);
  EXPECT_EQ(weight.data_ptr<float>(), attached.model.data() + attached.flat.range(5).begin);
  attached.model[attached.flat.range(5).begin] = 42;
  EXPECT_EQ(weight.index({0, 0, 0, 0}).item<float>(), 42);
}

TEST(FlatModule, gradientsBecomeViewsInTheHookWhateverZeroGradDid) {
  torch::manual_seed(1);  // rounding alone makes the gradient of a bias before a normalisation
  Mixed module;
  Attached attached(module);
  torch::optim::SGD optimizer(module.parameters(), 0.1);
  std::vector<std::size_t> order;
  attached.flat.on_gradient([&](std::size_t index) {
    EXPECT_TRUE(attached.flat.collect_gradient(index));
    order.push_back(index);
  });
  const Tensor x = torch::randn({4, 2, 5, 5});
  for (const bool to_none : {true, false, true}) {
    order.clear();
    optimizer.zero_grad(to_none);
    module.forward(x).square().sum().backward();
    EXPECT_EQ(order.size(), 6u) << "each once, the shared ones too";
    EXPECT_LE(order[0], 1u) << "the last layer's come first";
    for (std::size_t index = 0; index < 6; ++index) EXPECT_FALSE(all(attached.part(index, attached.gradient), 0));
    EXPECT_EQ(module.shared->weight.grad().data_ptr<float>(), attached.gradient.data() + 4);
    EXPECT_FALSE(module.shared->weight.grad().is_view());
    optimizer.step();
  }
}

TEST(FlatModule, bringsBackWhatLoadAndToHaveMoved) {
  Mixed module, other;
  Attached attached(module);
  test::load_from(other, module);
  ASSERT_NE(module.shared->weight.data_ptr<float>(), attached.model.data() + 4) << "torch re-points parameters";

  attached.flat.collect_model();
  EXPECT_EQ(module.shared->weight.data_ptr<float>(), attached.model.data() + 4);
  EXPECT_EQ(attached.part(1, attached.model), numbers(other.shared->weight));

  module.to(torch::kBFloat16);
  EXPECT_TRUE(refuses("shared.bias BFloat16 [4] was Float [4]", [&] { attached.flat.collect_model(); }));
  module.to(torch::kFloat);
  attached.flat.collect_model();
  EXPECT_EQ(module.shared->weight.data_ptr<float>(), attached.model.data() + 4);
  EXPECT_EQ(attached.part(1, attached.model), numbers(other.shared->weight.to(torch::kBFloat16)));
}

TEST(FlatModule, convertsWhatIsBfloat16) {
  nn::Linear module(3, 2);
  module->to(torch::kBFloat16);
  const auto before = numbers(module->weight);
  Attached attached(*module);
  EXPECT_EQ(attached.part(1, attached.model), before);

  std::iota(attached.model.begin(), attached.model.end(), 1.0f);
  attached.flat.spread_model();
  EXPECT_EQ(module->weight.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(numbers(module->weight), (Floats{3, 4, 5, 6, 7, 8}));
  module->weight.data().mul_(2);
  attached.flat.collect_model();
  EXPECT_EQ(attached.part(1, attached.model), (Floats{6, 8, 10, 12, 14, 16}));

  module->forward(torch::ones({1, 3}, torch::kBFloat16)).sum().backward();
  EXPECT_TRUE(attached.flat.collect_gradient(1));
  EXPECT_TRUE(all(attached.part(1, attached.gradient), 1));
  attached.gradient[3] = 5;
  attached.flat.spread_gradient(1);
  EXPECT_EQ(module->weight.grad().scalar_type(), torch::kBFloat16);
  EXPECT_EQ(module->weight.grad().index({0, 1}).item<float>(), 5);
}

TEST(FlatModule, looksAtAnotherModelAndComesBack) {
  Mixed module;
  Attached attached(module);
  const auto mine = numbers(module.shared->weight);
  const std::vector<float> other(attached.model.size(), 7.0f);
  attached.flat.look_at(other);
  EXPECT_TRUE(all(numbers(module.shared->weight), 7));
  EXPECT_TRUE(all(numbers(module.normalisation->running_var), 7));
  attached.flat.look_at(attached.model);
  EXPECT_EQ(numbers(module.shared->weight), mine);
}

TEST(FlatModule, givesTheTensorsMemoryOfTheirOwnAtItsEnd) {
  Mixed module;
  std::vector<float> weight, gradient;
  {
    Attached attached(module);
    attached.flat.on_gradient([&](std::size_t index) { attached.flat.collect_gradient(index); });
    module.forward(torch::randn({4, 2, 5, 5})).sum().backward();
    weight = numbers(module.shared->weight);
    gradient = numbers(module.shared->weight.grad());
    const auto* const first = attached.model.data();
    ASSERT_GE(module.shared->weight.data_ptr<float>(), first);
  }
  EXPECT_EQ(numbers(module.shared->weight), weight);
  EXPECT_EQ(numbers(module.shared->weight.grad()), gradient);
  module.forward(torch::randn({4, 2, 5, 5})).sum().backward();
  const FlatModule again(module);
}

TEST(FlatModule, anUndefinedGradientIsZerosAndStaysUndefined) {
  nn::Linear module(3, 2);
  Attached attached(*module);
  std::ranges::fill(attached.gradient, 1.0f);
  EXPECT_FALSE(attached.flat.collect_gradient(0));
  EXPECT_TRUE(all(attached.part(0, attached.gradient), 0));
  EXPECT_FALSE(module->bias.grad().defined());
  attached.flat.spread_gradient(0);
  EXPECT_TRUE(module->bias.grad().defined());
  attached.flat.drop_gradient(0);
  EXPECT_FALSE(module->bias.grad().defined());
}

TEST(FlatModule, namesTensorsThatItCannotTake) {
  struct Case {
    const char* part;
    std::function<void(nn::LinearImpl&)> change;
  };
  const Case cases[] = {
      {"weight Double [2, 2] cannot be trained", [](auto& linear) { linear.to(torch::kDouble); }},
      {"weight Half", [](auto& linear) { linear.to(torch::kHalf); }},
      {"far Float [2, 2] on meta",
       [](auto& linear) {
         linear.register_parameter("far", torch::zeros({2, 2}, torch::kMeta));
       }},
      {"bias Float [2] with strides [0]", [](auto& linear) { linear.bias.set_data(torch::zeros({1}).expand({2})); }},
      {"rows Long [4, 3] with strides [0, 1] cannot be trained",
       [](auto& linear) {
         linear.register_buffer("rows", torch::arange(3).unsqueeze(0).expand({4, 3}));
       }},
  };
  for (const Case& each : cases) {
    nn::Linear linear(2, 2);
    each.change(*linear);
    EXPECT_TRUE(refuses(each.part, [&] { FlatModule flat(*linear); }));
  }

  nn::Sequential tied(nn::Linear(2, 2), nn::Linear(2, 2));
  tied->parameters()[2].set_data(tied->parameters()[0]);
  EXPECT_TRUE(refuses("0.weight Float [2, 2] and 1.weight Float [2, 2] share memory but are two tensors",
                      [&] { FlatModule flat(*tied); }));

  nn::Linear twice(2, 2);
  const FlatModule first(*twice);
  EXPECT_TRUE(refuses("every worker needs a module of its own", [&] { FlatModule second(*twice); }));
}

TEST(FlatModule, namesWhatCannotBeBroughtBack) {
  Mixed module;
  Attached attached(module);
  module.frozen->weight.requires_grad_(true);
  EXPECT_TRUE(refuses("frozen.weight was frozen", [&] { attached.flat.collect_model(); }));
  module.frozen->weight.requires_grad_(false);

  module.shared->register_parameter("another", torch::zeros({2}));
  EXPECT_TRUE(refuses("was replaced, added or taken away", [&] { attached.flat.collect_model(); }));

  nn::Embedding sparse(nn::EmbeddingOptions(5, 2).sparse(true));
  Attached other(*sparse);
  sparse->forward(torch::tensor({1, 2})).sum().backward();
  EXPECT_TRUE(refuses("the gradient of weight Float [5, 2]", [&] { other.flat.collect_gradient(0); }));
}

}  // namespace
}  // namespace flockstep::torch_front::flat_module_test
