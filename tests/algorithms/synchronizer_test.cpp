#include <gtest/gtest.h>

#include <vector>

#include "flockstep/flockstep.h"

namespace flockstep {
namespace {

TEST(Synchronizer, theTwoHooksWorkOnSpansOfFloats) {
  launch({.engine = "threads", .workers = 3}, [](Worker& worker) {
    EXPECT_EQ(worker.size(), 3);
    Synchronizer mean(worker, "mean", 5);
    std::vector<float> gradient(5, static_cast<float>(worker.rank()));
    mean.after_backward(gradient);
    EXPECT_EQ(gradient, std::vector<float>(5, 1.0f));

    Synchronizer local(worker, "local_sgd", 5, {{"period", "2"}});
    std::vector<float> model(5, static_cast<float>(worker.rank()));
    local.after_update(model);
    EXPECT_EQ(model[0], static_cast<float>(worker.rank()));
    local.after_update(model);
    EXPECT_EQ(model, std::vector<float>(5, 1.0f));
  });
}

TEST(Synchronizer, differentNumbersOfParametersAreFoundAtStart) {
  try {
    launch({.engine = "threads", .workers = 3},
           [](Worker& worker) { Synchronizer(worker, "mean", worker.rank() == 1 ? 999 : 1000); });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_STREQ(error.what(),
                 "worker 1 has parameters 999 where worker 0 has 1000: all workers must be started alike");
  }
}

TEST(Synchronizer, aSpanOfAnotherLengthIsRefused) {
  launch({.engine = "self"}, [](Worker& worker) {
    Synchronizer mean(worker, "mean", 5);
    std::vector<float> gradient(6);
    EXPECT_THROW(mean.after_backward(gradient), Error);
  });
}

TEST(Synchronizer, aWorkerThatThrowsEndsTheRunWithItsOwnMessage) {
  try {
    launch({.engine = "threads", .workers = 4}, [](Worker& worker) {
      if (worker.rank() == 2) throw std::runtime_error("out of data");
      Synchronizer mean(worker, "mean", 5);
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "out of data");
  }
}

}  // namespace
}  // namespace flockstep
