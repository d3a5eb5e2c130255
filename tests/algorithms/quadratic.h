// A quadratic for every worker, f_i(w) = ||w - b_i||^2 / 2: the optimum of their mean is the mean of all b_i, and what
// averaging does on the way is linear, so that it can be told beforehand.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "algorithms/registry.h"
#include "base/random.h"
#include "engines/registry.h"

namespace flockstep::test {

using Model = std::vector<float>;

// b_i, or any other model that only worker i has.
inline Model target_of(int rank, std::size_t size) {
  Model target(size);
  base::Random(11, base::Purpose::test, static_cast<std::uint32_t>(rank)).fill_uniform(target, -1, 1);
  return target;
}

inline std::vector<double> mean_of(const std::vector<Model>& models) {
  std::vector<double> mean(models.front().size());
  for (const Model& model : models)
    for (std::size_t k = 0; k < mean.size(); ++k)
      mean[k] += static_cast<double>(model[k]) / static_cast<double>(models.size());
  return mean;
}

inline std::vector<double> optimum_of(int workers, std::size_t size) {
  std::vector<Model> targets;
  for (int rank = 0; rank < workers; ++rank) targets.push_back(target_of(rank, size));
  return mean_of(targets);
}

inline double distance(const std::vector<double>& x, const std::vector<double>& y) {
  double square = 0;
  for (std::size_t k = 0; k < x.size(); ++k) square += (x[k] - y[k]) * (x[k] - y[k]);
  return std::sqrt(square);
}

inline double distance(const Model& x, const std::vector<double>& y) {
  return distance(std::vector<double>(x.begin(), x.end()), y);
}

// How far workers are from their mean: the root of the sum of all squares.
inline double disagreement(const std::vector<Model>& models) {
  const std::vector<double> mean = mean_of(models);
  double square = 0;
  for (const Model& model : models) square += std::pow(distance(model, mean), 2);
  return std::sqrt(square);
}

struct Scene {
  std::string_view algorithm;
  int workers = 4;
  base::Settings settings = {};
  std::string_view engine = "threads";
  bool deterministic = false;
  std::size_t size = 37, bucket_floats = 8;  // several buckets, not all of a size
};

// One worker with its algorithm and its model, which starts from zero everywhere.
class Learner {
 public:
  Learner(runtime::Context& context, const Scene& scene)
      : context(context),
        layout(scene.size, scene.bucket_floats),
        algorithm(algorithms::find_algorithm(scene.algorithm).make({context, layout, scene.settings})),
        model(scene.size),
        target_(target_of(context.rank(), scene.size)) {}

  // After a restore, if there is one.
  void begin() { algorithm->begin(steps, model); }

  // A step of gradient descent on one's own quadratic. With a rate of zero, nothing but the averaging.
  void step(float rate) {
    Model gradient(model.size());
    for (std::size_t k = 0; k < model.size(); ++k) gradient[k] = model[k] - target_[k];
    for (std::size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) algorithm->bucket_ready(bucket, gradient);
    algorithm->finish_gradient(gradient, 1);
    for (std::size_t k = 0; k < model.size(); ++k) model[k] -= rate * gradient[k];
    algorithm->after_update(steps++, model);
  }
  // A step with this local update, whatever the gradient.
  void take(const Model& update) {
    Model gradient(model.size());
    algorithm->finish_gradient(gradient, 1);
    for (std::size_t k = 0; k < model.size(); ++k) model[k] += update[k];
    algorithm->after_update(steps++, model);
  }

  // One that goes on from what this one has saved.
  std::unique_ptr<Learner> resumed(const Scene& scene) const {
    base::Archive archive;
    algorithm->save(archive);
    auto second = std::make_unique<Learner>(context, scene);
    EXPECT_EQ(second->algorithm->restore(archive), "");
    second->steps = steps;
    second->model = model;
    second->begin();
    return second;
  }

  runtime::Context& context;
  runtime::Layout layout;
  std::unique_ptr<algorithms::Algorithm> algorithm;
  Model model;
  std::int64_t steps = 0;

 private:
  Model target_;
};

// Runs `body` on every worker after begin(), and returns the models that they ended with, in rank order.
inline std::vector<Model> run_learners(const Scene& scene, const std::function<void(Learner&)>& body) {
  std::vector<Model> models(static_cast<std::size_t>(scene.workers));
  engines::LaunchOptions options;
  options.workers = scene.workers;
  options.deterministic = scene.deterministic;
  engines::find_backend(scene.engine).run(options, [&](engines::Engine& engine) {
    runtime::Context context(engine, base::Duration(600));
    Learner learner(context, scene);
    learner.begin();
    body(learner);
    models[static_cast<std::size_t>(engine.rank())] = learner.model;
  });
  return models;
}

}  // namespace flockstep::test
