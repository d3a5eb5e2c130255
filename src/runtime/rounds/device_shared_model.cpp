#include "runtime/rounds/device_shared_model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engines/missing.h"

namespace flockstep::runtime {
namespace {

// What of x is on the device at a time beside e: large enough for copies to be fast.
constexpr std::size_t kPieceFloats = std::size_t{1} << 17;  // 512 KiB

base::Buffer<float> pinned(Context& context, const DeviceModel& model, const char* purpose) {
  const kernels::Block block = model.beside->allocate_on_host(model.numbers.size_bytes());
  const std::shared_ptr<float> floats(block, reinterpret_cast<float*>(block.get()));
  return context.engine().memory().adopt(floats, model.numbers.size(), purpose);
}

}  // namespace

DeviceSharedModel::DeviceSharedModel(Context& context, const DeviceModel& model)
    : SharedRounds(context, pinned(context, model, "shared model"),
                   pinned(context, model, "contribution to an average")),
      model_(model),
      arriving_(pinned(context, model, "snapshot from the device")),
      before_(pinned(context, model, "shared model before it moved")),
      e_(model.allocate(model.numbers.size_bytes())),
      piece_(model.allocate(std::min(kPieceFloats, model.numbers.size()) * sizeof(float))),
      signs_(model.beside->allocate_on_host(2 * sizeof(double))) {
  auto* const signs = reinterpret_cast<double*>(signs_.get());
  signs[0] = 1;
  signs[1] = -1;
}

// The device may be gone, and then nothing is left to use it.
DeviceSharedModel::~DeviceSharedModel() {
  try {
    if (current_) model_.beside->follow(*current_);
    model_.beside->call([x = x_, arriving = arriving_, before = before_, e = e_, piece = piece_, signs = signs_] {});
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
  model_.beside->copy(x().data(), e().data(), e().size_bytes());
  wait_for(model_.beside->mark(), "the copy from the device");
  has_moved_ = false;
}

void DeviceSharedModel::take() {
  kernels::Queue& beside = *model_.beside;
  if (has_moved_) make_correction();
  current_->follow(beside);
  if (has_moved_) current_->axpy(1, e(), model_.numbers);
  current_->copy(e().data(), model_.numbers.data(), e().size_bytes());
  beside.follow(*current_);
  beside.copy(arriving_.data(), e().data(), e().size_bytes());
  is_on_the_way_ = beside.mark();
  has_moved_ = moved_meanwhile_ = false;
}

void DeviceSharedModel::make_correction() {
  const std::span<float> piece(reinterpret_cast<float*>(piece_.get()), std::min(kPieceFloats, e().size()));
  for (std::size_t begin = 0; begin < e().size(); begin += piece.size()) {
    const Range range{begin, std::min(piece.size(), e().size() - begin)};
    const std::span<float> to = range.of(e());
    model_.beside->copy(piece.data(), range.of(x()).data(), to.size_bytes());
    const std::array<const void*, 2> rows{piece.data(), to.data()};
    model_.beside->weighted_sum({rows, to.size()}, reinterpret_cast<const double*>(signs_.get()), to);
  }
}

void DeviceSharedModel::land() {
  is_on_the_way_ = nullptr;
  if (!moved_meanwhile_) return std::swap(x_, arriving_);
  const std::array<const void*, 3> rows{arriving_.data(), before_.data(), x().data()};
  context_.queue().weighted_sum({rows, x().size()}, std::array{1.0, -1.0, 1.0}.data(), x());
}

// While numbers are on their way what x was stays, also because the device may still read it.
void DeviceSharedModel::move(std::span<const float> correction) {
  if (!is_on_the_way_ || std::exchange(moved_meanwhile_, true)) {
    require_read();
    return SharedRounds::move(correction);
  }
  const std::span<float> to = before_.span().first(correction.size());
  const std::array<const void*, 2> rows{x().data(), correction.data()};
  context_.queue().weighted_sum({rows, to.size()}, std::array{1.0, 1.0}.data(), to);
  const std::span<const float> rest = x().subspan(to.size());
  context_.queue().copy(before_.span().subspan(to.size()).data(), rest.data(), rest.size_bytes());
  std::swap(x_, before_);
}

void DeviceSharedModel::proceed(std::span<float>) {
  model_.beside->copy(e().data(), x().data(), e().size_bytes());
  is_read_ = model_.beside->mark();
  current_->follow(*model_.beside);
  current_->copy(model_.numbers.data(), e().data(), e().size_bytes());
  model_.beside->follow(*current_);  // which may get there late, and e is written here next
  has_moved_ = false;
}

std::span<float> DeviceSharedModel::place_for_model(std::span<float>) {
  require_read();
  return x();
}

void DeviceSharedModel::require_read() {
  if (is_read_) wait_for(is_read_, "the copy to the device");
  is_read_ = nullptr;
}

}  // namespace flockstep::runtime
