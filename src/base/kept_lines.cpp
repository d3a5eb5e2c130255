#include "base/kept_lines.h"

#include <fmt/core.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <utility>

namespace flockstep::base {
namespace {

class KeepingSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit KeepingSink(std::shared_ptr<KeptLines> lines) : lines_(std::move(lines)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    lines_->add(message.level >= spdlog::level::warn ? LogLevel::warning : LogLevel::info,
                {message.payload.data(), message.payload.size()});
  }
  void flush_() override {}

  const std::shared_ptr<KeptLines> lines_;
};

}  // namespace

void KeptLines::add(LogLevel level, std::string text) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() < kMost)
    lines_.push_back({level, std::move(text)});
  else
    ++left_out_;
}

std::vector<KeptLines::Line> KeptLines::take() {
  const std::lock_guard lock(mutex_);
  if (left_out_ > 0) lines_.push_back({LogLevel::warning, fmt::format("{} later lines were left out", left_out_)});
  left_out_ = 0;
  return std::exchange(lines_, {});
}

void keep_lines(spdlog::logger& log, std::shared_ptr<KeptLines> lines) {
  log.sinks() = {std::make_shared<KeepingSink>(std::move(lines))};
  log.set_level(spdlog::level::info);
}

}  // namespace flockstep::base
