#include "tasks/sizes.h"

#include <algorithm>

namespace flockstep::tasks {

const Size& size_of(std::string_view task, std::span<const base::OptionSpec> options, std::span<const Size> sizes,
                    const base::Settings& settings) {
  std::vector<base::Choice<const Size*>> choices;
  for (const Size& size : sizes) choices.push_back({size.name, &size});
  return *base::SettingsReader(task, options, settings).choice<const Size*>("size", choices);
}

base::Settings with_size(std::string_view task, std::span<const base::OptionSpec> options, std::span<const Size> sizes,
                         const base::Settings& settings) {
  base::Settings all = settings;
  for (const auto& [name, value] : size_of(task, options, sizes, settings).settings)
    all.try_emplace(std::string(name), value);
  return all;
}

}  // namespace flockstep::tasks
