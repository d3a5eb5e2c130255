#include "tasks/recommendation/click_set.h"

#include <fmt/core.h>

#include <algorithm>

#include "flockstep/error.h"
#include "tasks/data_file.h"
#include "tasks/recommendation/criteo.h"
#include "tasks/recommendation/generated_clicks.h"
#include "tasks/shared_data.h"

namespace flockstep::tasks {
namespace {

using std::filesystem::path;

constexpr std::size_t kGeneratedTest = 8192, kGeneratedValidation = 4096;
constexpr std::size_t kLastPart = 7;  // the logs are of seven days

ClickSet generate(const ClickShape& shape) {
  return {.shape = shape,
          .is_generated = true,
          .train = {},
          .validation = fixed_clicks(shape, kGeneratedValidation, 0),
          .test = fixed_clicks(shape, kGeneratedTest, 1)};
}

void require_both_labels(const Clicks& clicks, const std::string& name, const char* part) {
  const auto ones = static_cast<std::size_t>(std::ranges::count(clicks.labels, 1));
  if (ones == 0 || ones == clicks.count())
    refuse_file(name, fmt::format("has {} lines for {}, and not both labels among them: it needs more lines",
                                  clicks.count(), part));
}

ClickSet read(const path& file, const ClickShape& shape) {
  const auto bytes = read_data_file(file);
  const Clicks all = read_criteo({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string(), shape);
  const std::size_t late = all.count() / kLastPart, begin = all.count() - late, half = late / 2;
  ClickSet set{.shape = shape, .is_generated = false, .train = {}, .validation = {}, .test = {}};
  set.train.append(all, 0, begin, shape);
  set.validation.append(all, begin, half, shape);
  set.test.append(all, begin + half, late - half, shape);
  require_both_labels(set.validation, file.string(), "validation");
  require_both_labels(set.test, file.string(), "the test");
  return set;
}

}  // namespace

path click_file(const std::string& data) {
  std::error_code code;
  return std::filesystem::is_directory(data, code) ? path(data) / "train.txt" : path(data);
}

std::shared_ptr<const ClickSet> load_click_set(const std::string& data, const ClickShape& shape) {
  static SharedData<ClickSet, std::pair<std::string, ClickShape>> sets;
  return sets.get({data, shape}, [&] { return data.empty() ? generate(shape) : read(click_file(data), shape); });
}

ClickSampler::ClickSampler(std::shared_ptr<const ClickSet> set, const ShardOptions& options, const WorkerData& worker)
    : set_(std::move(set)), draws_labels_(worker.is_noisy(options)) {
  if (options.shard == Shard::iid) return;
  first_ = static_cast<std::uint32_t>(worker.data_rank), step_ = static_cast<std::uint32_t>(worker.workers);
  if (set_->is_generated) return;
  for (std::size_t click = 0; click < set_->train.count(); ++click)
    if (set_->train.ids_of(click, set_->shape)[0] % step_ == first_) own_.push_back(static_cast<std::uint32_t>(click));
  if (own_.empty())
    throw Error(ErrorCode::bad_file,
                fmt::format("the training clicks hold none with a first category of worker {}: use --shard iid",
                            worker.data_rank));
}

Clicks ClickSampler::draw(std::size_t count, base::Random random) const {
  Clicks clicks;
  for (std::size_t i = 0; i < count; ++i) {
    if (set_->is_generated) {
      draw_click(set_->shape, {first_, step_}, random, clicks);
    } else {
      const std::size_t of = own_.empty() ? set_->train.count() : own_.size();
      const std::size_t place = random.below(static_cast<std::uint32_t>(of));
      clicks.append(set_->train, own_.empty() ? place : own_[place], 1, set_->shape);
    }
    if (draws_labels_) clicks.labels.back() = static_cast<std::uint8_t>(random.below(2));
  }
  return clicks;
}

}  // namespace flockstep::tasks
