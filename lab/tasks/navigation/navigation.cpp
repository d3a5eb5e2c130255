#include "tasks/navigation/navigation.h"

#include <fmt/core.h>

#include "flockstep/error.h"
#include "tasks/data_file.h"
#include "tasks/sizes.h"
#include "tasks/torch_tasks.h"

namespace flockstep::tasks {
namespace {

constexpr std::array<base::Choice<Encoder>, 2> kEncoders{{{"dense", Encoder::dense}, {"resnet", Encoder::resnet}}};

constexpr std::array<base::OptionSpec, 25> kOptions{{
    kSizeOption,
    {"side", kBySize, "rooms across the largest mazes; the smallest have 2"},
    {"open", kBySize, "share of the walls between rooms that is removed, so that there are loops"},
    {"limit", kBySize, "largest number of actions of an episode"},
    {"view", kBySize, "side of the square of cells that an agent sees in front of it: odd"},
    {"encoder", kBySize, "encoder of views: dense (one layer) or resnet (of depth 18)"},
    {"image", "128", "side in pixels to which a view is scaled for the residual network: a multiple of 32"},
    {"width", "32", "channels of the residual network's first stage"},
    {"hidden", kBySize, "size of each layer of the recurrent network"},
    {"layers", kBySize, "layers of the recurrent network"},
    {"memory", "yes", "no: the recurrent network forgets everything after each action"},
    {"epochs", kBySize, "number of passes over the episodes"},
    {"minibatches", kBySize, "parts of a worker's episodes; a step learns from one part, a batch"},
    {"ratio", "0.2", "clipping range of the ratio of probabilities (PPO's epsilon)"},
    {"entropy", kBySize, "weight of the entropy bonus"},
    {"discount", "0.99", "discount factor of rewards"},
    {"reach", "0.95", "lambda of generalised advantage estimation: 0 uses values after one action, 1 only rewards"},
    {"learning_rate", kBySize, kLearningRateHelp},
    {"schedule", "linear", kScheduleHelp},
    kScheduleAtOption,
    {"warmup", "0", kWarmupHelp},
    {"clip", "0.5", "largest norm of the gradient; longer gradients are scaled down; 0: never"},
    {"shard", "iid", "iid, or skewed: each worker trains in mazes of one size, the last worker in the largest"},
    {"noisy_workers", "0", "this many workers, the last ranks, have random rewards"},
    {"data", "", "a folder with mazes in train.txt and test.txt; empty: generated ones"},
}};

constexpr std::array<SizeSetting, 11> kTiny{{{"side", "4"},
                                             {"open", "0.1"},
                                             {"limit", "50"},
                                             {"view", "5"},
                                             {"encoder", "dense"},
                                             {"hidden", "64"},
                                             {"layers", "1"},
                                             {"epochs", "2"},
                                             {"minibatches", "2"},
                                             {"entropy", "0.01"},
                                             {"learning_rate", "0.006"}}};
constexpr std::array<SizeSetting, 11> kSmall{{{"side", "6"},
                                              {"open", "0.1"},
                                              {"limit", "120"},
                                              {"view", "7"},
                                              {"encoder", "dense"},
                                              {"hidden", "64"},
                                              {"layers", "1"},
                                              {"epochs", "4"},
                                              {"minibatches", "1"},
                                              {"entropy", "0.01"},
                                              {"learning_rate", "0.008"}}};
constexpr std::array<SizeSetting, 11> kPaper{{{"side", "15"},
                                              {"open", "0.1"},
                                              {"limit", "500"},
                                              {"view", "15"},
                                              {"encoder", "resnet"},
                                              {"hidden", "512"},
                                              {"layers", "2"},
                                              {"epochs", "2"},
                                              {"minibatches", "2"},
                                              {"entropy", "0.01"},
                                              {"learning_rate", "0.00025"}}};
constexpr std::array<Size, 3> kSizes{{
    {"tiny", {.steps = 400, .batch_per_worker = 16}, kTiny},
    {"small", {.steps = 500, .batch_per_worker = 8}, kSmall},
    {"paper", {.steps = 50000, .batch_per_worker = 4}, kPaper},
}};

}  // namespace

NavigationOptions navigation_options_of(const base::Settings& given, int workers, std::int64_t steps) {
  const base::Settings settings = with_size("navigation", kOptions, kSizes, given);
  const base::SettingsReader reader("navigation", kOptions, settings);
  const NavigationOptions options{
      .mazes = {.side = static_cast<int>(reader.integer("side", kLeastSide, 100)),
                .open = reader.real("open", 0, 1),
                .data = reader.text("data")},
      .limit = static_cast<int>(reader.integer("limit", 1, 100000)),
      .policy = {.view = reader.integer("view", 1, 101),
                 .encoder = reader.choice("encoder", kEncoders),
                 .image = reader.integer("image", 32, 1024),
                 .width = reader.integer("width", 1, 4096),
                 .hidden = reader.integer("hidden", 1, 65536),
                 .layers = reader.integer("layers", 1, 16),
                 .memory = reader.yes_no("memory")},
      .ppo = {.epochs = reader.integer("epochs", 1, 1000),
              .minibatches = reader.integer("minibatches", 1, 1000),
              .clip = reader.positive("ratio"),
              .entropy = reader.real("entropy", 0, 1000)},
      .advantages = {.discount = reader.real("discount", 0, 1), .reach = reader.real("reach", 0, 1)},
      .adam = {.rate = rate_options_of("navigation", reader, steps),
               .epsilon = 1e-5,
               .clip = reader.real("clip", 0, 1e9)},
      .shard = shard_options_of(reader, workers)};
  if (options.policy.view % 2 == 0)
    throw Error(ErrorCode::bad_input,
                fmt::format("--navigation.view takes an odd number, not '{}'", options.policy.view));
  if (options.policy.image % 32 != 0)
    throw Error(ErrorCode::bad_input,
                fmt::format("--navigation.image takes a multiple of 32, not '{}'", options.policy.image));
  return options;
}

TaskRow navigation_row() {
  return {
      .name = "navigation",
      .description =
          "agents that learn by PPO to find their way in mazes with a small field of view; episodes are uneven",
      .metric = "success weighted by path length (SPL) in the test mazes, higher is better",
      .options = kOptions,
      .defaults =
          [](const base::Settings& settings) { return size_of("navigation", kOptions, kSizes, settings).defaults; },
      .make = [](const TaskInputs& inputs) { return make_torch_task("navigation", inputs); },
      .check =
          [](const base::Settings& settings, int workers) {
            navigation_options_of(settings, workers, 0);
            require_torch_tasks("navigation");
          },
      .takes_uneven_batches = true,
      .needs_torch = true,
      .files =
          [](const base::Settings& settings) {
            return data_files(settings, [](const std::string& data) {
              return std::vector{train_mazes(data), test_mazes(data)};
            });
          },
      .sizes = kSizes,
  };
}

}  // namespace flockstep::tasks
