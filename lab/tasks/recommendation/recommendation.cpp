#include "tasks/recommendation/recommendation.h"

#include <fmt/core.h>

#include "base/split.h"
#include "flockstep/error.h"
#include "tasks/data_file.h"
#include "tasks/recommendation/click_set.h"
#include "tasks/recommendation/criteo.h"
#include "tasks/sizes.h"
#include "tasks/torch_tasks.h"

namespace flockstep::tasks {
namespace {

constexpr std::string_view kName = "recommendation";
constexpr std::string_view kCriteo = "criteo";

constexpr std::array<base::OptionSpec, 16> kOptions{{
    kSizeOption,
    {"numbers", kBySize, "numbers of a generated click; clicks in files have 13"},
    {"categories", kBySize, "categories of a generated click; clicks in files have 26"},
    {"buckets", kBySize, "rows of the table of each category, or criteo: as many as Criteo's Kaggle data have values"},
    {"dimension", kBySize, "size of the embedding vectors of categories"},
    {"bottom", kBySize, "widths of the hidden layers for the numbers, such as 512,256,64"},
    {"top", kBySize, "widths of the hidden layers after the interactions"},
    {"interaction", "dot",
     "interaction of categories: dot (products of all pairs of vectors) or concatenate (no products)"},
    {"learning_rate", kBySize, kLearningRateHelp},
    {"weight_decay", "0", "weight decay, of weights and tables but not of biases"},
    {"schedule", "linear", kScheduleHelp},
    kScheduleAtOption,
    {"warmup", kBySize, kWarmupHelp},
    {"shard", "iid", "iid, or skewed: of P workers, worker i sees clicks whose first category is i modulo P only"},
    kNoisyOption,
    {"data", "", "a click log of Criteo, or a folder with train.txt, instead of generated clicks"},
}};

constexpr std::array<SizeSetting, 8> kTiny{{{"numbers", "4"},
                                            {"categories", "8"},
                                            {"buckets", "40"},
                                            {"dimension", "8"},
                                            {"bottom", "16"},
                                            {"top", "32"},
                                            {"learning_rate", "0.02"},
                                            {"warmup", "20"}}};
constexpr std::array<SizeSetting, 8> kSmall{{{"numbers", "13"},
                                             {"categories", "26"},
                                             {"buckets", "60"},
                                             {"dimension", "8"},
                                             {"bottom", "32"},
                                             {"top", "32"},
                                             {"learning_rate", "0.02"},
                                             {"warmup", "40"}}};
constexpr std::array<SizeSetting, 8> kPaper{{{"numbers", "13"},
                                             {"categories", "26"},
                                             {"buckets", kCriteo},
                                             {"dimension", "16"},
                                             {"bottom", "512,256,64"},
                                             {"top", "512,256"},
                                             {"learning_rate", "0.001"},
                                             {"warmup", "1000"}}};
constexpr std::array<Size, 3> kSizes{{
    {"tiny", {.steps = 600, .batch_per_worker = 64}, kTiny},
    {"small", {.steps = 1000, .batch_per_worker = 64}, kSmall},
    {"paper", {.steps = 20000, .batch_per_worker = 256}, kPaper},
}};

std::vector<std::int64_t> widths_of(const base::SettingsReader& reader, std::string_view name) {
  std::vector<std::int64_t> widths;
  const std::string text = reader.text(name);
  if (text.empty()) return widths;
  for (const std::string& word : base::split(text, ','))
    widths.push_back(base::parse_integer(fmt::format("--{}.{}", kName, name), word, 1, 1 << 16));
  return widths;
}

ClickShape shape_of(const base::SettingsReader& reader) {
  const bool reads = !reader.text("data").empty(), as_criteo = reader.text("buckets") == kCriteo;
  const auto numbers = static_cast<std::size_t>(reader.integer("numbers", 1, 1000)),
             categories = static_cast<std::size_t>(reader.integer("categories", 2, 1000));
  ClickShape shape{.numbers = reads ? kCriteoNumbers : numbers, .rows = {}};
  if (as_criteo)
    shape.rows = criteo_rows();
  else
    shape.rows.assign(reads ? kCriteoCategories : categories,
                      static_cast<std::uint32_t>(reader.integer("buckets", 2, 1 << 30)));
  if (!reads && as_criteo && categories != kCriteoCategories)
    throw Error(
        ErrorCode::bad_input,
        fmt::format("--{0}.buckets criteo is for {1} categories: use --{0}.categories {1}", kName, kCriteoCategories));
  return shape;
}

}  // namespace

RecommendationOptions recommendation_options_of(const base::Settings& given, int workers, std::int64_t steps) {
  const base::Settings settings = with_size(kName, kOptions, kSizes, given);
  const base::SettingsReader reader(kName, kOptions, settings);
  const RecommendationOptions options{.model = {.shape = shape_of(reader),
                                                .dimension = reader.integer("dimension", 1, 4096),
                                                .bottom = widths_of(reader, "bottom"),
                                                .top = widths_of(reader, "top"),
                                                .interaction = reader.choice("interaction", kInteractions)},
                                      .adam = {.rate = rate_options_of("recommendation", reader, steps),
                                               .weight_decay = reader.real("weight_decay", 0, 1000)},
                                      .shard = shard_options_of(reader, workers),
                                      .data = reader.text("data")};
  if (options.shard.shard == Shard::skewed && options.model.shape.rows[0] < static_cast<std::uint32_t>(workers))
    throw Error(ErrorCode::bad_input,
                fmt::format("{} buckets do not give each of {} workers a first category of its own: use --shard iid",
                            options.model.shape.rows[0], workers));
  return options;
}

TaskRow recommendation_row() {
  return {
      .name = kName,
      .description = "a recommendation model with embedding tables (DLRM) on generated clicks or logs of Criteo",
      .metric = "area under the ROC curve (AUC) on the test clicks, higher is better",
      .options = kOptions,
      .defaults = [](const base::Settings& settings) { return size_of(kName, kOptions, kSizes, settings).defaults; },
      .make = [](const TaskInputs& inputs) { return make_torch_task(kName, inputs); },
      .check =
          [](const base::Settings& settings, int workers) {
            recommendation_options_of(settings, workers, 0);
            require_torch_tasks(kName);
          },
      .takes_uneven_batches = true,
      .needs_torch = true,
      .files =
          [](const base::Settings& settings) {
            return data_files(settings, [](const std::string& data) { return std::vector{click_file(data)}; });
          },
      .sizes = kSizes,
  };
}

}  // namespace flockstep::tasks
