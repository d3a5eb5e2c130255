#include "torch/device_way.h"

#include <c10/core/DeviceGuard.h>

#include <string>
#include <vector>

#include "algorithms/rules/rule_options.h"
#include "base/text.h"
#include "engines/nccl/library.h"
#include "engines/nccl/links.h"
#include "flockstep/error.h"
#include "runtime/gather.h"

namespace flockstep::torch_front {
namespace {

constexpr char kPlace = '+', kReason = '-';  // what a text begins with

// Why this worker's gradients cannot stay on its device; empty where they can.
std::string reason_against(const runtime::Context& context, c10::Device device, std::size_t numbers,
                           const algorithms::AlgorithmRow& row, const base::Settings& options) {
  if (!device.is_cuda()) return base::concatenated("the module is on ", device.str());
  if (numbers == 0) return "no parameter needs a gradient";
  if (!row.rule) return base::concatenated(std::string(row.name), " is no gradient rule");
  const algorithms::GradientRuleOptions common = row.rule(options).common;
  if (common.transfer == algorithms::Transfer::sketch) return "transfer is sketch";
  if (static_cast<std::size_t>(context.size()) > algorithms::kMatrixWorkers &&
      common.aggregate.non_finite == math::NonFinite::exclude)
    return base::concatenated("non_finite is exclude among more than ", algorithms::kMatrixWorkers, " workers");
  return "";
}

// Its place, or why it has none.
std::string tell(runtime::Context& context, c10::Device device, std::size_t numbers,
                 const algorithms::AlgorithmRow& row, const base::Settings& options) {
  std::string reason = reason_against(context, device, numbers, row, options);
  if (reason.empty()) try {
      const c10::DeviceGuard guard(device);
      static_cast<void>(engines::nccl::library());
      static_cast<void>(cuda_place(device));                      // there are kernels for it
      static_cast<void>(context.engine().spawn("trial", [] {}));  // and somebody can watch the links
      return kPlace + engines::nccl::place_of(device.index());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;
      reason = error.what();
    }
  return kReason + reason;
}

std::string reason_in(const std::vector<std::string>& told) {
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (told[i].front() == kReason) return base::concatenated("on worker ", i, " ", told[i].substr(1));
    for (std::size_t j = 0; j < i; ++j)
      if (told[i] == told[j]) return base::concatenated("workers ", j, " and ", i, " share GPU ", told[i].substr(1));
  }
  return "";
}

}  // namespace

MakePlace way_of_gradients(runtime::Context& context, c10::Device device, std::size_t numbers,
                           const algorithms::AlgorithmRow& row, const base::Settings& options) {
  if (context.engine().name() != "mpi" || context.size() == 1) return nullptr;
  const std::string reason = reason_in(runtime::gather_texts(context, tell(context, device, numbers, row, options)));
  if (!device.is_cpu())
    base::log_info(context.log(), reason.empty()
                                      ? "gradients travel from GPU to GPU over NCCL"
                                      : base::concatenated("gradients travel through main memory: ", reason));
  if (!reason.empty()) return nullptr;
  return [device] {
    const c10::DeviceGuard guard(device);
    return cuda_place(device);
  };
}

}  // namespace flockstep::torch_front
