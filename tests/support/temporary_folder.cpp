#include "support/temporary_folder.h"

#include <cstdlib>
#include <system_error>

#include "base/files.h"

namespace flockstep::test {
namespace {

std::filesystem::path made() {
  std::string name = (std::filesystem::temp_directory_path() / "flockstep-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
  return name;
}

}  // namespace

TemporaryFolder::TemporaryFolder() : path_(made()) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& bytes) const {
  base::make_directory((path_ / name).parent_path());
  base::write_atomically(path_ / name, std::string_view(bytes));
  return (path_ / name).string();
}

}  // namespace flockstep::test
