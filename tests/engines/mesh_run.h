// A run of the mesh engine for tests: its store, and workers in this process or as processes of their own.
#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "engines/mesh/options.h"
#include "mortal.h"

extern char** environ;

namespace flockstep::engines::conformance {

// This program once more, as a worker that runs one of the disabled tests of the suite MeshProcess.
class WorkerProcess {
 public:
  WorkerProcess(const mesh::MeshOptions& options, const std::string& role) {
    std::vector<std::string> variables{
        "FLOCKSTEP_RANK=" + std::to_string(options.rank), "FLOCKSTEP_WORKERS=" + std::to_string(options.workers),
        "FLOCKSTEP_STORE=" + options.store, "FLOCKSTEP_SECRET=" + options.secret,
        "FLOCKSTEP_HEARTBEAT=" + std::to_string(static_cast<int>(options.heartbeat.count() * 1000)) + "ms"};
    for (char** each = environ; *each; ++each) variables.emplace_back(*each);
    std::vector<char*> environment;
    for (std::string& each : variables) environment.push_back(each.data());
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=MeshProcess.DISABLED_" + role,
                all = "--gtest_also_run_disabled_tests", brief = "--gtest_brief=1";
    char* arguments[] = {program.data(), filter.data(), all.data(), brief.data(), nullptr};
    EXPECT_EQ(posix_spawn(&process_, program.c_str(), nullptr, nullptr, arguments, environment.data()), 0);
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
  explicit MeshRun(int workers, base::Duration heartbeat = base::Duration(5))
      : workers_(workers), heartbeat_(heartbeat) {}

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
  static mesh::StoreOptions store_options(const std::string& secret, int workers) {
    mesh::StoreOptions options;
    options.secret = secret;
    options.workers = workers;
    return options;
  }
  const int workers_;
  const base::Duration heartbeat_;
  const std::string secret_ = mesh::make_secret();
  mesh::Store store_{store_options(secret_, workers_)};
};

}  // namespace flockstep::engines::conformance
