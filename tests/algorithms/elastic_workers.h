// Workers of one elastic run for tests: each an algorithm on a mesh engine of its own, all in this process.
//
// All numbers of a model are the same, at first and in every update, and so they stay: whoever has put parts of
// different averages together does not have that.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "algorithms/registry.h"
#include "mesh_run.h"
#include "runtime/context.h"

namespace flockstep::algorithms {

class ElasticWorker {
 public:
  ElasticWorker(std::unique_ptr<engines::Engine> made, std::string_view name, std::size_t size, float initial,
                base::Settings given = {}, std::uint64_t fingerprint = 7)
      : engine(std::move(made)),
        context(*engine, base::Duration(30)),
        layout(size, std::max<std::size_t>(1, size / 7)),
        settings(std::move(given)),
        model(size, initial),
        algorithm(find_algorithm(name).make({context, layout, settings, 5, 0, nullptr, fingerprint})) {}

  void join(std::int64_t first = 0) {
    algorithm->begin(first, model);
    come_back();
    added = 0;
  }
  void come_back() {
    algorithm->departures()->come_back(model);
    steps = algorithm->departures()->next_step(steps);
    expect_one_number();
  }
  void step(float update) {
    const float before = model[0];
    for (float& number : model) number += update;
    added += static_cast<double>(model[0]) - before;
    algorithm->after_update(steps++, model);
    expect_one_number();
  }
  void consolidate() {
    algorithm->consolidate(model);
    steps = algorithm->departures()->next_step(steps);
    expect_one_number();
  }
  // By another thread, while the worker is at work; that one throws, and waits for the end before it goes on.
  void kill() {
    engine->close();
    is_killed_ = true;
    is_killed_.notify_all();
  }
  void wait_until_killed() { is_killed_.wait(false); }
  std::int64_t averages() const {
    std::int64_t count = 0;
    for (const std::int64_t each : algorithm->meetings()->staleness) count += each;
    return count;
  }

  std::unique_ptr<engines::Engine> engine;
  runtime::Context context;
  runtime::Layout layout;
  base::Settings settings;
  std::vector<float> model;
  double added = 0;  // to each number, since it has joined
  std::int64_t steps = 0;
  std::unique_ptr<Algorithm> algorithm;

 private:
  std::atomic<bool> is_killed_ = false;
  void expect_one_number() const {
    ASSERT_TRUE(std::ranges::all_of(model, [&](float number) { return number == model[0]; }))
        << "parts of two averages";
  }
};

// Runs bodies on threads of their own, and rethrows the first exception that one of them has ended with.
class Threads {
 public:
  ~Threads() { join(); }
  void start(std::function<void()> body) {
    threads_.emplace_back([this, body = std::move(body)] {
      try {
        body();
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!thrown_) thrown_ = std::current_exception();
      }
    });
  }
  void finish() {
    join();
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::mutex mutex_;
  std::exception_ptr thrown_;
  std::vector<std::thread> threads_;
};

}  // namespace flockstep::algorithms
