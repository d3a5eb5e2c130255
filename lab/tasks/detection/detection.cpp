#include "tasks/detection/detection.h"

#include <fmt/core.h>

#include "flockstep/error.h"
#include "tasks/data_file.h"
#include "tasks/detection/coco.h"
#include "tasks/sizes.h"
#include "tasks/torch_tasks.h"

namespace flockstep::tasks {
namespace {

constexpr std::array<base::OptionSpec, 24> kOptions{{
    kSizeOption,
    {"depth", kBySize, "layers of the residual network, as for the task vision"},
    {"width", kBySize, "channels of the residual network's first stage"},
    {"stem", kBySize, "small (3 x 3), half (3 x 3 at every other pixel) or imagenet (7 x 7 and a maximum)"},
    {"norm", "group",
     "normalisation of its layers: group (groups of channels of one image) or batch (over a worker's batch)"},
    {"stages", kBySize, "how many stages of the residual network, counted from the last, the feature pyramid uses"},
    {"extra_levels", kBySize, "further, coarser levels of the pyramid"},
    {"channels", kBySize, "channels of the pyramid and of the heads"},
    {"layers", kBySize, "layers of each head before its last"},
    {"anchor_size", kBySize, "side of the smallest anchors, in strides of their level"},
    {"classes", kBySize, "number of classes of the network; 0: as many as the data has"},
    {"side", kBySize, "side of the network's input in pixels; pictures are scaled to fit"},
    {"kinds", kBySize, "kinds of generated shapes"},
    {"shapes", kBySize, "largest number of shapes in a generated scene"},
    {"learning_rate", kBySize, kLearningRateHelp},
    {"weight_decay", "0.0001", "weight decay, of all parameters but biases"},
    {"clip", "1", "largest norm of the gradient; longer gradients are scaled down; 0: never"},
    {"schedule", "cosine", kScheduleHelp},
    kScheduleAtOption,
    {"warmup", kBySize, kWarmupHelp},
    {"augment", "yes", "yes: pictures from files are mirrored at random; or no"},
    {"shard", "iid",
     "iid, or skewed: each worker sees scenes of its own kinds of shapes, or pictures that show its own classes"},
    {"noisy_workers", "0", "this many workers, the last ranks, have random classes and boxes"},
    {"data", "",
     "folder with annotations/instances_{train,val}*.json of COCO and its pictures; else scenes are generated"},
}};

constexpr std::array<SizeSetting, 14> kTiny{{{"depth", "8"},
                                             {"width", "16"},
                                             {"stem", "half"},
                                             {"stages", "2"},
                                             {"extra_levels", "0"},
                                             {"channels", "32"},
                                             {"layers", "1"},
                                             {"anchor_size", "2"},
                                             {"classes", "0"},
                                             {"side", "48"},
                                             {"kinds", "3"},
                                             {"shapes", "3"},
                                             {"learning_rate", "0.003"},
                                             {"warmup", "30"}}};
constexpr std::array<SizeSetting, 14> kSmall{{{"depth", "8"},
                                              {"width", "16"},
                                              {"stem", "half"},
                                              {"stages", "2"},
                                              {"extra_levels", "1"},
                                              {"channels", "32"},
                                              {"layers", "2"},
                                              {"anchor_size", "2"},
                                              {"classes", "0"},
                                              {"side", "64"},
                                              {"kinds", "6"},
                                              {"shapes", "4"},
                                              {"learning_rate", "0.003"},
                                              {"warmup", "50"}}};
constexpr std::array<SizeSetting, 14> kPaper{{{"depth", "50"},
                                              {"width", "64"},
                                              {"stem", "imagenet"},
                                              {"stages", "3"},
                                              {"extra_levels", "2"},
                                              {"channels", "256"},
                                              {"layers", "4"},
                                              {"anchor_size", "4"},
                                              {"classes", "91"},
                                              {"side", "640"},
                                              {"kinds", "6"},
                                              {"shapes", "8"},
                                              {"learning_rate", "0.0001"},
                                              {"warmup", "500"}}};
constexpr std::array<Size, 3> kSizes{{
    {"tiny", {.steps = 400, .batch_per_worker = 4}, kTiny},
    {"small", {.steps = 500, .batch_per_worker = 4}, kSmall},
    {"paper", {.steps = 90000, .batch_per_worker = 2}, kPaper},
}};

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::bad_input, sentence); }

}  // namespace

DetectionOptions detection_options_of(const base::Settings& given, int workers, std::int64_t steps) {
  const base::Settings settings = with_size("detection", kOptions, kSizes, given);
  const base::SettingsReader reader("detection", kOptions, settings);
  const auto count = [&](std::string_view name, std::int64_t least, std::size_t most) {
    return static_cast<std::size_t>(reader.integer(name, least, static_cast<std::int64_t>(most)));
  };
  const DetectionOptions options{.depth = reader.integer("depth", 8, 10000),
                                 .width = reader.integer("width", 1, 4096),
                                 .stem = reader.choice("stem", kStems),
                                 .norm = reader.choice("norm", kNorms),
                                 .stages = reader.integer("stages", 1, 4),
                                 .extra_levels = reader.integer("extra_levels", 0, 8),
                                 .channels = reader.integer("channels", 1, 4096),
                                 .layers = reader.integer("layers", 0, 100),
                                 .classes = reader.integer("classes", 0, 100000),
                                 .anchor_size = reader.real("anchor_size", 0.1, 100),
                                 .adam = {.rate = rate_options_of("detection", reader, steps),
                                          .weight_decay = reader.real("weight_decay", 0, 1000),
                                          .clip = reader.real("clip", 0, 1e9)},
                                 .scenes = {.side = count("side", 12, 4096),
                                            .kinds = count("kinds", 1, kMostKinds),
                                            .most_shapes = count("shapes", 1, 1000)},
                                 .augment = reader.yes_no("augment"),
                                 .shard = shard_options_of(reader, workers),
                                 .data = reader.text("data")};
  const auto plan = resnet_plan(options.depth);
  if (!plan)
    refuse(fmt::format("--detection.depth takes 18, 34, 50, 101 or 152, or 8, 14, 20, ... in steps of six, not '{}'",
                       options.depth));
  if (options.stages > std::ssize(plan->blocks))
    refuse(fmt::format("--detection.stages takes at most the {} that a network of depth {} has, not '{}'",
                       plan->blocks.size(), options.depth, options.stages));
  if (options.data.empty() && options.classes > 0 && static_cast<std::size_t>(options.classes) < options.scenes.kinds)
    refuse(fmt::format("--detection.classes takes 0, or at least the {} of --detection.kinds, not '{}'",
                       options.scenes.kinds, options.classes));
  return options;
}

std::vector<Level> pyramid_levels(const DetectionOptions& options) {
  Level level{options.scenes.side, 1};
  const auto halve = [&] { level = {(level.places + 1) / 2, 2 * level.stride}; };
  if (options.stem != Stem::small) halve();
  if (options.stem == Stem::imagenet) halve();
  std::vector<Level> levels;
  const auto stages = std::ssize(resnet_plan(options.depth)->blocks);
  for (std::int64_t stage = 0; stage < stages + options.extra_levels; ++stage) {
    if (stage > 0) halve();
    if (stage >= stages - options.stages) levels.push_back(level);
  }
  return levels;
}

std::unique_ptr<DetectionData> load_detection_data(const DetectionOptions& options) {
  auto data = options.data.empty() ? make_scenes(options.scenes)
                                   : load_coco(options.data, options.scenes.side, options.augment);
  if (options.classes > 0 && data->labels() > static_cast<std::size_t>(options.classes))
    refuse(fmt::format("--detection.classes takes 0, or at least the {} of {}, not '{}'", data->labels(), options.data,
                       options.classes));
  return data;
}

TaskRow detection_row() {
  return {
      .name = "detection",
      .description =
          "RetinaNet on generated scenes of shapes or on COCO; workers may see their own kinds or wrong boxes",
      .metric = "COCO mAP[.50:.95] on the test pictures, higher is better",
      .options = kOptions,
      .defaults =
          [](const base::Settings& settings) { return size_of("detection", kOptions, kSizes, settings).defaults; },
      .make = [](const TaskInputs& inputs) { return make_torch_task("detection", inputs); },
      .check =
          [](const base::Settings& settings, int workers) {
            const DetectionOptions options = detection_options_of(settings, workers, 0);
            if (!options.data.empty()) annotation_files(options.data);
            require_torch_tasks("detection");
          },
      .takes_uneven_batches = true,
      .needs_torch = true,
      .files = [](const base::Settings& settings) { return data_files(settings, coco_files); },
      .sizes = kSizes,
  };
}

}  // namespace flockstep::tasks
