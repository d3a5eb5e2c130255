#include "train/measured_steps.h"

#include <fmt/core.h>

#include <charconv>
#include <numeric>

#include "base/files.h"
#include "base/split.h"
#include "flockstep/error.h"

namespace flockstep::train {
namespace {

constexpr double kLongest_s = 1e6;
constexpr std::string_view kBlanks = " \t\r";
constexpr std::size_t kShownCharacters = 40;  // of a line that may be anything

std::string_view without_comment_and_blanks(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const auto first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

base::Duration duration_in(std::string_view text, std::size_t line, const std::filesystem::path& file) {
  double seconds = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (code != std::errc{} || end != text.data() + text.size() || !(seconds > 0 && seconds <= kLongest_s))
    throw Error(ErrorCode::bad_file,
                fmt::format("line {} of {} should be the seconds of one step, above 0 and up to {}, not '{}'", line,
                            file.string(), kLongest_s, text.substr(0, kShownCharacters)));
  return base::Duration(seconds);
}

}  // namespace

base::Duration MeasuredSteps::mean() const {
  return std::accumulate(durations.begin(), durations.end(), base::Duration(0)) / static_cast<double>(durations.size());
}

MeasuredSteps read_measured_steps(const std::filesystem::path& file) {
  MeasuredSteps steps{file, {}};
  std::size_t number = 0;
  for (const std::string& line : base::split(base::read_text(file), '\n')) {
    ++number;
    if (const auto text = without_comment_and_blanks(line); !text.empty())
      steps.durations.push_back(duration_in(text, number, file));
  }
  if (steps.durations.empty())
    throw Error(ErrorCode::bad_file,
                fmt::format("{} has no durations: it should have one in seconds per line", file.string()));
  return steps;
}

}  // namespace flockstep::train
