#include "torch/flat_module.h"

#include <ATen/MemoryOverlap.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "flockstep/error.h"

namespace flockstep::torch_front {
namespace {

using torch::Tensor;

template <typename... Parts>
[[noreturn]] void refuse_module(const Parts&... parts) {
  throw Error(ErrorCode::bad_input, base::concatenated(parts...));
}

struct AccumulationHook final : torch::autograd::PostAccumulateGradHook {
  explicit AccumulationHook(std::function<void()> ready) : ready(std::move(ready)) {}
  void operator()(const torch::autograd::Variable&) override { ready(); }
  std::function<void()> ready;
};

// Memory that somebody else owns; `owner` stays alive as long as a tensor looks at it.
c10::Storage storage_over(std::span<const float> floats, std::shared_ptr<const void> owner) {
  using Owner = std::shared_ptr<const void>;
  at::DataPtr data(
      const_cast<float*>(floats.data()), new Owner(std::move(owner)),
      [](void* held) { delete static_cast<Owner*>(held); }, at::kCPU);
  return {c10::Storage::use_byte_size_t(), floats.size_bytes(), std::move(data), nullptr, false};
}

constexpr std::size_t kAligned = 16;  // floats

std::size_t floats_in(const c10::Storage& storage) { return storage.nbytes() / sizeof(float); }

bool is_float(const Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}
// Not where an expanded tensor has one number for many: torch refuses to copy to such.
bool can_be_written(const Tensor& tensor) {
  return tensor.layout() == at::kStrided && at::has_internal_overlap(tensor) != at::MemOverlap::Yes;
}

std::string place_of(c10::Device device) {
  return device.is_cpu() ? " in main memory" : base::concatenated(" on ", device.str());
}

// Every worker may have a device of its own, so that only another one than `home` is worth a word.
std::string description_of(const std::string& name, const Tensor& tensor, c10::Device home, const char* role = "") {
  std::string text =
      base::concatenated(name, " ", role, c10::toString(tensor.scalar_type()), " ", base::bracketed(tensor.sizes()));
  if (tensor.device() != home) return base::concatenated(text, place_of(tensor.device()));
  if (tensor.layout() != at::kStrided) return base::concatenated(text, ", which is not dense");
  // Numbers lie in the span as the strides say, so these have to agree as well.
  return tensor.is_contiguous() ? text : base::concatenated(text, " with strides ", base::bracketed(tensor.strides()));
}

bool is_same(const Tensor& a, const Tensor& b) { return a.unsafeGetTensorImpl() == b.unsafeGetTensorImpl(); }

}  // namespace

NamedTensors tensors_of(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_parameters()) tensors.parameters.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) tensors.buffers.push_back({item.key(), item.value()});
  return tensors;
}

FlatModule::FlatModule(torch::nn::Module& module)
    : FlatModule([&module] { return tensors_of(module); }, Gradients::watched, "DataParallel") {}

FlatModule::FlatModule(std::function<NamedTensors()> list, Gradients gradients, std::string holder)
    : list_(std::move(list)), gradients_(gradients), holder_(std::move(holder)) {
  std::vector<Entry> trained, buffers;
  const NamedTensors tensors = list_();
  if (!tensors.parameters.empty()) {
    const c10::Device device = tensors.parameters.front().tensor.device();
    if (!device.is_meta()) device_ = device;
  }
  const auto sort_in = [&](const std::string& name, const Tensor& tensor, bool moves, std::vector<Entry>& entries) {
    const bool is_frozen = &entries == &trained && !moves;
    descriptions_.push_back(description_of(name, tensor, device_, is_frozen ? "frozen " : ""));
    const bool known = std::ranges::any_of(registered_, [&](const Tensor& other) { return is_same(other, tensor); });
    registered_.push_back(tensor);
    if (known) return;
    if (is_on_device() && tensor.device() != device_)
      refuse_module(descriptions_.back(), ", and ", tensors.parameters.front().name, " on ", device_.str(),
                    ": keep the module on one device");
    if (!is_at_home(tensor) || !can_be_written(tensor) ||
        (moves && !(is_float(tensor) && tensor.is_non_overlapping_and_dense())))
      refuse_module(descriptions_.back(), " cannot be trained in parallel: only dense tensors", place_of(device_),
                    " can, and only ", "those of float or bfloat16 can have a gradient");
    if (moves)
      entries.push_back({.name = name,
                         .tensor = tensor,
                         .is_view = tensor.scalar_type() == at::kFloat,
                         .sizes = tensor.sizes().vec(),
                         .strides = tensor.strides().vec(),
                         .range = {0, static_cast<std::size_t>(tensor.numel())},
                         .gradient = {}});
    else
      fixed_.push_back({name, tensor, is_frozen});
  };
  for (const auto& [name, tensor] : tensors.parameters) sort_in(name, tensor, tensor.requires_grad(), trained);
  for (const auto& [name, tensor] : tensors.buffers) sort_in(name, tensor, is_float(tensor), buffers);

  // The kernels of devices want weights at whole multiples of so many bytes, which a layer with 10 classes would spoil
  // for all others. Buckets of gradients go by the order of the layers instead.
  if (gradients_ == Gradients::left)
    std::ranges::stable_partition(trained, [](const Entry& entry) { return entry.range.size % kAligned != 0; });
  count_ = trained.size();
  entries_.assign(std::make_move_iterator(trained.rbegin()), std::make_move_iterator(trained.rend()));
  std::ranges::move(buffers, std::back_inserter(entries_));
  std::size_t floats = 0;
  for (std::size_t index = 0; index < entries_.size(); ++index) {
    entries_[index].range.begin = floats;
    floats += entries_[index].range.size;
    if (index < count_) parameters_ = floats;
  }
  buffers_ = floats - parameters_;
  check_apart();
  if (gradients_ == Gradients::watched) install_hooks();
}

bool FlatModule::is_at_home(const Tensor& tensor) const {
  return tensor.device() == device_ && tensor.layout() == at::kStrided;
}

// Two tensors over the same memory would each get memory of their own: what one learns would no longer reach the other.
void FlatModule::check_apart() const {
  struct Place {
    std::uintptr_t begin, end;
    const Tensor* tensor;
    std::size_t index;
  };
  std::vector<Place> places;
  for (std::size_t index = 0; index < registered_.size(); ++index) {
    const Tensor& tensor = registered_[index];
    if (tensor.numel() == 0) continue;
    std::int64_t last = 0;  // of its elements
    for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
    places.push_back({begin, begin + (static_cast<std::uintptr_t>(last) + 1) * tensor.element_size(), &tensor, index});
  }
  std::ranges::sort(places, {}, &Place::begin);
  for (std::size_t i = 1; i < places.size(); ++i) {
    const Place &before = places[i - 1], &place = places[i];
    if (place.begin < before.end && !is_same(*before.tensor, *place.tensor))
      refuse_module(descriptions_[before.index], " and ", descriptions_[place.index],
                    " share memory but are two tensors: register one tensor, or one module, twice instead");
  }
}

void FlatModule::install_hooks() {
  const auto hook_of = [](const Tensor& tensor) -> auto& { return torch::autograd::impl::post_acc_grad_hooks(tensor); };
  for (std::size_t index = 0; index < count_; ++index)
    if (hook_of(entries_[index].tensor))
      refuse_module(
          entries_[index].name,
          " already has a hook on its gradient: every worker needs a module of its own, and a module can be in one ",
          holder_, " at a time");
  for (std::size_t index = 0; index < count_; ++index)
    torch::autograd::impl::set_post_acc_grad_hooks(entries_[index].tensor,
                                                   std::make_unique<AccumulationHook>([this, index] {
                                                     if (ready_) ready_(index);
                                                   }));
}

FlatModule::~FlatModule() {
  const torch::NoGradGuard no_grad;
  for (std::size_t index = 0; gradients_ == Gradients::watched && index < count_; ++index)
    torch::autograd::impl::set_post_acc_grad_hooks(entries_[index].tensor, nullptr);
  for (Entry& entry : entries_) {
    if (!model_ || !entry.is_view) continue;
    if (is_at(looked_at_, entry)) entry.tensor.set_data(entry.tensor.clone());
    Tensor& gradient = entry.tensor.mutable_grad();
    if (has_view_as_gradient(entry)) gradient = gradient.clone();
  }
  if (!is_on_device()) return;
  // The clones may not have been made yet, and the memory may have come from another stream's.
  const c10::impl::VirtualGuardImpl backend(device_.type());
  for (const c10::Storage& storage : {model_, gradient_})
    if (storage) backend.recordDataPtrOnStream(storage.data_ptr(), backend.getStream(device_));
}

base::Buffer<float> FlatModule::span_for(base::Memory& memory, std::size_t size, const std::string& purpose) const {
  return is_on_device() ? pinned_floats(memory, size, purpose).buffer : memory.allocate<float>(size, purpose);
}

std::vector<std::size_t> FlatModule::tensors() const {
  std::vector<std::size_t> sizes;
  for (std::size_t index = 0; index < count_; ++index) sizes.push_back(entries_[index].range.size);
  return sizes;
}

const std::string& FlatModule::name(std::size_t index) const { return entries_[index].name; }
runtime::Range FlatModule::range(std::size_t index) const { return entries_[index].range; }

std::vector<Tensor> FlatModule::fixed() const {
  std::vector<Tensor> tensors;
  for (const Fixed& fixed : fixed_) tensors.push_back(fixed.tensor);
  return tensors;
}

std::vector<Tensor> FlatModule::counters() const {
  std::vector<Tensor> tensors;
  for (const Fixed& fixed : fixed_)
    if (!fixed.is_parameter) tensors.push_back(fixed.tensor);
  return tensors;
}

// Not a view in autograd's eyes: zero_grad(false) detaches gradients in place, which views refuse.
Tensor FlatModule::view_of(const c10::Storage& storage, const Entry& entry) const {
  return at::empty({0}, at::TensorOptions(at::kFloat).device(device_))
      .set_(storage, static_cast<std::int64_t>(entry.range.begin), entry.sizes, entry.strides);
}

bool FlatModule::is_at(const c10::Storage& storage, const Entry& entry) const {
  return entry.tensor.const_data_ptr() == static_cast<const float*>(storage.data()) + entry.range.begin &&
         entry.tensor.strides() == entry.strides;
}

bool FlatModule::has_view_as_gradient(const Entry& entry) const {
  const Tensor& gradient = entry.tensor.grad();
  return entry.gradient.defined() && gradient.defined() && is_at_home(gradient) &&
         gradient.scalar_type() == at::kFloat && gradient.const_data_ptr() == entry.gradient.const_data_ptr() &&
         gradient.strides() == entry.gradient.strides();
}

void FlatModule::attach(std::span<float> model, std::span<float> gradient, std::shared_ptr<const void> owner,
                        runtime::Context* context) {
  base::check(model.size() == parameters_ + buffers_, "a span that holds the module");
  base::check(context || !is_on_device(), "somebody who waits for the device");
  const torch::NoGradGuard no_grad;
  if (is_on_device()) model_mirror_.emplace(*context, device_, model);
  model_ = looked_at_ = model_mirror_ ? model_mirror_->storage() : storage_over(model, owner);
  collect_model();
  if (!gradient.empty()) attach_gradient(gradient, std::move(owner), context);
}

void FlatModule::attach_gradient(std::span<float> gradient, std::shared_ptr<const void> owner,
                                 runtime::Context* context) {
  base::check(gradient.size() == parameters_, "a span that holds the gradients");
  const torch::NoGradGuard no_grad;
  if (is_on_device()) gradient_mirror_.emplace(*context, device_, gradient);
  gradient_ = gradient_mirror_ ? gradient_mirror_->storage() : storage_over(gradient, std::move(owner));
  make_gradients_views();
}

void FlatModule::attach_model() {
  const torch::NoGradGuard no_grad;
  flat_model_ = device_floats(device_, parameters_ + buffers_);
  model_ = looked_at_ = flat_model_.storage();
  collect_model();
}

void FlatModule::attach_gradient() {
  const torch::NoGradGuard no_grad;
  flat_gradient_ = device_floats(device_, parameters_);
  gradient_ = flat_gradient_.storage();
  make_gradients_views();
}

void FlatModule::make_gradients_views() {
  for (std::size_t index = 0; index < count_; ++index) {
    if (entries_[index].is_view) entries_[index].gradient = view_of(gradient_, entries_[index]);
    collect_gradient(index);
  }
}

void FlatModule::look_at(std::span<const float> model) {
  base::check(model.size() == floats_in(model_) && !is_on_device(), "a model as long as the attached one");
  const bool at_home = looked_at_.data() == model_.data(), goes_home = model.data() == model_.data();
  if (at_home) collect_model();
  looked_at_ = goes_home ? model_ : storage_over(model, nullptr);
  spread_model();
}

void FlatModule::check_unchanged(const Entry& entry) const {
  const auto type = entry.is_view ? at::kFloat : at::kBFloat16;
  if (!is_at_home(entry.tensor) || entry.tensor.scalar_type() != type || entry.tensor.sizes() != entry.sizes)
    refuse_module(description_of(entry.name, entry.tensor, device_), " was ", c10::toString(type), " ",
                  base::bracketed(entry.sizes), place_of(device_), " when training began: make another ", holder_,
                  " to go on with it");
}

void FlatModule::check_registered() const {
  const NamedTensors tensors = list_();
  std::vector<Tensor> now;
  for (const auto* list : {&tensors.parameters, &tensors.buffers})
    for (const NamedTensor& each : *list) now.push_back(each.tensor);
  for (std::size_t index = 0; index < std::max(now.size(), registered_.size()); ++index)
    if (index >= now.size() || index >= registered_.size() || !is_same(now[index], registered_[index]))
      refuse_module(
          index < registered_.size() ? descriptions_[index] : "a tensor",
          " was replaced, added or taken away after training began: change its values instead, or make another ",
          holder_);
  for (const Fixed& fixed : fixed_)
    if (fixed.tensor.requires_grad())
      refuse_module(fixed.name, " was frozen when training began and needs a gradient now: make another ", holder_,
                    " to go on");
}

void FlatModule::collect_model() {
  base::check(looked_at_.data() == model_.data(), "a module that looks at the attached model");
  const torch::NoGradGuard no_grad;
  check_registered();
  for (Entry& entry : entries_) {
    check_unchanged(entry);
    if (is_at(model_, entry)) continue;
    const Tensor view = view_of(model_, entry);
    view.copy_(entry.tensor);
    if (entry.is_view) entry.tensor.set_data(view);
  }
}

void FlatModule::spread_model() {
  const torch::NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    check_unchanged(entry);
    if (is_at(looked_at_, entry)) continue;
    if (entry.is_view)
      entry.tensor.set_data(view_of(looked_at_, entry));
    else
      entry.tensor.copy_(view_of(looked_at_, entry));
  }
}

bool FlatModule::collect_gradient(std::size_t index) {
  const torch::NoGradGuard no_grad;
  Entry& entry = entries_[index];
  Tensor& gradient = entry.tensor.mutable_grad();
  if (gradient.defined() && (!is_at_home(gradient) || gradient.sizes() != entry.sizes))
    refuse_module(description_of(base::concatenated("the gradient of ", entry.name), gradient, device_),
                  " cannot travel: only dense gradients", place_of(device_), " can");
  if (has_view_as_gradient(entry)) return true;
  const Tensor view = entry.is_view ? entry.gradient : view_of(gradient_, entry);
  if (gradient.defined())
    view.copy_(gradient);
  else
    view.zero_();
  if (gradient.defined() && entry.is_view) gradient = view;
  return gradient.defined();
}

void FlatModule::spread_gradient(std::size_t index) {
  const torch::NoGradGuard no_grad;
  Entry& entry = entries_[index];
  Tensor& gradient = entry.tensor.mutable_grad();
  if (entry.is_view) {
    gradient = entry.gradient;
    return;
  }
  if (!gradient.defined())
    gradient = at::empty_strided(entry.sizes, entry.strides, at::TensorOptions(at::kBFloat16).device(device_));
  gradient.copy_(view_of(gradient_, entry));
}

void FlatModule::drop_gradient(std::size_t index) { entries_[index].tensor.mutable_grad().reset(); }

}  // namespace flockstep::torch_front
