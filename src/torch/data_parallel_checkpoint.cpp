// Checkpoints: everything of one worker in one file that torch::serialize reads and writes. The algorithm's state,
// which is bytes to torch, is a tensor in it.
#include <torch/serialize.h>

#include <algorithm>
#include <set>

#include "base/split.h"
#include "base/text.h"
#include "session/checkpoints.h"
#include "torch/data_parallel.h"

namespace flockstep {
namespace {

using session::Checkpoints;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr const char* kSuffix = ".pt";

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(ErrorCode::bad_file, base::concatenated(parts...));
}

template <typename Saved>
void write(OutputArchive& archive, const std::string& name, const Saved& saved) {
  OutputArchive part(archive.compilation_unit());
  saved.save(part);
  archive.write(name, part);
}

torch::Tensor as_tensor(std::span<const std::byte> bytes) {
  const torch::Tensor tensor = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kByte);
  std::ranges::copy(bytes, static_cast<std::byte*>(tensor.data_ptr()));
  return tensor;
}
std::span<const std::byte> as_bytes(const torch::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// A parameter that an optimizer has twice, because it is registered twice, would lose its state: torch moves what it
// has loaded to the first and then nothing to the second. Somebody else stands in for the second.
void load_into(torch::optim::Optimizer& optimizer, InputArchive& archive) {
  struct Replaced {
    torch::Tensor* place;
    torch::Tensor parameter, stand_in;
  };
  std::vector<Replaced> replaced;
  std::set<const void*> seen;
  for (auto& group : optimizer.param_groups())
    for (torch::Tensor& parameter : group.params())
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) {
        replaced.push_back({&parameter, parameter, torch::empty({0})});
        parameter = replaced.back().stand_in;
      }
  const auto put_back = [&] {
    for (const Replaced& each : replaced) {
      *each.place = each.parameter;
      optimizer.state().erase(each.stand_in.unsafeGetTensorImpl());
    }
  };
  try {
    optimizer.load(archive);
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

}  // namespace

base::Archive DataParallel::Implementation::own_state() const {
  base::Archive state;
  state.put_value("workers", context.size());
  state.put_text("algorithm", settings.algorithm);
  std::string tensors;
  for (const std::string& description : flat.descriptions()) tensors += description + "\n";
  state.put_text("tensors", tensors);
  state.put("order of buckets", std::span<const std::size_t>(queue.order()));
  state.put_value("knows order", knows_order_);
  state.put("random", as_bytes(random.state()));
  session->save(state);
  return state;
}

std::vector<std::byte> DataParallel::Implementation::serialized(const base::Archive& state,
                                                                const torch::optim::Optimizer& optimizer) const {
  OutputArchive archive;
  write(archive, "module", module);
  write(archive, "optimizer", optimizer);
  archive.write("flockstep", as_tensor(state.to_bytes()), /*is_buffer=*/true);
  std::vector<std::byte> file;
  archive.save_to([&file](const void* bytes, std::size_t size) {
    file.insert(file.end(), static_cast<const std::byte*>(bytes), static_cast<const std::byte*>(bytes) + size);
    return size;
  });
  return file;
}

void DataParallel::Implementation::save(const std::string& folder, const torch::optim::Optimizer& optimizer) {
  if (!combines_gradients() && !session->facts().resumes_apart) consolidate();
  flat.collect_model();
  const base::Archive state = own_state();  // where algorithms have to be at rest for it, everybody waits here
  Checkpoints(context, folder, kSuffix).write(session->steps().count(), [&] { return serialized(state, optimizer); });
}

base::Archive DataParallel::Implementation::load(std::span<const std::byte> bytes, const std::string& path, int workers,
                                                 torch::optim::Optimizer& optimizer) {
  try {
    InputArchive file;
    file.load_from(reinterpret_cast<const char*>(bytes.data()), bytes.size(), flat.device());
    torch::Tensor state;
    file.read("flockstep", state, /*is_buffer=*/true);
    base::Archive archive = base::Archive::from_bytes(as_bytes(state.cpu()), path);

    // What can be told is refused before anything is changed; of optimizers only torch can tell.
    if (const std::string saved = archive.get_text("algorithm"); saved != settings.algorithm)
      refuse(path, " is of a training with ", saved, ": go on with that instead of ", settings.algorithm);
    std::vector<std::string> tensors = base::split(archive.get_text("tensors"), '\n');
    tensors.pop_back();  // every line ends with a newline
    for (std::size_t i = 0; i < flat.descriptions().size(); ++i) {
      const std::string& mine = flat.descriptions()[i];
      const std::string saved = i < tensors.size() ? tensors[i] : "nothing";
      if (saved != mine) refuse(path, " is of another module: it has ", saved, " where this one has ", mine);
    }
    if (tensors.size() > flat.descriptions().size())
      refuse(path, " is of another module: this one has no ", tensors[flat.descriptions().size()]);
    if (workers != context.size() && session->facts().resumes_apart)
      refuse("the checkpoint holds a model for each of ", base::counted(workers, "worker"), ", which ",
             settings.algorithm, " keeps apart: go on with as many, not ", context.size());

    InputArchive part;
    file.read("module", part);
    module.load(part);
    InputArchive of_optimizer;
    file.read("optimizer", of_optimizer);
    load_into(optimizer, of_optimizer);
    return archive;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    refuse(path, " does not fit this module and optimizer: ", base::first_line(failure.what()));
  }
}

std::string DataParallel::Implementation::restore(const std::string& folder, torch::optim::Optimizer& optimizer) {
  if (session->steps().count() > 0)
    throw Error(ErrorCode::bad_input, "restore was called after a step: restore first, or make another DataParallel");
  base::Archive state;
  const auto found = Checkpoints(context, folder, kSuffix).read();
  if (!found) refuse("there is no checkpoint in ", folder, ": it has no file named latest");
  const int workers = found->workers;
  session::together(context, [&] {
    state = load(found->bytes, found->path, workers, optimizer);
    const auto order = state.get_vector<std::size_t>("order of buckets");
    if (may_be_reordered() && std::ranges::is_permutation(order, queue.order())) {
      queue.set_order(order);
      knows_order_ = state.get_value<bool>("knows order");
    }
    if (workers == context.size()) random.set_state(as_tensor(state.get_vector<std::byte>("random")));
  });
  flat.collect_model();
  flat.fetch_model();
  std::string remade = session->restore(state);
  session->begin(model.span());
  if (!found->warning.empty()) remade = found->warning + (remade.empty() ? "" : "; " + remade);
  if (workers == context.size()) return remade;
  return base::concatenated(
      "all workers continue from worker 0's model and optimizer, with new random numbers, because ",
      base::counted(workers, "worker"), workers == 1 ? " has" : " have", " saved where there are ", context.size(),
      " now", remade.empty() ? "" : "; " + remade);
}

}  // namespace flockstep
