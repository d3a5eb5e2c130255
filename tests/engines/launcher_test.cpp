#include "engines/launcher.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "support/refusal.h"

namespace flockstep::engines {
namespace {

// The environment of a launcher, and nothing of another's; as it was afterwards.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    for (const char* name :
         {"FLOCKSTEP_LOCAL_RANK", "FLOCKSTEP_LOCAL_WORKERS", "FLOCKSTEP_WORKERS", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
          "WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE",
          "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_SIZE"}) {
      if (const char* value = std::getenv(name)) before_[name] = value;
      names_.emplace_back(name);
      ::unsetenv(name);
    }
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const std::string& name : names_)
      before_.contains(name) ? ::setenv(name.c_str(), before_[name].c_str(), 1) : ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::string> before_;
};

struct PlaceCase {
  std::map<std::string, std::string> variables;
  int number, workers;
};

TEST(Launcher, tellsThePlaceOfAWorkerOnItsNode) {
  const PlaceCase cases[] = {
      {{{"FLOCKSTEP_LOCAL_RANK", "1"}, {"FLOCKSTEP_LOCAL_WORKERS", "4"}, {"FLOCKSTEP_WORKERS", "16"}}, 1, 4},
      {{{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "8"}, {"WORLD_SIZE", "16"}}, 2, 8},
      {{{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}, {"OMPI_COMM_WORLD_SIZE", "16"}},
       3,
       8},
      {{{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}, {"PMI_SIZE", "16"}}, 0, 2},
      // An mpirun that has started a torchrun on each node does not count.
      {{{"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"LOCAL_RANK", "5"},
        {"LOCAL_WORLD_SIZE", "8"},
        {"WORLD_SIZE", "16"}},
       5,
       8}};
  for (const PlaceCase& each : cases) {
    SCOPED_TRACE(testing::PrintToString(each.variables));
    const Environment environment(each.variables);
    const auto place = launched_place(16);
    ASSERT_TRUE(place);
    EXPECT_EQ(place->number, each.number);
    EXPECT_EQ(place->workers, each.workers);
  }
  const Environment none(std::map<std::string, std::string>{{"WORLD_SIZE", "16"}});
  EXPECT_FALSE(launched_place(16));
}

TEST(Launcher, thatSpeaksOfAnotherNumberOfWorkersGetsOneSentence) {
  const Environment environment({{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "8"}, {"WORLD_SIZE", "16"}});
  EXPECT_EQ(test::refusal([&] { launched_place(4); }),
            "the launcher has told which of 16 workers share a node, but there are 4 here: give workers_per_node");
}

}  // namespace
}  // namespace flockstep::engines
