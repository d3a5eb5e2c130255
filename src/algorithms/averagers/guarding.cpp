#include "algorithms/averagers/guarding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "math/words.h"
#include "runtime/gather.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::Choice<bool>, 2> kGuards{{{"off", false}, {"on", true}}};

constexpr float kClipped = 10, kIdle = 10;  // updates before that is more than an accident
constexpr float kAstray = 64;
constexpr std::int64_t kAlike = 5;  // averages on end in which updates are the same, before that is no chance

struct News {
  bool is_finite;
  math::UpdateNews update;
};

// Everybody's, by rank.
std::vector<News> gather_news(runtime::Context& context, const News& mine) {
  const auto numbers = std::bit_cast<math::UpdateNumbers>(mine.update);
  std::vector<double> told{mine.is_finite ? 1.0 : 0.0};
  told.insert(told.end(), numbers.begin(), numbers.end());
  const std::vector<double> all = runtime::gather_doubles(context, told);
  std::vector<News> news;
  for (auto one = all.begin(); one != all.end(); one += std::ssize(told)) {
    math::UpdateNumbers theirs;
    std::transform(one + 1, one + std::ssize(told), theirs.begin(),
                   [](double number) { return static_cast<float>(number); });
    news.push_back({one[0] != 0, std::bit_cast<math::UpdateNews>(theirs)});
  }
  return news;
}

void add_findings(std::vector<math::Finding>& findings, int worker, const math::UpdateCounts& counts) {
  const auto raise = [&](math::FindingKind kind, double evidence, std::string sentence) {
    findings.push_back(
        {kind, {worker}, 0, static_cast<std::int64_t>(counts.updates) - 1, evidence, std::move(sentence)});
  };
  if (counts.non_finite > 0)
    raise(math::FindingKind::non_finite, counts.non_finite,
          fmt::format("{} of the {} updates of worker {}'s model were not finite, and left out of the averages",
                      counts.non_finite, counts.updates, worker));
  if (counts.idle >= kIdle)
    raise(math::FindingKind::zeros, counts.idle,
          fmt::format("worker {} hardly changes its model while others do ({} updates in a row)", worker, counts.idle));
  if (counts.clipped >= kClipped && 2 * counts.clipped >= counts.updates) {
    const double excess = counts.excess / counts.clipped;
    const bool is_against = 2 * counts.against > counts.clipped;
    raise(is_against ? math::FindingKind::against : math::FindingKind::clipped, excess,
          fmt::format("worker {} pulls the others away: {} of its {} updates were clipped, on average {} as long as "
                      "the others'{}",
                      worker, counts.clipped, counts.updates, math::times(excess),
                      is_against ? fmt::format("; {} of them were left out because they point against the others'",
                                               counts.against)
                                 : ""));
  } else if (counts.astray >= kAstray) {
    raise(math::FindingKind::against, counts.cosine,
          fmt::format("worker {}'s updates do not point where the others' do (mean cosine {:.2f} over {} updates): are "
                      "its gradients or its data wrong?",
                      worker, counts.cosine, counts.astray));
  }
}

}  // namespace

bool guard_of(const base::SettingsReader& reader) { return reader.choice("guard", kGuards); }

std::vector<math::Finding> findings_of(const math::UpdateGuard& guard, int rank) {
  std::map<int, math::UpdateCounts> all = guard.counts_of_others();
  all[rank] = guard.counts();
  std::vector<math::Finding> findings;
  for (const auto& [worker, counts] : all) add_findings(findings, worker, counts);
  return findings;
}

GuardedUpdates::GuardedUpdates(runtime::Context& context, std::size_t size, std::size_t buffers, bool is_guarded,
                               std::size_t remembered)
    : context_(context), buffers_(buffers) {
  if (!is_guarded) return;
  guard_.emplace(remembered);
  alike_.resize(static_cast<std::size_t>(context.size()));
  if (size > 0) snapshot_ = context.engine().memory().allocate<float>(size, "model after the last average");
}

std::vector<math::Finding> GuardedUpdates::findings() const {
  if (!guard_) return {};
  std::vector<math::Finding> findings = findings_of(*guard_, context_.rank());
  const auto updates = static_cast<std::int64_t>(guard_->counts().updates);
  for (int other = context_.rank() + 1; other < context_.size(); ++other)
    if (const auto averages = alike_[static_cast<std::size_t>(other)]; averages >= kAlike)
      findings.push_back({math::FindingKind::same_gradient,
                          {context_.rank(), other},
                          updates - averages,
                          updates - 1,
                          static_cast<double>(averages),
                          fmt::format("workers {} and {} made the same updates for {} averages: are they reading the "
                                      "same data?",
                                      context_.rank(), other, averages)});
  return findings;
}

void GuardedUpdates::save(base::Archive& archive) const {
  if (!guard_) return;
  const std::vector<double> state = guard_->state();
  archive.put("guard", std::span<const double>(state));
  const bool has_snapshot = has_begun_ && guard_->has_steps();
  archive.put("guarded from", has_snapshot ? std::span<const float>(snapshot_.span()) : std::span<const float>());
}

void GuardedUpdates::restore(const base::Archive& archive) {
  if (!guard_ || !archive.has("guard")) return;
  guard_->set_state(archive.get_vector<double>("guard"));
  const auto snapshot = archive.get_vector<float>("guarded from");
  is_restored_ = has_begun_ = snapshot.size() == snapshot_.size();
  if (is_restored_) std::ranges::copy(snapshot, snapshot_.data());
}

void GuardedUpdates::begin(std::span<const float> model) {
  if (!guard_ || std::exchange(is_restored_, false)) return;
  context_.queue().copy(snapshot_.data(), model.data(), model.size_bytes());
  has_begun_ = true;
}

void GuardedUpdates::cut(std::span<float> model, std::span<const float> from) {
  if (guard_) runtime::Guarded{&*guard_, buffers_}.judge_and_cut(context_, model, from);
}

void GuardedUpdates::hear_all() {
  if (!guard_) return;
  const std::vector<News> all = gather_news(context_, {true, guard_->news()});
  for (std::size_t i = 0; i < all.size(); ++i)
    if (static_cast<int>(i) != context_.rank()) guard_->hear(static_cast<int>(i), all[i].update);
}

void GuardedUpdates::cut_copy(std::span<float> model, std::span<const float> from) const {
  if (!guard_) return;
  const runtime::Guarded guarded{.buffers = buffers_};
  guarded.cut(context_, model, from, guard_->factor_of(guarded.measure(context_, model, from).squared_norm));
}

std::vector<bool> GuardedUpdates::cut_together(std::span<float> model, std::span<const float> from,
                                               std::vector<bool> counted) {
  if (!guard_) return counted;
  const runtime::Guarded guarded{&*guard_, buffers_};
  const math::UpdateGuard::Update mine = guarded.measure(context_, model, from);
  const std::vector<News> all = gather_news(context_, {std::isfinite(mine.squared_norm), guard_->news_of(mine)});
  if (counted.empty()) counted.assign(all.size(), true);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_finite) counted[i] = false;
    if (static_cast<int>(i) == context_.rank()) continue;
    guard_->hear(static_cast<int>(i), all[i].update);
    const bool is_alike = all[i].update.norm > 0 && math::are_alike(guard_->news_of(mine), all[i].update);
    alike_[i] = is_alike ? alike_[i] + 1 : 0;
  }
  guarded.cut(context_, model, from, guard_->judge(mine));
  return counted;
}

}  // namespace flockstep::algorithms
