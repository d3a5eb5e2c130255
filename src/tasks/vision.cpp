#include "tasks/vision.h"

#include <fmt/core.h>

#include <algorithm>

#include "flockstep/error.h"
#include "tasks/torch_tasks.h"

namespace flockstep::tasks {
namespace {

constexpr std::string_view kBySize = "by size";

constexpr std::array<base::OptionSpec, 15> kOptions{{
    {"size", "tiny", "tiny, small or paper: what the options below are unless given"},
    {"depth", kBySize, "layers: 18, 34, 50, 101 or 152, or 8, 14, 20, ... in steps of six for narrow networks"},
    {"width", kBySize, "channels of the first stage"},
    {"stem", kBySize, "small (3 x 3), half (3 x 3 at every other pixel) or imagenet (7 x 7 and a maximum)"},
    {"norm", "batch", "how layers are normalised: over a worker's batch, or in groups of channels of one image: group"},
    {"learning_rate", kBySize, "of the local update"},
    {"momentum", "0.9", "of the local update"},
    {"weight_decay", kBySize, "of weights, but not of biases and of what scales normalised layers"},
    {"schedule", "cosine", "of the learning rate: linear or cosine (fall to zero over the run) or constant"},
    {"warmup", kBySize, "steps in which the learning rate grows, before the schedule begins"},
    {"label_smoothing", kBySize, "share of every label that is spread over all classes"},
    {"augment", kBySize, "yes: images are moved by a few pixels and mirrored at random; or no"},
    kShardOption,
    kNoisyOption,
    kDataOption,
}};

struct Size {
  std::string_view name;
  TaskDefaults defaults;
  std::array<std::pair<std::string_view, std::string_view>, 8> settings;
};
constexpr std::array<Size, 3> kSizes{{
    {"tiny",
     {.steps = 300, .batch_per_worker = 16},
     {{{"depth", "8"},
       {"width", "8"},
       {"stem", "half"},
       {"learning_rate", "0.2"},
       {"weight_decay", "0.0005"},
       {"warmup", "20"},
       {"label_smoothing", "0"},
       {"augment", "no"}}}},
    {"small",
     {.steps = 400, .batch_per_worker = 16},
     {{{"depth", "14"},
       {"width", "16"},
       {"stem", "half"},
       {"learning_rate", "0.2"},
       {"weight_decay", "0.0005"},
       {"warmup", "40"},
       {"label_smoothing", "0"},
       {"augment", "yes"}}}},
    {"paper",
     {.steps = 20000, .batch_per_worker = 32},
     {{{"depth", "50"},
       {"width", "64"},
       {"stem", "imagenet"},
       {"learning_rate", "0.1"},
       {"weight_decay", "0.0001"},
       {"warmup", "1000"},
       {"label_smoothing", "0.1"},
       {"augment", "yes"}}}},
}};

const Size& size_of(const base::Settings& settings) {
  constexpr std::array<base::Choice<std::size_t>, kSizes.size()> kNames{
      {{kSizes[0].name, 0}, {kSizes[1].name, 1}, {kSizes[2].name, 2}}};
  return kSizes[base::SettingsReader("vision", kOptions, settings).choice("size", kNames)];
}

constexpr std::array<base::Choice<bool>, 2> kYesNo{{{"yes", true}, {"no", false}}};

}  // namespace

VisionOptions vision_options_of(const base::Settings& given, int workers, std::int64_t steps) {
  base::Settings settings = given;
  for (const auto& [name, value] : size_of(given).settings) settings.try_emplace(std::string(name), value);
  const base::SettingsReader reader("vision", kOptions, settings);
  const VisionOptions options{.depth = reader.integer("depth", 8, 10000),
                              .width = reader.integer("width", 1, 4096),
                              .stem = reader.choice("stem", kStems),
                              .norm = reader.choice("norm", kNorms),
                              .descent = {.learning_rate = reader.real("learning_rate", 0, 1000),
                                          .momentum = reader.below_one("momentum"),
                                          .weight_decay = reader.real("weight_decay", 0, 1000),
                                          .schedule = reader.choice("schedule", kSchedules),
                                          .warmup = reader.integer("warmup", 0, std::int64_t{1} << 40),
                                          .steps = steps},
                              .label_smoothing = reader.below_one("label_smoothing"),
                              .augment = reader.choice("augment", kYesNo),
                              .sampler = sampler_options_of(reader, workers),
                              .data = reader.text("data")};
  if (!resnet_plan(options.depth))
    throw Error(ErrorCode::bad_input,
                fmt::format("--vision.depth takes 18, 34, 50, 101 or 152, or 8, 14, 20, ... in steps of six, not '{}'",
                            options.depth));
  return options;
}

TaskRow vision_row() {
  return {
      .name = "vision",
      .description =
          "a residual network on Fashion-MNIST or CIFAR-10; workers may see their own classes or wrong labels",
      .metric = "accuracy on the test images, higher is better",
      .options = kOptions,
      .defaults = [](const base::Settings& settings) { return size_of(settings).defaults; },
      .make = [](const TaskInputs& inputs) { return make_torch_task("vision", inputs); },
      .check =
          [](const base::Settings& settings, int workers) {
            vision_options_of(settings, workers, 0);
            require_torch_tasks("vision");
          },
      .takes_uneven_batches = true,
      .least_batch_per_worker = 2,  // normalised layers need a spread
      .needs_torch = true,
      .files = image_files,
  };
}

}  // namespace flockstep::tasks
