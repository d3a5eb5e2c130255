#include "tasks/vision/vision.h"

#include <fmt/core.h>

#include <algorithm>

#include "flockstep/error.h"
#include "tasks/images/image_folder.h"
#include "tasks/sizes.h"
#include "tasks/torch_tasks.h"
#include "tasks/vision/vision_data.h"

namespace flockstep::tasks {
namespace {

constexpr std::array<base::OptionSpec, 17> kOptions{{
    kSizeOption,
    {"depth", kBySize, "layers: 18, 34, 50, 101 or 152, or 8, 14, 20, ... in steps of six for narrow networks"},
    {"width", kBySize, "channels of the first stage"},
    {"stem", kBySize, "small (3 x 3), half (3 x 3 at every other pixel) or imagenet (7 x 7 and a maximum)"},
    {"norm", "batch",
     "normalisation of the layers: batch (over a worker's batch) or group (groups of channels of one image)"},
    {"learning_rate", kBySize, kLearningRateHelp},
    {"momentum", "0.9", "momentum of the local update"},
    {"weight_decay", kBySize, "weight decay, of all parameters but biases and the scales of normalised layers"},
    {"schedule", "cosine", kScheduleHelp},
    kScheduleAtOption,
    {"warmup", kBySize, kWarmupHelp},
    {"label_smoothing", kBySize, "share of each label's probability that is spread over all classes"},
    {"augment", kBySize,
     "yes: images are shifted by a few pixels and mirrored at random, and pictures of a folder are cropped at random; "
     "or no"},
    {"side", kBySize, "side of the network's input in pixels, for pictures of a folder"},
    kShardOption,
    kNoisyOption,
    {"data", "",
     "folder with the files of MNIST, Fashion-MNIST or CIFAR-10 (binary), or with a folder of JPEG or PNG pictures for "
     "each class, instead of the built-in part of Fashion-MNIST"},
}};

constexpr std::array<SizeSetting, 9> kTiny{{{"depth", "8"},
                                            {"width", "8"},
                                            {"stem", "half"},
                                            {"learning_rate", "0.2"},
                                            {"weight_decay", "0.0005"},
                                            {"warmup", "20"},
                                            {"label_smoothing", "0"},
                                            {"augment", "no"},
                                            {"side", "32"}}};
constexpr std::array<SizeSetting, 9> kSmall{{{"depth", "14"},
                                             {"width", "16"},
                                             {"stem", "half"},
                                             {"learning_rate", "0.2"},
                                             {"weight_decay", "0.0005"},
                                             {"warmup", "40"},
                                             {"label_smoothing", "0"},
                                             {"augment", "yes"},
                                             {"side", "64"}}};
constexpr std::array<SizeSetting, 9> kPaper{{{"depth", "50"},
                                             {"width", "64"},
                                             {"stem", "imagenet"},
                                             {"learning_rate", "0.1"},
                                             {"weight_decay", "0.0001"},
                                             {"warmup", "1000"},
                                             {"label_smoothing", "0.1"},
                                             {"augment", "yes"},
                                             {"side", "224"}}};
constexpr std::array<Size, 3> kSizes{{
    {"tiny", {.steps = 300, .batch_per_worker = 16}, kTiny},
    {"small", {.steps = 400, .batch_per_worker = 16}, kSmall},
    {"paper", {.steps = 20000, .batch_per_worker = 32}, kPaper},
}};

}  // namespace

VisionOptions vision_options_of(const base::Settings& given, int workers, std::int64_t steps) {
  const base::Settings settings = with_size("vision", kOptions, kSizes, given);
  const base::SettingsReader reader("vision", kOptions, settings);
  const VisionOptions options{.depth = reader.integer("depth", 8, 10000),
                              .width = reader.integer("width", 1, 4096),
                              .stem = reader.choice("stem", kStems),
                              .norm = reader.choice("norm", kNorms),
                              .descent = {.rate = rate_options_of("vision", reader, steps),
                                          .momentum = reader.below_one("momentum"),
                                          .weight_decay = reader.real("weight_decay", 0, 1000)},
                              .label_smoothing = reader.below_one("label_smoothing"),
                              .augment = reader.yes_no("augment"),
                              .side = static_cast<std::size_t>(reader.integer("side", 8, 4096)),
                              .shard = shard_options_of(reader, workers),
                              .data = reader.text("data")};
  if (!resnet_plan(options.depth))
    throw Error(ErrorCode::bad_input,
                fmt::format("--vision.depth takes 18, 34, 50, 101 or 152, or 8, 14, 20, ... in steps of six, not '{}'",
                            options.depth));
  if (given.contains("side") && !holds_pictures(options.data))
    throw Error(ErrorCode::bad_input,
                "--vision.side is only for --data with folders of pictures: other images have a fixed size");
  return options;
}

bool holds_pictures(const std::string& data) {
  return !data.empty() && !holds_image_set(data) && is_image_folder(data);
}

TaskRow vision_row() {
  return {
      .name = "vision",
      .description =
          "a residual network on Fashion-MNIST, CIFAR-10 or folders of pictures; workers may see their own classes or "
          "wrong "
          "labels",
      .metric = "accuracy on the test images, higher is better",
      .options = kOptions,
      .defaults = [](const base::Settings& settings) { return size_of("vision", kOptions, kSizes, settings).defaults; },
      .make = [](const TaskInputs& inputs) { return make_torch_task("vision", inputs); },
      .check =
          [](const base::Settings& settings, int workers) {
            vision_options_of(settings, workers, 0);
            require_torch_tasks("vision");
          },
      .takes_uneven_batches = true,
      .least_batch_per_worker = 2,  // normalised layers need a spread
      .needs_torch = true,
      .files = vision_files,
      .sizes = kSizes,
  };
}

}  // namespace flockstep::tasks
