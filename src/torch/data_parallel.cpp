// The public interface in include/flockstep/torch.h, and how a DataParallel begins and ends.
#include "torch/data_parallel.h"

#include <algorithm>

#include "algorithms/averagers/average_over_all.h"
#include "api/public_reports.h"
#include "api/worker.h"
#include "base/text.h"
#include "torch/collective.h"

namespace flockstep {
namespace {

std::size_t bucket_floats(const DataParallelSettings& settings) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  if (settings.bucket_kib < 1 || settings.bucket_kib > kMost)
    throw Error(ErrorCode::bad_input, base::concatenated("bucket_kib is 1 to ", kMost, ", not ", settings.bucket_kib));
  return settings.bucket_kib * 1024 / sizeof(float);
}

// Learning rates and clipping are tuned for averaged gradients, which these results then are about as large as. Where
// every direction counts at one norm, no single step of one worker may spoil a training either. The other rules take
// gradients as long as they are: clipping would give another result, so what a guard would clip is only counted.
base::Settings with_defaults(const algorithms::AlgorithmRow& row, const DataParallelSettings& settings) {
  base::Settings options(settings.options.begin(), settings.options.end());
  if (!row.magnitude_of_averages.empty()) options.try_emplace("magnitude", row.magnitude_of_averages);
  if (row.rule) options.try_emplace("guard", row.magnitude_of_averages == "matched" ? "3" : "count");
  return options;
}

}  // namespace

DataParallel::Implementation::Implementation(runtime::Context& context, int& alive, torch::nn::Module& module,
                                             const DataParallelSettings& settings)
    : Implementation(context, alive, module, settings, [](const Implementation& made) {
        return torch_front::way_of_gradients(made.context, made.flat.device(), made.flat.parameters(), made.row,
                                             made.options);
      }) {}

DataParallel::Implementation::Implementation(runtime::Context& context, int& alive, torch::nn::Module& module,
                                             const DataParallelSettings& settings,
                                             const std::function<torch_front::MakePlace(const Implementation&)>& way,
                                             const torch_front::PlaceOfMerges& place_of_merges)
    : context(context),
      module(module),
      settings(settings),
      row(algorithms::find_algorithm(settings.algorithm)),
      options(with_defaults(row, settings)),
      flat(module),
      make_place(way(*this)),
      merges(torch_front::device_merges(context, flat, row, options, place_of_merges)),
      layout(make_place ? torch_front::layout_on_device(flat.tensors(), bucket_floats(settings),
                                                        row.rule(options).common.granularity)
                        : runtime::Layout(flat.tensors(), bucket_floats(settings))),
      queue(layout),
      random(settings.seed, context.rank()),
      alive_(alive),
      fired_(flat.count()) {
  if (settings.buffers == Buffers::broadcast && !combines_gradients())
    throw Error(
        ErrorCode::bad_input,
        base::concatenated(std::string(row.name),
                           row.family == algorithms::Family::model ? " averages buffers with the models"
                                                                   : " does not exchange buffers in every step",
                           ": Buffers::broadcast is for algorithms that combine gradients and wait for everybody"));
  if (flat.is_on_device() && context.engine().name() == "sim")
    throw Error(ErrorCode::bad_input,
                base::concatenated("the module is on ", flat.device().str(),
                                   ", and in the virtual time of sim no device can be waited for: keep it on the CPU"));
  const Call call(*this);
  runtime::Agreed agreed{{"bucket_kib", std::to_string(settings.bucket_kib)},
                         {"treatment of buffers", std::to_string(static_cast<int>(settings.buffers))}};
  torch_front::add_tensors(agreed, context, flat);
  session::SessionSettings of_session{.row = row,
                                      .options = options,
                                      .seed = settings.seed,
                                      .buffers = flat.buffers(),
                                      .device_model = merges ? &merges->model() : nullptr};
  if (make_place)
    of_session.make = [this](const algorithms::AlgorithmInputs& inputs) {
      return std::make_unique<torch_front::DeviceGradients>(
          inputs, torch_front::RuleChoice{std::string(row.name), options}, flat, make_place());
    };
  session.emplace(context, layout, std::move(of_session), agreed);
  base::Memory& memory = context.engine().memory();
  if (!make_place && !merges) gradient = flat.span_for(memory, flat.parameters(), "gradient");
  if (!merges) {
    model = flat.span_for(memory, flat.parameters() + flat.buffers(), "model");
    flat.attach(model.span(), gradient.span(),
                std::make_shared<std::pair<base::Buffer<float>, base::Buffer<float>>>(model, gradient), &context);
  }
  if (make_place || merges) flat.attach_gradient();
  if (flat.buffers() > 0) {
    buffers_layout_.emplace(flat.buffers(), layout.bucket_floats());
    if (combines_gradients() && settings.buffers == Buffers::average)
      buffers_pass_ = std::make_unique<runtime::OnePass>(context, *buffers_layout_, "received buffer shards",
                                                         runtime::OnePassOptions{.room = runtime::Room::window});
  }
  broadcast_model();
  session->begin(model.span());
  flat.on_gradient([this](std::size_t index) { take(index); });
}

void DataParallel::Implementation::broadcast_model() {
  if (merges)
    torch_front::broadcast_model(context, flat, *merges);
  else
    torch_front::broadcast_model(context, flat, model.span());
}

// An algorithm that averages models may hold one of its own, which goes with the one that is given up.
void DataParallel::Implementation::broadcast() {
  broadcast_model();
  if (!combines_gradients()) session->renew(model.span());
}

void DataParallel::Implementation::consolidate() {
  flat.collect_model();
  flat.fetch_model();
  session->consolidate(model.span());
  if (combines_gradients() && settings.buffers == Buffers::leave && buffers_layout_)
    algorithms::average_over_all(context, *buffers_layout_, model.span().last(flat.buffers()));
  flat.put_model();
  flat.spread_model();
  torch_front::broadcast_each(context, flat.counters());
}

StepReport DataParallel::Implementation::report() {
  algorithms::GuardCounts guards = session->guards();
  guards.non_finite += session->steps().own_non_finite();
  if (!on_device()) return api::step_report(algorithm().report(), guards);
  StepReport report = on_device()->told().report;
  report.guards["non_finite"] += guards.non_finite;
  return report;
}

std::vector<std::string> DataParallel::Implementation::findings() {
  return on_device() ? on_device()->told().findings : api::sentences(session->steps().findings());
}

DataParallel::DataParallel(Worker& worker, torch::nn::Module& module, const DataParallelSettings& settings)
    : implementation_(std::make_unique<Implementation>(worker.implementation_.context,
                                                       worker.implementation_.data_parallels, module, settings)) {}
DataParallel::~DataParallel() {
  const torch::AutoGradMode mode(true);  // the end of an agent waits: see Call
  implementation_.reset();
}

DataParallel::Implementation::Call::Call(const Implementation& implementation, Kind kind) {
  if (implementation.random.running())
    throw Error(ErrorCode::bad_input,
                "random() is for forward and backward only: call functions that wait for other workers after it");
  if (implementation.any_fired_ && kind != Kind::ends_backward)
    throw Error(ErrorCode::bad_input,
                "gradients of a backward pass are still in flight, and nothing else may be exchanged meanwhile: call "
                "finish_backward, or step, first");
}

void DataParallel::step(torch::optim::Optimizer& optimizer, double weight) {
  finish_backward(weight);
  implementation_->update(optimizer);
  after_update();
}
void DataParallel::finish_backward(double weight) {
  const Implementation::Call call(*implementation_, Implementation::Call::Kind::ends_backward);
  implementation_->finish_backward(weight);
}
void DataParallel::after_update() {
  const Implementation::Call call(*implementation_);
  implementation_->after_update();
}

DataParallel::NoSync::NoSync(DataParallel& parallel) : parallel_(parallel) {
  ++parallel_.implementation_->accumulating;
}
DataParallel::NoSync::~NoSync() { --parallel_.implementation_->accumulating; }

std::int64_t DataParallel::join(std::int64_t my_steps) {
  const Implementation::Call call(*implementation_);
  const auto mine = static_cast<double>(my_steps);
  torch_front::EpochSteps epoch{runtime::gather_doubles(implementation_->context, {&mine, 1})};
  if (std::ranges::min(epoch.steps) < 0)
    throw Error(ErrorCode::bad_input,
                "join takes the number of steps that a worker has a batch for, which is 0 or more");
  const std::int64_t most = epoch.most();
  implementation_->epoch = most > 0 ? epoch : torch_front::EpochSteps();
  return most;
}

void DataParallel::finish_epoch(torch::optim::Optimizer& optimizer) {
  const torch_front::EpochSteps& epoch = implementation_->epoch;
  const auto rank = static_cast<std::size_t>(implementation_->context.rank());
  if (!epoch.steps.empty() && static_cast<double>(epoch.step) < epoch.steps[rank])
    throw Error(ErrorCode::bad_input,
                base::concatenated("worker ", rank, " has told join of ",
                                   base::counted(static_cast<std::int64_t>(epoch.steps[rank]), "step"),
                                   " and has taken ", epoch.step, ": call finish_epoch after the last of them"));
  while (!epoch.steps.empty()) step(optimizer);
}

void DataParallel::random(const std::function<void()>& body) { implementation_->random.run(body); }

void DataParallel::finish(torch::optim::Optimizer& optimizer) {
  const Implementation::Call call(*implementation_);
  if (implementation_->drain()) implementation_->update(optimizer);
  implementation_->consolidate();
}
void DataParallel::consolidate() {
  const Implementation::Call call(*implementation_);
  implementation_->session->require_drained();
  implementation_->consolidate();
}
void DataParallel::broadcast() {
  const Implementation::Call call(*implementation_);
  implementation_->broadcast();
}

void DataParallel::save(const std::string& folder, const torch::optim::Optimizer& optimizer) {
  const Implementation::Call call(*implementation_);
  implementation_->save(folder, optimizer);
}
std::string DataParallel::restore(const std::string& folder, torch::optim::Optimizer& optimizer) {
  const Implementation::Call call(*implementation_);
  return implementation_->restore(folder, optimizer);
}

StepReport DataParallel::report() const { return implementation_->report(); }
Meetings DataParallel::meetings() const { return api::meetings(*implementation_->session); }
std::vector<std::string> DataParallel::findings() const { return implementation_->findings(); }

}  // namespace flockstep
