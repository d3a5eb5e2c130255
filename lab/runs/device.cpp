#include "runs/device.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "engines/launcher.h"
#include "flockstep/error.h"
#include "runtime/gather.h"
#include "tasks/registry.h"
#include "tasks/torch_tasks.h"

namespace flockstep::runs {
namespace {

constexpr std::string_view kCuda = "cuda";

// N of cuda:N.
std::optional<int> index_in(std::string_view text) {
  const std::string_view prefix = "cuda:";
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  int index = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), index);
  return code == std::errc{} && end == text.data() + text.size() && index >= 0 ? std::optional(index) : std::nullopt;
}

std::string why_in_main_memory(const train::TrainOptions& options) {
  if (!options.gradients) return "with --no-gradients nothing is computed";
  if (!tasks::find_task(options.task).needs_torch)
    return fmt::format("the task {} computes without torch, in main memory", options.task);
  return "";
}

// A sentence behind a colon.
std::string as_clause(std::string sentence) {
  if (sentence.ends_with('.')) sentence.pop_back();
  if (!sentence.empty()) sentence.front() = static_cast<char>(std::tolower(sentence.front()));
  return sentence;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Among the workers of the same host.
int place_on_host(runtime::Context& context) {
  const auto hosts = runtime::gather_texts(context, host_name());
  const auto mine = hosts.begin() + context.rank();
  return static_cast<int>(std::count(hosts.begin(), mine, *mine));
}

}  // namespace

std::string chosen_device(const std::string& text, const train::TrainOptions& options) {
  if (text == "cpu") return text;
  const bool is_auto = text == "auto";
  const auto index = index_in(text);
  if (!is_auto && text != kCuda && !index)
    throw Error(ErrorCode::bad_input, fmt::format("--device takes cpu, cuda, cuda:N or auto, not '{}'", text));
  const std::string in_main_memory = why_in_main_memory(options);
  if (!in_main_memory.empty() || (is_auto && !tasks::torch_tasks_are_built())) {
    if (is_auto) return "cpu";
    throw Error(ErrorCode::bad_input, fmt::format("{}: leave --device {} out", in_main_memory, text));
  }
  const tasks::TorchGpus gpus = tasks::torch_gpus();
  if (is_auto) return gpus.count > 0 ? std::string(kCuda) : "cpu";
  if (gpus.count == 0)
    throw Error(ErrorCode::unavailable, fmt::format("--device {} needs a GPU: {}", text, as_clause(gpus.why_none)));
  if (index && *index >= gpus.count)
    throw Error(ErrorCode::bad_input, fmt::format("there is no {}, as this process sees {}: use up to cuda:{}", text,
                                                  base::counted(gpus.count, "GPU"), gpus.count - 1));
  return text;
}

std::string device_of_worker(runtime::Context& context, const std::string& chosen) {
  if (chosen == "cpu") return chosen;
  const int gpus = tasks::torch_gpus().count;  // which also gets torch ready for them
  if (chosen != kCuda) return chosen;
  const int place = engines::is_launched(context.engine().name()) ? place_on_host(context) : context.rank();
  return fmt::format("{}:{}", kCuda, place % std::max(1, gpus));
}

}  // namespace flockstep::runs
