// What stands behind the averagers of the Python package, on workers that are threads: one at a time, so that a run
// repeats.
#include "torch/model_averager.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "averager_steps.h"
#include "engines/registry.h"
#include "refuses.h"
#include "runtime/gather.h"
#include "training.h"

namespace flockstep::torch_front::model_exchange_test {
namespace {

using test::Net;
using test::numbers;
using Floats = std::vector<float>;

ModelAveragerSettings plain(const std::string& algorithm) {
  return {.algorithm = algorithm, .averages_gradients = algorithm == "post_local_sgd"};
}

// A worker with a network that nobody else has, an optimizer of its own, and what averages the network.
struct Trainee {
  Trainee(runtime::Context& context, const ModelAveragerSettings& settings, bool normalises = false)
      : context(context), net(normalises) {
    net.fill(static_cast<std::uint32_t>(context.rank()));
    exchange.emplace(context, tensors_of(net), settings);
  }
  void backward(int step) {
    exchange->begin();
    net.zero_grad();
    test::loss_of(net, test::batch_of(context.rank(), step, 4)).backward();
  }
  void update() { test::descend(net); }
  void step(int step) {
    backward(step);
    test::finish_step(*exchange, net);
  }
  void shadow() { test::shadow_step(*exchange, net); }
  // Everybody's numbers, in rank order.
  std::vector<Floats> everybodys(const Floats& mine) {
    const std::vector<double> all = runtime::gather_doubles(context, std::vector<double>(mine.begin(), mine.end()));
    std::vector<Floats> result;
    for (std::size_t begin = 0; begin < all.size(); begin += mine.size())
      result.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(begin),
                          all.begin() + static_cast<std::ptrdiff_t>(begin + mine.size()));
    return result;
  }
  void expect_equal() {
    for (const Floats& each : everybodys(numbers(net))) EXPECT_EQ(each, numbers(net));
  }

  runtime::Context& context;
  Net net;
  std::optional<ModelAverager> exchange;
};

void on_workers(int count, const std::function<void(runtime::Context&)>& body) {
  torch::set_num_threads(1);
  engines::LaunchOptions options;
  options.workers = count;
  options.deterministic = true;
  engines::find_backend("threads").run(options, [&](engines::Engine& engine) {
    runtime::Context context(engine, base::Duration(600));
    body(context);
  });
}

Floats mean_of(const std::vector<Floats>& models) {
  Floats mean;
  for (std::size_t k = 0; k < models[0].size(); ++k) {
    double sum = 0;
    for (const Floats& model : models) sum += static_cast<double>(model[k]);
    mean.push_back(static_cast<float>(sum / static_cast<double>(models.size())));
  }
  return mean;
}

class ModelExchangeWith : public testing::TestWithParam<std::string> {};

TEST_P(ModelExchangeWith, startsFromWorkerZerosTensorsAndEndsEqual) {
  on_workers(3, [&](runtime::Context& context) {
    Trainee trainee(context, plain(GetParam()), true);
    Net first(true);
    first.fill(0);
    EXPECT_EQ(numbers(trainee.net), numbers(first));
    for (int step = 0; step < 5; ++step) trainee.step(step);
    EXPECT_EQ(trainee.exchange->steps(), 5);
    trainee.exchange->consolidate();
    trainee.expect_equal();
    EXPECT_NE(numbers(trainee.net), numbers(first));
  });
}

TEST_P(ModelExchangeWith, beginsFromWhatWorkerZeroHasLoadedBeforeTheFirstStep) {
  on_workers(2, [&](runtime::Context& context) {
    Trainee trainee(context, plain(GetParam()));
    trainee.net.fill(7 + static_cast<std::uint32_t>(context.rank()));
    Net loaded;
    loaded.fill(7);
    trainee.exchange->consolidate();
    EXPECT_EQ(numbers(trainee.net), numbers(loaded));
  });
}

// One worker has nobody to meet; what it does is what its optimizer does.
TEST_P(ModelExchangeWith, leavesOneWorkerAlone) {
  on_workers(1, [&](runtime::Context& context) {
    Trainee trainee(context, plain(GetParam())), other(context, {.algorithm = "local_sgd"});
    for (int step = 0; step < 4; ++step) {
      trainee.step(step);
      other.backward(step);
      other.update();
    }
    trainee.exchange->leave();
    trainee.exchange->come_back();
    trainee.exchange->consolidate();
    EXPECT_EQ(numbers(trainee.net), numbers(other.net));
  });
}

TEST_P(ModelExchangeWith, goesOnFromASavedState) {
  on_workers(2, [&](runtime::Context& context) {
    std::vector<std::byte> state;
    {
      Trainee trainee(context, plain(GetParam()));
      for (int step = 0; step < 3; ++step) trainee.step(step);
      trainee.exchange->consolidate();
      state = trainee.exchange->save();
    }
    Trainee trainee(context, plain(GetParam()));
    trainee.exchange->restore(state);
    EXPECT_EQ(trainee.exchange->save(), state) << "a state that nobody has gone on from yet is not lost";
    trainee.step(3);
    EXPECT_EQ(trainee.exchange->steps(), 4);
    trainee.exchange->restore(state);  // and in the middle of a training
    trainee.step(3);
    EXPECT_EQ(trainee.exchange->steps(), 4);
    trainee.exchange->consolidate();
  });
}

INSTANTIATE_TEST_SUITE_P(Averagers, ModelExchangeWith,
                         testing::Values("flock", "wagma", "local_sgd", "post_local_sgd", "diloco", "dpsgd", "sgp",
                                         "adpsgd", "swarm"),
                         [](const auto& info) { return info.param; });

// Batches for 3, 6 and 9 steps: whoever is through takes part in the others' meetings with nothing of its own.
TEST_P(ModelExchangeWith, endsTogetherWhereWorkersHaveDifferentNumbersOfBatches) {
  on_workers(3, [&](runtime::Context& context) {
    Trainee trainee(context, plain(GetParam()));
    const int batches = 3 * (context.rank() + 1);
    trainee.exchange->set_joining(true);
    for (int step = 0; step < batches; ++step) trainee.step(step);
    if (trainee.exchange->meets_in_lockstep())
      for (int step = batches; step < 9; ++step) trainee.shadow();
    else
      trainee.exchange->leave();
    trainee.exchange->set_joining(false);
    trainee.exchange->consolidate();
    EXPECT_EQ(trainee.exchange->steps(), 9);
    trainee.expect_equal();
    trainee.step(9);  // nobody is away or absent any more
    trainee.exchange->consolidate();
  });
}

TEST_P(ModelExchangeWith, goesOnWithoutAWorkerThatIsAway) {
  on_workers(3, [&](runtime::Context& context) {
    Trainee trainee(context, plain(GetParam()));
    if (trainee.exchange->meets_in_lockstep()) return;
    trainee.step(0);
    if (context.rank() == 0) {
      trainee.exchange->leave();
      EXPECT_TRUE(trainee.exchange->is_away());
    } else {
      for (int step = 1; step < 25; ++step) trainee.step(step);  // many more than a period
    }
    context.wait(context.engine().barrier(), "barrier");
    trainee.exchange->come_back();
    EXPECT_FALSE(trainee.exchange->is_away());
    trainee.step(25);
    trainee.exchange->consolidate();
    trainee.expect_equal();
  });
}

TEST(ModelAverager, averagesModelsAndBuffersWhereLocalSgdMeets) {
  on_workers(3, [&](runtime::Context& context) {
    Trainee trainee(context, {.algorithm = "local_sgd", .options = {{"period", "2"}, {"guard", "off"}}}, true);
    for (int step = 0; step < 4; ++step) {
      trainee.backward(step);
      trainee.update();
      const auto before = trainee.everybodys(numbers(trainee.net));
      trainee.exchange->after_update();
      const Floats expected = step % 2 == 1 ? mean_of(before) : before[static_cast<std::size_t>(context.rank())];
      test::expect_near(numbers(trainee.net), expected, 1e-6);
    }
  });
}

TEST(ModelAverager, averagesGradientsInTheFirstStepsOfPostLocalSgd) {
  on_workers(2, [&](runtime::Context& context) {
    Trainee trainee(context, {.algorithm = "post_local_sgd",
                              .options = {{"switch_after", "2"}, {"period", "3"}},
                              .averages_gradients = true});
    for (int step = 0; step < 4; ++step) {
      trainee.backward(step);
      const torch::Tensor weight = trainee.net.head->weight;
      const auto before = trainee.everybodys(numbers(weight.grad()));
      ASSERT_EQ(trainee.exchange->gradients_are_due(), step < 2);
      if (step < 2) {
        EXPECT_TRUE(trainee.exchange->average_gradients());
        test::expect_near(numbers(weight.grad()), mean_of(before), 1e-7);
        EXPECT_FALSE(trainee.net.unused->weight.grad().defined()) << "nobody has one";
      }
      trainee.update();
      trainee.exchange->after_update();
      const auto after = trainee.everybodys(numbers(weight));
      EXPECT_EQ(after[0] == after[1], step < 2);
    }
    Trainee other(context, plain("post_local_sgd"));
    other.backward(0);
    if (context.rank() == 1) other.net.head->bias.mutable_grad().fill_(INFINITY);
    EXPECT_FALSE(other.exchange->average_gradients()) << "they are not finite";
  });
}

// Hooks that a program has put on its own tensors stay, and after the end all is as it was.
TEST(ModelAverager, leavesHooksAloneAndGivesTheTensorsTheirMemoryBack) {
  on_workers(2, [&](runtime::Context& context) {
    Trainee trainee(context, {.algorithm = "flock"});
    int calls = 0;
    struct Counting final : torch::autograd::PostAccumulateGradHook {
      explicit Counting(int& calls) : calls(calls) {}
      void operator()(const torch::autograd::Variable&) override { ++calls; }
      int& calls;
    };
    torch::autograd::impl::set_post_acc_grad_hooks(trainee.net.head->bias, std::make_unique<Counting>(calls));
    trainee.step(0);
    trainee.exchange->consolidate();
    const Floats values = numbers(trainee.net);
    trainee.backward(1);
    EXPECT_EQ(calls, 2);
    trainee.exchange.reset();
    EXPECT_EQ(numbers(trainee.net), values);
    const torch::Tensor bias = trainee.net.head->bias;
    EXPECT_EQ(bias.storage().nbytes(), bias.nbytes()) << "memory of its own";
    EXPECT_TRUE(torch::autograd::impl::post_acc_grad_hooks(bias));
  });
}

TEST(ModelAverager, namesWhatDoesNotFit) {
  const auto refuses = [](ErrorCode code, const std::string& part, const auto& body) {
    return test::refuses(code, part, [&] { on_workers(2, body); });
  };
  EXPECT_TRUE(refuses(ErrorCode::bad_input, "mean combines gradients",
                      [](runtime::Context& context) { Trainee(context, {.algorithm = "mean"}); }));
  EXPECT_TRUE(refuses(ErrorCode::mismatch, "flock.period", [](runtime::Context& context) {
    Trainee(context, {.algorithm = "flock", .options = {{"period", std::to_string(4 + context.rank())}}});
  }));
  EXPECT_TRUE(refuses(ErrorCode::mismatch, "as tensor 0", [](runtime::Context& context) {
    torch::nn::Linear layer(3, 2 + context.rank());
    ModelAverager(context, tensors_of(*layer), {.algorithm = "flock"});
  }));
  EXPECT_TRUE(refuses(ErrorCode::mismatch, "steps to go on from", [](runtime::Context& context) {
    Trainee trainee(context, {.algorithm = "local_sgd"});
    trainee.step(0);
    const auto state = trainee.exchange->save();
    Trainee other(context, {.algorithm = "local_sgd"});
    if (context.rank() == 1) other.exchange->restore(state);
    other.step(0);
  }));
  EXPECT_TRUE(refuses(ErrorCode::bad_file, "is of a training with dpsgd", [](runtime::Context& context) {
    const auto state = Trainee(context, {.algorithm = "dpsgd"}).exchange->save();
    Trainee(context, {.algorithm = "sgp"}).exchange->restore(state);
  }));
}

}  // namespace
}  // namespace flockstep::torch_front::model_exchange_test
