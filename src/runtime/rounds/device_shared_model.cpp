#include "runtime/rounds/device_shared_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engines/missing.h"

namespace flockstep::runtime {
namespace {

// What of x is on the device at a time beside e: large enough for copies to be fast, and a hundredth of a large model.
std::size_t piece_of(std::size_t size) {
  constexpr std::size_t kLeast = std::size_t{1} << 14, kMost = std::size_t{1} << 18;  // 1 MiB
  return std::min(size, std::clamp(size / 128, kLeast, kMost));
}

// Of a snapshot on its way to main memory: rounds begin with the first while the others follow.
constexpr std::size_t kCopyFloats = std::size_t{1} << 20;  // 4 MiB

// An update so many times as long as its guard lets pass is not corrected, but dropped.
constexpr double kFarOff = 10;

base::Buffer<float> pinned(Context& context, const DeviceModel& model, const char* purpose) {
  const kernels::Block block = model.beside->allocate_on_host(model.numbers.size_bytes());
  const std::shared_ptr<float> floats(block, reinterpret_cast<float*>(block.get()));
  return context.engine().memory().adopt(floats, model.numbers.size(), purpose);
}

}  // namespace

DeviceSharedModel::DeviceSharedModel(Context& context, const DeviceModel& model, const Guarded& guarded)
    : context_(context),
      model_(model),
      guarded_(guarded),
      x_(pinned(context, model, "shared model")),
      c_(pinned(context, model, "average of a round")),
      arriving_(pinned(context, model, "snapshot from the device")),
      before_(pinned(context, model, "shared model before it moved")),
      e_(model.allocate(model.numbers.size_bytes())),
      piece_(model.allocate(piece_of(model.numbers.size()) * sizeof(float))),
      signs_(model.beside->allocate_on_host(2 * sizeof(double))) {
  auto* const signs = reinterpret_cast<double*>(signs_.get());
  signs[0] = 1;
  signs[1] = -1;
}

// The device may be gone, and then nothing is left to use it.
DeviceSharedModel::~DeviceSharedModel() {
  try {
    if (current_) model_.beside->follow(*current_);
    model_.beside->call(
        [x = x_, c = c_, arriving = arriving_, before = before_, e = e_, piece = piece_, signs = signs_] {});
  } catch (const Error&) {
  }
}

void DeviceSharedModel::wait_for(const std::function<bool()>& done, std::string_view what) {
  if (context_.poll_until(done, context_.deadline())) return;
  context_.engine().fail(Error(ErrorCode::deadline,
                               engines::late_sentence({}, what, context_.rank(), context_.patience()),
                               std::string(context_.engine().name())));
}

void DeviceSharedModel::reset() {
  prepare();
  current_->follow(*model_.beside);
  current_->copy(e().data(), model_.numbers.data(), e().size_bytes());
  model_.beside->follow(*current_);
  model_.beside->copy(x_.data(), e().data(), e().size_bytes());
  wait_for(model_.beside->mark(), "the copy from the device");
  has_moved_ = false;
}

void DeviceSharedModel::take() {
  require_here(all());
  if (is_broken_) proceed({});
  kernels::Queue& beside = *model_.beside;
  if (has_moved_) make_correction();
  current_->follow(beside);
  if (has_moved_) current_->axpy(1, e(), model_.numbers);
  current_->copy(e().data(), model_.numbers.data(), e().size_bytes());
  beside.follow(*current_);
  if (arriving_.data() == taken_.data()) std::swap(arriving_, before_);  // a round still reads it
  here_ = 0;
  for (std::size_t begin = 0; begin == 0 || begin < e().size(); begin += kCopyFloats) {
    const Range range{begin, std::min(kCopyFloats, e().size() - begin)};
    beside.copy(range.of(arriving_.span()).data(), range.of(e()).data(), range.size * sizeof(float));
    copies_.push_back({range.end(), beside.mark()});
  }
  is_under_way_ = true;
  has_moved_ = moved_meanwhile_ = false;
}

void DeviceSharedModel::make_correction() {
  const std::span<float> piece(reinterpret_cast<float*>(piece_.get()), piece_of(e().size()));
  for (std::size_t begin = 0; begin < e().size(); begin += piece.size()) {
    const Range range{begin, std::min(piece.size(), e().size() - begin)};
    const std::span<float> to = range.of(e());
    model_.beside->copy(piece.data(), range.of(x_.span()).data(), to.size_bytes());
    const std::array<const void*, 2> rows{piece.data(), to.data()};
    model_.beside->weighted_sum({rows, to.size()}, reinterpret_cast<const double*>(signs_.get()), to);
  }
}

// A round that is under way may have taken x: so the sum is made elsewhere.
void DeviceSharedModel::land() {
  is_under_way_ = false;
  const double factor = guarded_.guard ? judge() : 1;
  if (factor != 1) has_moved_ = true;
  if (factor == 0) return;
  if (moved_meanwhile_) {
    require_here(all());
    const std::array<const void*, 3> rows{arriving_.data(), before_.data(), x_.data()};
    context_.queue().weighted_sum({rows, x_.size()}, std::array{1.0, -1.0, 1.0}.data(), arriving_.span());
  }
  std::swap(x_, arriving_);
}

double DeviceSharedModel::judge() {
  require_here(all());
  const std::span<const float> from = (moved_meanwhile_ ? before_ : x_).span();
  const math::UpdateGuard::Update update = guarded_.measure(context_, arriving_.span(), from);
  is_broken_ = !std::isfinite(update.squared_norm) ||
               update.squared_norm > kFarOff * kFarOff * guarded_.guard->longest_squared();
  const double factor = guarded_.guard->judge(update);
  if (factor > 0) guarded_.cut(context_, arriving_.span(), from, factor);
  return factor;
}

void DeviceSharedModel::freeze(std::size_t size, bool) {
  require_read();  // what was x becomes c, where averages land
  size_ = size;
  taken_ = x_;
}

void DeviceSharedModel::complete(int) {
  require_here(all());
  const Range averaged{0, size_}, rest{size_, x_.size() - size_};
  if (x_.data() != taken_.data()) {
    const std::array<const void*, 3> rows{x_.data(), c_.data(), taken_.data()};
    context_.queue().weighted_sum({rows, size_}, std::array{1.0, 1.0, -1.0}.data(), averaged.of(c_.span()));
  }
  context_.queue().copy(rest.of(c_.span()).data(), rest.of(x_.span()).data(), rest.size * sizeof(float));
  std::swap(x_, c_);
  if (is_under_way_ && !std::exchange(moved_meanwhile_, true)) std::swap(c_, before_);
  taken_ = {};
  has_moved_ = true;
}

void DeviceSharedModel::proceed(std::span<float>) {
  model_.beside->copy(e().data(), x_.data(), e().size_bytes());
  is_read_ = model_.beside->mark();
  current_->follow(*model_.beside);
  current_->copy(model_.numbers.data(), e().data(), e().size_bytes());
  model_.beside->follow(*current_);  // which may get there late, and e is written here next
  has_moved_ = is_broken_ = false;
}

std::span<float> DeviceSharedModel::whole() {
  require_here(all());
  require_read();
  return x_.span();
}

std::span<float> DeviceSharedModel::place_for_model(std::span<float>) {
  require_here(all());
  require_read();
  return c_.span();
}

void DeviceSharedModel::rejoin(std::span<float>, bool is_adopted) {
  if (is_adopted) std::swap(x_, c_);
  proceed({});
}

void DeviceSharedModel::give(std::span<float> values) {
  require_here(all());
  context_.queue().copy(values.data(), x_.data(), x_.span().size_bytes());
}

void DeviceSharedModel::require_here(Range range) {
  if (is_under_way_) return;  // of x nothing is
  for (; here_ < range.end() && !copies_.empty(); copies_.pop_front()) {
    wait_for(copies_.front().is_done, "the copy from the device");
    here_ = copies_.front().end;
  }
}

void DeviceSharedModel::require_read() {
  if (is_read_) wait_for(is_read_, "the copy to the device");
  is_read_ = nullptr;
}

}  // namespace flockstep::runtime
