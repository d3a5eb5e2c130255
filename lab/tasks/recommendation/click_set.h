// The clicks that the task trains on and is judged by, and which of them a worker draws.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tasks/recommendation/clicks.h"
#include "tasks/worker_data.h"

namespace flockstep::tasks {

struct ClickSet {
  ClickShape shape;
  bool is_generated = false;  // then training clicks are drawn anew all the time, and `train` is empty
  // Of a file, whose lines are in order of time, the last seventh is what comes after training: half of it, the later
  // one, is the test.
  Clicks train, validation, test;
};

// The file that a path given by a user stands for: itself, or train.txt in a folder.
std::filesystem::path click_file(const std::string& data);

// Generated for "", else read. Throws Error{bad_file}.
std::shared_ptr<const ClickSet> load_click_set(const std::string& data, const ClickShape& shape);

// Skewed: of P workers, worker i draws the clicks whose id in the first table is i modulo P.
class ClickSampler {
 public:
  // Throws Error{bad_file} where there are no such clicks.
  ClickSampler(std::shared_ptr<const ClickSet> set, const ShardOptions& options, const WorkerData& worker);

  Clicks draw(std::size_t count, base::Random random) const;

 private:
  std::shared_ptr<const ClickSet> set_;
  std::uint32_t first_ = 0, step_ = 1;
  std::vector<std::uint32_t> own_;  // clicks of a file to draw from; empty: all
  bool draws_labels_;
};

}  // namespace flockstep::tasks
