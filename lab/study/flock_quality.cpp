#include "study/flock_quality.h"

#include <fmt/format.h>

#include <algorithm>

#include "study/trial.h"

namespace flockstep::study {
namespace {

constexpr std::int64_t kSteps = 80, kQuickSteps = 24;  // of mean

// `mean` first: the others are measured by it.
std::vector<Contender> contenders() {
  return {{"mean", "mean"},
          {"wagma", "wagma", {{"period", "8"}}},
          {"flock, first", "flock", {{"period", "8"}, {"activation", "first"}}},
          {"flock, majority", "flock", {{"period", "8"}}}};
}

// Few workers draw few samples and step times.
int seeds_of(int workers, bool quick) { return quick ? 1 : std::clamp(192 / workers, 1, 3); }

Picture curves_of(std::span<const Trial> trials) {
  Picture picture{"Accuracy in time", "virtual seconds", "accuracy", false, false, {}};
  for (const Trial& trial : trials) {
    Series series{trial.contender.name, Mark::line, {}, {}};
    for (const telemetry::Evaluation& evaluation : trial.runs.front().evaluations) {
      series.x.push_back(evaluation.time_s);
      series.y.push_back(evaluation.quality);
    }
    picture.series.push_back(std::move(series));
  }
  return picture;
}

class FlockQuality {
 public:
  FlockQuality(const StudyOptions& options, Cells& cells) : options_(options), cells_(cells) {}

  // All numbers of workers at once, the most first: they take the longest.
  StudyResult make() {
    const std::int64_t steps = options_.steps > 0 ? options_.steps : options_.quick ? kQuickSteps : kSteps;
    const std::vector<int> sizes = options_.quick ? std::vector{8} : std::vector{1024, 256, 64};
    std::vector<Trial> equal_steps;
    for (const int workers : sizes)
      for (const Contender& contender : contenders())
        equal_steps.push_back(
            {.contender = contender, .workers = workers, .steps = steps, .seeds = seeds_of(workers, options_.quick)});
    train_all(options_, cells_, "equal steps", equal_steps);

    std::vector<Trial> others;
    for (std::size_t i = 0; i < equal_steps.size(); ++i)
      if (const std::size_t mean = i - i % contenders().size(); i > mean) {
        others.push_back(equal_steps[i]);
        others.back().steps = equal_steps[i].steps_within(equal_steps[mean].time_s());
      }
    train_all(options_, cells_, "equal time", others);

    StudyResult result;
    for (std::size_t size = sizes.size(); size-- > 0;) {
      const std::size_t count = contenders().size(), first = size * count;
      std::vector<Trial> equal_time{equal_steps[first]};
      equal_time.insert(equal_time.end(), others.begin() + static_cast<std::ptrdiff_t>(size * (count - 1)),
                        others.begin() + static_cast<std::ptrdiff_t>((size + 1) * (count - 1)));
      result.tables.push_back(
          table_of(sizes[size], std::span(equal_steps).subspan(first, count), equal_time, result.words));
    }
    return result;
  }

 private:
  static StudyTable table_of(int workers, std::span<const Trial> equal_steps, std::span<const Trial> equal_time,
                             std::vector<std::string>& words) {
    StudyTable table = table_of_qualities(fmt::format("quality-{}", workers),
                                          fmt::format("{} workers, equal virtual time", workers), equal_time);
    table.columns.insert(table.columns.end(), {"- mean", "- mean after its steps"});
    const Trial& mean = equal_time.front();
    for (std::size_t i = 0; i < equal_time.size(); ++i) {
      const double at_time = equal_time[i].quality() - mean.quality(),
                   at_steps = equal_steps[i].quality() - mean.quality();
      for (const double gap : {at_time, at_steps}) table.rows[i].push_back(fmt::format("{:+.3f}", gap));
      table.figures[i]["gap_at_equal_time"] = at_time;
      table.figures[i]["gap_at_equal_steps"] = at_steps;
      if (i > 0)
        words.push_back(fmt::format("{} workers, {}: {:+.1f} points against mean in the same time.", workers,
                                    equal_time[i].contender.name, 100 * at_time));
    }
    table.picture = curves_of(equal_time);
    return table;
  }

  const StudyOptions& options_;
  Cells& cells_;
};

}  // namespace

StudyResult study_flock_quality(const StudyOptions& options, Cells& cells) {
  return FlockQuality(options, cells).make();
}

}  // namespace flockstep::study
