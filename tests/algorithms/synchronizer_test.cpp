#include <gtest/gtest.h>

#include <map>
#include <string>
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

TEST(Synchronizer, afterAFailureEveryCallGivesTheSameError) {
  for (const std::string algorithm : {"mean", "local_sgd"}) {
    const auto call = [](Synchronizer& synchronizer, std::vector<float>& values) -> std::string {
      try {
        synchronizer.after_backward(values);
        synchronizer.after_update(values);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::deadline);
        return error.what();
      }
      return "nothing was thrown";
    };
    launch({.engine = "threads", .workers = 2, .deadline_s = 0.2}, [&](Worker& worker) {
      const std::map<std::string, std::string> every_step{{"period", "1"}}, none;
      Synchronizer synchronizer(worker, algorithm, 3 << 20,
                                algorithm == "mean" ? none : every_step);  // several buckets
      if (worker.rank() == 0) return;                                      // never joins again
      std::vector<float> values(3 << 20);
      const std::string first = call(synchronizer, values);
      EXPECT_EQ(call(synchronizer, values), first);
    });
  }
}

TEST(Synchronizer, anExceptionOfAnyKindEndsTheRun) {
  EXPECT_THROW(launch({.engine = "threads", .workers = 2},
                      [](Worker& worker) {
                        if (worker.rank() == 1) throw 42;
                        Synchronizer(worker, "mean", 5);
                      }),
               int);
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
