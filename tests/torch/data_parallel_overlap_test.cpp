// When buckets start to travel, seen from inside: by the bytes that an engine has sent.
#include "engines/registry.h"
#include "on_threads.h"
#include "torch/data_parallel.h"

namespace flockstep::test::data_parallel_overlap_test {
namespace {

using Order = std::vector<std::size_t>;

// Two parameters of one bucket each. The one that backward completes first is registered first, and so laid out last.
struct Reversed : nn::Module {
  Tensor forward(const Tensor& x) {
    const Tensor hidden = x * early;
    hidden.register_hook([this](const Tensor&) { half_way(); });
    return (hidden * late).sum();
  }
  static constexpr std::int64_t kSize = 256;  // 1 KiB
  const Tensor late = register_parameter("late", torch::ones({kSize})),
               early = register_parameter("early", torch::ones({kSize}));
  std::function<void()> half_way = [] {};  // late's gradient is there, early's is not
};

struct Subject {
  explicit Subject(engines::Engine& engine) : engine(engine), context(engine, base::Duration(600)) {
    module.half_way = [this] { sent_half_way = sent(); };
  }
  std::uint64_t sent() const { return engine.bytes_sent_in_collectives() - sent_before; }
  void backward() {
    sent_before = engine.bytes_sent_in_collectives();
    module.zero_grad();
    module.forward(torch::ones({Reversed::kSize})).backward();
  }
  engines::Engine& engine;
  runtime::Context context;
  int alive = 0;
  Reversed module;
  DataParallel::Implementation parallel{context, alive, module, {.bucket_kib = 1}};
  std::uint64_t sent_before = 0, sent_half_way = 0;
};

void on_two_workers(const std::function<void(Subject&)>& body) {
  engines::LaunchOptions options;
  options.workers = 2;
  options.deterministic = true;
  engines::find_backend("threads").run(options, [&](engines::Engine& engine) {
    Subject subject(engine);
    body(subject);
  });
}

constexpr std::uint64_t kBucketBytes = Reversed::kSize * sizeof(float) / 2;  // the other worker's half of it

TEST(Buckets, travelWhileBackwardRunsInTheOrderOfWorkerZerosFirstPass) {
  on_two_workers([](Subject& subject) {
    EXPECT_EQ(subject.parallel.queue.order(), (Order{0, 1}));
    subject.backward();
    EXPECT_EQ(subject.sent_half_way, 0u) << "the last bucket is complete, but not its turn";
    EXPECT_EQ(subject.sent(), 2 * kBucketBytes) << "both have started before backward returns";
    subject.parallel.finish_backward(1);
    EXPECT_EQ(subject.parallel.queue.order(), (Order{1, 0}));
    for (int step = 1; step < 3; ++step) {
      subject.backward();
      EXPECT_EQ(subject.sent_half_way, kBucketBytes) << "in step " << step;
      EXPECT_EQ(subject.sent(), 2 * kBucketBytes);
      subject.parallel.finish_backward(1);
    }
  });
}

TEST(Buckets, learnNoOrderFromAStepForWhichWorkerZeroHasNoBatch) {
  on_two_workers([](Subject& subject) {
    subject.parallel.epoch = {.steps = {0, 1}};
    if (subject.context.rank() == 1) subject.backward();
    subject.parallel.finish_backward(1);
    EXPECT_EQ(subject.parallel.queue.order(), (Order{0, 1}));
    subject.backward();
    subject.parallel.finish_backward(1);
    EXPECT_EQ(subject.parallel.queue.order(), (Order{1, 0}));
  });
}

TEST(Buckets, waitForFinishBackwardWhereAnotherDataParallelLives) {
  on_two_workers([](Subject& subject) {
    nn::Module other;
    other.register_parameter("weight", torch::zeros({2}));
    {
      DataParallel::Implementation second(subject.context, subject.alive, other, {});
      subject.backward();
      EXPECT_EQ(subject.sent(), 0u);
      subject.parallel.finish_backward(1);
    }
    subject.backward();
    EXPECT_EQ(subject.sent(), 2 * kBucketBytes);
    subject.parallel.finish_backward(1);
  });
}

}  // namespace
}  // namespace flockstep::test::data_parallel_overlap_test
