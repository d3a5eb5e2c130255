#include "tasks/images/cifar.h"

#include <fmt/core.h>

#include "tasks/data_file.h"

namespace flockstep::tasks {

void read_cifar(const std::filesystem::path& path, LabelledImages& images) {
  constexpr std::size_t kRecord = 1 + kCifarShape.pixels();
  const auto file = read_data_file(path);
  if (file.size() % kRecord != 0)
    refuse_file(path.string(), fmt::format("is not a file of CIFAR-10, or truncated: it holds {} bytes, and not a "
                                           "multiple of {}",
                                           file.size(), kRecord));
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  for (std::size_t begin = 0; begin < file.size(); begin += kRecord) {
    if (bytes[begin] >= kClasses)
      refuse_file(path.string(), fmt::format("holds the label {}: labels are 0 to {}", bytes[begin], kClasses - 1));
    images.labels.push_back(bytes[begin]);
    images.pixels.insert(images.pixels.end(), bytes + begin + 1, bytes + begin + kRecord);
  }
}

}  // namespace flockstep::tasks
