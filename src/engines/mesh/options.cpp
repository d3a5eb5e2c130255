#include "engines/mesh/options.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "engines/mesh/address.h"

namespace flockstep::engines::mesh {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void throw_bad(const std::string& sentence) { throw Error(ErrorCode::bad_input, sentence, "mesh"); }

int whole_number(const char* name, int least, std::optional<int> otherwise = {}) {
  const std::string text = variable(name);
  if (text.empty() && otherwise) return *otherwise;
  if (text.empty()) throw_bad(fmt::format("{} is not set: start workers with `flockstep launch`, which sets it", name));
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least)
    throw_bad(fmt::format("{} is '{}': give a whole number from {} on", name, text, least));
  return number;
}

std::string secret_in_environment() {
  const std::string path = variable("FLOCKSTEP_SECRET_FILE");
  if (path.empty()) return variable("FLOCKSTEP_SECRET");
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::perms others = fs::perms::group_all | fs::perms::others_all;
  const fs::perms granted = fs::status(path, error).permissions();
  if (!error && (granted & others) != fs::perms::none)
    throw_bad(fmt::format("the secret in {} can be read by others: run `chmod 600` on it", path));
  std::string text = base::read_text(path);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

base::Duration heartbeat_in_environment(base::Duration otherwise) {
  std::string text = variable("FLOCKSTEP_HEARTBEAT");
  if (text.empty()) return otherwise;
  const std::string told = text;
  double unit = 1;
  if (text.ends_with("ms"))
    unit = 1e-3, text.resize(text.size() - 2);
  else if (text.ends_with("s"))
    text.pop_back();
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size())
    throw_bad(fmt::format("FLOCKSTEP_HEARTBEAT is '{}': give a time such as 5s or 500ms", told));
  return base::Duration(seconds * unit);
}

}  // namespace

MeshOptions MeshOptions::from_environment() {
  MeshOptions options;
  options.rank = whole_number("FLOCKSTEP_RANK", 0);
  options.workers = whole_number("FLOCKSTEP_WORKERS", 1);
  options.store = variable("FLOCKSTEP_STORE");
  options.secret = secret_in_environment();
  options.host = variable("FLOCKSTEP_HOST");
  options.heartbeat = heartbeat_in_environment(options.heartbeat);
  options.incarnation = static_cast<Incarnation>(whole_number("FLOCKSTEP_RESTARTS", 0, 0)) + 1;
  options.check();
  return options;
}

bool MeshOptions::are_in_environment() { return !variable("FLOCKSTEP_STORE").empty(); }

void MeshOptions::check() const {
  if (rank < 0 || rank >= kMostRanks || workers < 1 || workers > kMostRanks)
    throw_bad(fmt::format("rank {} of {} workers: ranks are 0 to {}", rank, workers, kMostRanks - 1));
  if (secret.empty())
    throw_bad(
        "the run has no secret: set FLOCKSTEP_SECRET_FILE to a file that only you can read, with the same text "
        "for all workers");
  if (heartbeat < base::Duration(0.05) || heartbeat > base::Duration(3600))
    throw_bad("the heartbeat's timeout has to be between 50 ms and an hour");
  if (store.empty()) throw_bad("FLOCKSTEP_STORE is not set: start workers with `flockstep launch`, which sets it");
  (void)parse_address(store, "FLOCKSTEP_STORE");
}

}  // namespace flockstep::engines::mesh
