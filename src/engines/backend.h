// What a backend offers before any worker exists: whether it is here, and how to start a run on it.
// src/engines/registry.h lists the backends; each lives in a folder of its own under the same file names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engines/engine.h"

namespace flockstep::engines {

struct Availability {
  bool available = false;
  std::string version;  // of the library behind it, when available
  std::string reason;   // how to get it, when not
};

struct SimOptions {
  // A preset or the path of a SimGrid platform file; empty: a star of links with the next two.
  std::string platform;
  double latency_us = 10;      // of one link; a message crosses two
  double bandwidth_gbps = 10;  // of one worker's link, each way
  double bytes_scale = 1;  // how many times larger the network believes data to be; control messages stay as they are
  double memory_gbytes_s = 0;  // speed at which charged bytes pass; 0: the platform's
};

// For tests: workers that are lost and come back, at engine calls that are counted over all lives of a rank, those of
// its agents included (threads).
struct Loss {
  int rank;
  std::int64_t call;  // in which it is lost: all of its threads leave their functions by an exception
  bool comes_back = false;
  base::Duration away{0};
};
struct Cut {  // a connection that ends though both live
  int rank, peer;
  std::int64_t call, mended;  // of `rank`
};
struct ElasticOptions {
  bool outlives_peers = false;  // without it nothing of this is asked for
  std::vector<Loss> losses;
  std::vector<Cut> cuts;
};

struct LaunchOptions {
  int workers = 1;  // threads and sim start this many; mpi and mesh check it against what was started, 0 takes that
  std::uint64_t seed = 1;      // of the order in deterministic mode
  bool deterministic = false;  // one worker or agent at a time, on a logical clock (threads; sim always is)
  SimOptions sim;
  ElasticOptions elastic;
};

// Runs once per worker of this process. What it throws ends the run.
using WorkerMain = std::function<void(Engine&)>;

}  // namespace flockstep::engines
