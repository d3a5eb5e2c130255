// What of the CUDA kernels can be tested without a GPU: that they compile, how work is cut up, the cache, the errors.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "flockstep/error.h"
#include "kernels/cuda/cache.h"
#include "kernels/cuda/compiler.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/module.h"
#include "kernels/cuda/shared.h"
#include "kernels/cuda/source.h"
#include "math/packed.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"

namespace flockstep::kernels::cuda {
namespace {

// ---- compilation ----
class CudaSource : public ::testing::TestWithParam<int> {};

TEST_P(CudaSource, everyKernelCompiles) {
  std::optional<Compiler> compiler;
  try {
    compiler.emplace();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const std::vector<int> known = compiler->architectures();
  if (std::ranges::find(known, GetParam()) == known.end())
    GTEST_SKIP() << "NVRTC " << compiler->version() << " does not know sm_" << GetParam();
  const std::string cubin = compiler->compile(kSource, source_headers(), {GetParam(), false});
  EXPECT_EQ(cubin.substr(1, 3), "ELF");
  for (const std::string& name : kernel_names())
    EXPECT_NE(cubin.find(".text." + name + '\0'), std::string::npos) << "there is no kernel " << name;
}
INSTANTIATE_TEST_SUITE_P(Architectures, CudaSource, ::testing::Values(80, 90, 100),
                         [](const auto& info) { return "sm_" + std::to_string(info.param); });

// The compiler says it in many lines, so this one error is more than a sentence.
TEST(CudaCompiler, whatDoesNotCompileIsAnErrorWithTheCompilersWords) {
  try {
    const Compiler compiler;
    compiler.compile("__global__ void kernel() { missing(); }", {}, {90, false});
    FAIL() << "it compiled";
  } catch (const Error& error) {
    const std::string sentence = error.what();
    if (sentence.find("There is no NVRTC") == 0) GTEST_SKIP() << sentence;
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_NE(sentence.find("sm_90"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("missing"), std::string::npos) << sentence;
  }
}

TEST(CudaCompiler, aNewerArchitectureTakesThePtxOfTheNewestKnown) {
  const std::vector<int> known = {75, 80, 86, 90};
  EXPECT_EQ(target_for(90, known), (Target{90, false}));
  EXPECT_EQ(target_for(89, known), (Target{86, true}));
  EXPECT_EQ(target_for(120, known), (Target{90, true}));
  EXPECT_EQ(name_of(Target{90, false}), "sm_90");
  EXPECT_EQ(name_of(Target{90, true}), "compute_90");
}

TEST(CudaCompiler, anArchitectureThatIsTooOldIsRefusedInOneSentence) {
  const auto refusal_for = [](int architecture, const std::vector<int>& known) {
    return test::refusal(ErrorCode::unavailable, [&] { target_for(architecture, known); });
  };
  EXPECT_EQ(refusal_for(86, {90, 100}).find("NVRTC does not know the architecture sm_86 of this GPU"), 0u);
  EXPECT_EQ(refusal_for(75, {75, 80}).find("The kernels need a GPU of architecture sm_80 or later"), 0u);
}

TEST(CudaDevice, whereThereIsNoDriverOneSentenceSaysSo) {
  if (device_count() > 0) GTEST_SKIP() << "there is a GPU";
  const std::string why = why_unavailable();
  EXPECT_FALSE(why.empty());
  EXPECT_EQ(why.back(), '.');
  EXPECT_EQ(why.find('\n'), std::string::npos);
  EXPECT_THROW(make_queue(0), Error);
  const float number = 1;
  EXPECT_FALSE(device_of(&number));
}

// ---- cache ----
class CudaCache : public ::testing::Test {
 protected:
  void TearDown() override { ::chmod(root_.path().c_str(), 0700); }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) found.push_back(entry.path());
    return found;
  }
  std::filesystem::path folder() const { return root_ / "a" / "flockstep"; }
  std::string get(const std::string& key) {
    return cached(folder(), key, [&] {
      ++made_;
      return "kernels of " + key;
    });
  }

  const test::TemporaryFolder root_;
  std::atomic<int> made_ = 0;
};

TEST_F(CudaCache, whatWasMadeOnceIsRead) {
  EXPECT_EQ(get("one"), "kernels of one");
  EXPECT_EQ(get("one"), "kernels of one");
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(get("two"), "kernels of two");
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(CudaCache, aDamagedFileIsMadeAgainAndReplaced) {
  get("one");
  const std::filesystem::path path = files().at(0);
  const std::string whole = base::read_text(path);
  for (const std::string& damaged : {std::string(), whole.substr(0, 10), whole.substr(0, whole.size() - 1), whole + "x",
                                     "x" + whole.substr(1), whole.substr(0, whole.size() - 1) + "x"}) {
    base::write_atomically(path, damaged);
    made_ = 0;
    EXPECT_EQ(get("one"), "kernels of one");
    EXPECT_EQ(made_, 1) << damaged;
    EXPECT_EQ(base::read_text(path), whole);
  }
}

TEST_F(CudaCache, severalAtOnceAllGetTheWholeFile) {
  const std::string large(1 << 20, 'k');
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        right += cached(folder(), "key " + std::to_string(round), [&] { return large; }) == large ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 8 * 20);
  EXPECT_EQ(files().size(), 20u) << "files under their first names are left";
}

TEST_F(CudaCache, withoutAPlaceToWriteThereIsJustNoCache) {
  // Root may write anywhere: a file in the folder's place stops it, too.
  base::write_atomically(root_ / "a", "a file");
  EXPECT_EQ(get("one"), "kernels of one");
  EXPECT_EQ(get("one"), "kernels of one");
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(cached(std::nullopt, "one", [] { return "anew"; }), "anew");
  if (::geteuid() != 0) {
    ::unlink((root_ / "a").c_str());
    ::chmod(root_.path().c_str(), 0500);
    EXPECT_EQ(get("one"), "kernels of one");
  }
}

TEST_F(CudaCache, theFolderFollowsTheEnvironment) {
  const char* const before = std::getenv("XDG_CACHE_HOME");
  const std::optional<std::string> kept = before == nullptr ? std::nullopt : std::optional<std::string>(before);
  ::setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(cache_folder(), "/somewhere/flockstep");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(cache_folder(), std::filesystem::path(std::getenv("HOME")) / ".cache/flockstep");
  kept ? ::setenv("XDG_CACHE_HOME", kept->c_str(), 1) : ::unsetenv("XDG_CACHE_HOME");
}

// ---- how work is cut up ----
TEST(CudaPlan, placesOfATriangleAreThoseOfTheGramMatrix) {
  for (int i = 0; i < kMostGramRows; ++i)
    for (int j = 0; j <= i; ++j) {
      const int place = place_of(i, j);
      EXPECT_EQ(static_cast<std::size_t>(place),
                math::packed_index(static_cast<std::size_t>(i), static_cast<std::size_t>(j)));
      EXPECT_EQ(row_of(place), i);
      EXPECT_EQ(column_of(place), j);
    }
}

TEST(CudaPlan, everyPairOfGroupsHasAWarp) {
  for (int rows = kMostDirectRows + 1; rows <= kMostGramRows; ++rows) {
    const TilePlan plan = tile_plan(rows);
    EXPECT_GE(plan.groups * kGroup, rows);
    EXPECT_GE(plan.parts * plan.warps, plan.pairs);
    EXPECT_LT((plan.parts - 1) * plan.warps, plan.pairs);
    EXPECT_LE(plan.warps, kMostTileWarps);
    EXPECT_LE(plan.shared_bytes, 96 * 1024);
  }
  for (int rows = 1; rows <= kMostDirectRows; ++rows) EXPECT_GE(direct_slots(rows), rows);
}

TEST(CudaPlan, everyColumnIsInABlock) {
  for (const Size size :
       {Size{1}, Size{8191}, Size{8192}, Size{8193}, Size{1} << 25, (Size{1} << 25) + 1, Size{1} << 33})
    for (const Size columns : {kDirectColumns, kTileColumns, kStatisticsColumns}) {
      const Cut cut = cut_of(size, columns, 512);
      EXPECT_GE(cut.blocks * cut.chains * columns, size);
      EXPECT_LT((cut.blocks - 1) * cut.chains * columns, size) << "a block has nothing to do";
      EXPECT_LE(cut.blocks, 512u);
    }
  EXPECT_EQ(cut_of(0, 1024, 512).blocks, 0u);
}

TEST(CudaPlan, signsAndBinsAreThoseOfTheSketch) {
  const SketchKey key{0x12345678u, 0x9ABCDEF0u};
  for (const Size length : {Size{1}, Size{32}, Size{1024}, Size{8192}})
    for (const Word first_chunk : {Word{0}, Word{3}, Word{4'194'305}}) {
      const Size n = 20'000;
      const SketchPlan plan = sketch_plan(n, first_chunk, length);
      EXPECT_GE(plan.programs, 1u);
      std::set<Size> seen;
      for (Size b = 0; b < plan.blocks; ++b)
        for (Size bin = 0; bin < length; ++bin) {
          const Size place = b * length + within(bin, plan.block + static_cast<Word>(b), length, key.k0, key.k1);
          const Size k = place - plan.before;
          if (k >= n) continue;
          const std::uint64_t l = std::uint64_t{first_chunk} * kSketchChunk + k;
          ASSERT_EQ(sketch_bin(l, key, length), bin);
          ASSERT_EQ(sign_word(place, plan.chunk, key.k0, key.k1) & 0x80000000u, sketch_sign(l, key));
          seen.insert(k);
        }
      EXPECT_EQ(seen.size(), n) << length;
    }
}

}  // namespace
}  // namespace flockstep::kernels::cuda
