#include "algorithms/averagers/guarding.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/gather.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::Choice<bool>, 2> kGuards{{{"off", false}, {"on", true}}};

struct News {
  bool is_finite;
  math::UpdateNews update;
};

// Everybody's, by rank.
std::vector<News> gather_news(runtime::Context& context, const News& mine) {
  std::vector<double> told{mine.is_finite ? 1.0 : 0.0, static_cast<double>(mine.update.norm)};
  told.insert(told.end(), mine.update.sketch.begin(), mine.update.sketch.end());
  const std::vector<double> all = runtime::gather_doubles(context, told);
  std::vector<News> news;
  for (auto one = all.begin(); one != all.end(); one += std::ssize(told)) {
    news.push_back({one[0] != 0, {.norm = static_cast<float>(one[1])}});
    std::transform(one + 2, one + std::ssize(told), news.back().update.sketch.begin(),
                   [](double number) { return static_cast<float>(number); });
  }
  return news;
}

}  // namespace

bool guard_of(const base::SettingsReader& reader) { return reader.choice("guard", kGuards); }

bool guard_alone_of(std::string_view algorithm, const base::Settings& settings) {
  return guard_of(base::SettingsReader(algorithm, kGuardAlone, settings));
}

GuardedUpdates::GuardedUpdates(runtime::Context& context, std::size_t size, std::size_t buffers, bool is_guarded,
                               std::size_t remembered)
    : context_(context), buffers_(buffers) {
  if (!is_guarded) return;
  guard_.emplace(remembered);
  snapshot_ = context.engine().memory().allocate<float>(size, "model after the last average");
}

void GuardedUpdates::begin(std::span<const float> model) {
  if (!guard_) return;
  context_.queue().copy(snapshot_.data(), model.data(), model.size_bytes());
  has_begun_ = true;
}

void GuardedUpdates::cut(std::span<float> model) {
  if (guard_ && has_begun_) runtime::Guarded{&*guard_, buffers_}.judge_and_cut(context_, model, snapshot_.span());
}

void GuardedUpdates::cut_copy(std::span<float> model) const {
  if (!guard_ || !has_begun_) return;
  const runtime::Guarded guarded{.buffers = buffers_};
  guarded.cut(context_, model, snapshot_.span(),
              guard_->factor_of(guarded.measure(context_, model, snapshot_.span()).squared_norm));
}

std::vector<bool> GuardedUpdates::cut_together(std::span<float> model, std::vector<bool> counted) {
  if (!guard_ || !has_begun_) return counted;
  const runtime::Guarded guarded{&*guard_, buffers_};
  const math::UpdateGuard::Update mine = guarded.measure(context_, model, snapshot_.span());
  const std::vector<News> all = gather_news(context_, {std::isfinite(mine.squared_norm), guard_->news_of(mine)});
  if (counted.empty()) counted.assign(all.size(), true);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_finite) counted[i] = false;
    if (static_cast<int>(i) != context_.rank()) guard_->hear(static_cast<int>(i), all[i].update);
  }
  guarded.cut(context_, model, snapshot_.span(), guard_->judge(mine));
  return counted;
}

}  // namespace flockstep::algorithms
