// Learners on whichever engine the command line names, for algorithms whose rounds run beside the workers.
#pragma once

#include "algorithms/quadratic.h"
#include "engines/conformance.h"
#include "runtime/gather.h"

namespace flockstep::test {

using engines::conformance::subject;

// Runs `body` on every worker after begin(). All agents live until all bodies are done.
inline void on_every_learner(const Scene& scene, const std::function<void(Learner&)>& body) {
  engines::conformance::on_every_worker([&](engines::Engine& engine) {
    runtime::Context context(engine, base::Duration(600), 10'000);
    Learner learner(context, scene);
    learner.begin();
    body(learner);
    context.wait(engine.barrier(), "barrier");
  });
}

// Everybody's, in rank order, on every worker.
inline std::vector<Model> models_of_all(Learner& learner) {
  const std::vector<double> all =
      runtime::gather_doubles(learner.context, std::vector<double>(learner.model.begin(), learner.model.end()));
  std::vector<Model> models;
  for (auto begin = all.begin(); begin != all.end(); begin += static_cast<std::ptrdiff_t>(learner.model.size()))
    models.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(learner.model.size()));
  return models;
}

inline void come_back(Learner& learner) {
  learner.algorithm->departures()->come_back(learner.model);
  learner.steps = learner.algorithm->departures()->next_step(learner.steps);
}

inline void expect_equal_models(Learner& learner) {
  for (const Model& model : models_of_all(learner)) EXPECT_EQ(model, learner.model);
}

// Steps of very uneven length, so that rounds find workers busy.
inline void dawdle(Learner& learner, int step) {
  base::Random random(7, base::Purpose::test, static_cast<std::uint32_t>(learner.context.rank()),
                      static_cast<std::uint32_t>(step));
  if (random.below(4) == 0) learner.context.engine().sleep(base::Duration(1e-4 * random.below(30)));
}

// What worker `rank` adds in a step, in all tests that can tell the outcome.
inline Model update_of(int rank, int step, std::size_t size) { return target_of(rank + 64 * step, size); }

// Worker `rank`'s model after these steps, when every round takes everybody's update; in double. `overlaps`: what the
// last average changes comes with the next step.
template <typename Schedule>
std::vector<double> model_of_schedule(const Schedule& schedule, int rank, int steps, std::size_t size,
                                      bool overlaps = false) {
  const int workers = subject().workers;
  std::vector<std::vector<double>> models(static_cast<std::size_t>(workers), std::vector<double>(size)), before;
  for (int step = 0; step < steps; ++step) {
    for (int worker = 0; worker < workers; ++worker) {
      const Model update = update_of(worker, step, size);
      for (std::size_t k = 0; k < size; ++k) models[static_cast<std::size_t>(worker)][k] += update[k];
    }
    before = models;
    for (int worker = 0; worker < workers; ++worker) {
      auto& model = models[static_cast<std::size_t>(worker)];
      const auto group = schedule.group_of(worker, step);
      std::ranges::fill(model, 0.0);
      for (const int member : group)
        for (std::size_t k = 0; k < size; ++k)
          model[k] += before[static_cast<std::size_t>(member)][k] / static_cast<double>(group.size());
    }
  }
  return (overlaps ? before : models)[static_cast<std::size_t>(rank)];
}

inline std::vector<double> mean_of_updates(int workers, int steps, std::size_t size) {
  std::vector<double> mean(size);
  for (int step = 0; step < steps; ++step)
    for (int rank = 0; rank < workers; ++rank) {
      const Model update = update_of(rank, step, size);
      for (std::size_t k = 0; k < size; ++k) mean[k] += static_cast<double>(update[k]) / workers;
    }
  return mean;
}

}  // namespace flockstep::test
