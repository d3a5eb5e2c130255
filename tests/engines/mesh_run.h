// A run of the mesh engine for tests: its store, and workers in this process or as processes of their own.
#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>

#include "conformance.h"
#include "engines/mesh/options.h"
#include "mortal.h"

extern char** environ;

namespace flockstep::engines::conformance {

// This program once more, as a worker that runs one of the disabled tests of the suite MeshProcess.
class WorkerProcess {
 public:
  // In the network namespace of this name, if it has one.
  WorkerProcess(const mesh::MeshOptions& options, const std::string& role, const std::string& space = "") {
    std::vector<std::string> variables{
        "FLOCKSTEP_RANK=" + std::to_string(options.rank), "FLOCKSTEP_WORKERS=" + std::to_string(options.workers),
        "FLOCKSTEP_STORE=" + options.store, "FLOCKSTEP_SECRET=" + options.secret,
        "FLOCKSTEP_HEARTBEAT=" + std::to_string(static_cast<int>(options.heartbeat.count() * 1000)) + "ms"};
    for (char** each = environ; *each; ++each) variables.emplace_back(*each);
    std::vector<char*> environment;
    for (std::string& each : variables) environment.push_back(each.data());
    environment.push_back(nullptr);
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> words{self, "--gtest_filter=MeshProcess.DISABLED_" + role,
                                   "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
    if (!space.empty()) words.insert(words.begin(), {"ip", "netns", "exec", space});
    std::vector<char*> arguments;
    for (std::string& each : words) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(posix_spawnp(&process_, arguments[0], nullptr, nullptr, arguments.data(), environment.data()), 0);
  }
  ~WorkerProcess() { signal(SIGKILL), wait(); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  void signal(int number) const {
    if (process_ > 0) ::kill(process_, number);
  }
  int wait() {  // its exit status
    int status = 0;
    if (process_ > 0) ::waitpid(process_, &status, 0);
    process_ = 0;
    return status;
  }

 private:
  pid_t process_ = 0;
};

class MeshRun {
 public:
  explicit MeshRun(int workers, base::Duration heartbeat = base::Duration(5), const std::string& host = "127.0.0.1")
      : workers_(workers), heartbeat_(heartbeat), store_(store_options(secret_, workers, host)) {}

  mesh::MeshOptions options(int rank) const {
    mesh::MeshOptions options;
    options.rank = rank;
    options.workers = workers_;
    options.store = store_.address();
    options.secret = secret_;
    options.heartbeat = heartbeat_;
    return options;
  }
  std::unique_ptr<Engine> make(int rank) const { return mesh::make_engine(options(rank)); }
  const mesh::Store& store() const { return store_; }
  const std::string& secret() const { return secret_; }

 private:
  static mesh::StoreOptions store_options(const std::string& secret, int workers, const std::string& host) {
    mesh::StoreOptions options;
    options.host = host;
    options.secret = secret;
    options.workers = workers;
    return options;
  }
  const int workers_;
  const base::Duration heartbeat_;
  const std::string secret_ = mesh::make_secret();
  mesh::Store store_;
};

constexpr std::size_t kLong = 8 << 20;  // words: long enough to be under way for a while

class MeshExchange : public testing::Test {
 protected:
  // Worker 0, which exchanges long messages with worker 1 until that is lost after `strike`. Returns what it is told.
  std::string exchange_until_lost(MeshRun& run, const std::function<void()>& strike) {
    auto options = run.options(0);
    options.reads_memory = false;
    const auto engine = mesh::make_engine(options);
    const Words sent(kLong, 5);
    Words received(kLong);
    if (!wait_for(*engine, Control::What::met, 1)) return "worker 1 was never met";
    for (Tag tag = 0; tag < 1000; ++tag) {
      const Pending receive = engine->receive(1, tag, bytes(received)), send = engine->send(1, tag, bytes(sent));
      if (tag == 3) {
        engine->sleep(base::Duration(0.005));
        strike();
      }
      EXPECT_TRUE(settles(*engine, *receive) && settles(*engine, *send));
      if (receive->done()) {
        EXPECT_EQ(received, Words(kLong, 7));
      }
      if (!receive->gone() && !send->gone()) continue;
      EXPECT_EQ(receive->gone().value_or(1), 1);
      const auto lost = wait_for(*engine, Control::What::lost, 1);
      return lost ? text_of(*lost) : "";
    }
    return "worker 1 was never lost";
  }
};

}  // namespace flockstep::engines::conformance
