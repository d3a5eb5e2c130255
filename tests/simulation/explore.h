// Runs seeds, each once with members of the protocol alone, once with real agents and once with such of workers that
// come and go, counts what they met, and says in one sentence what went wrong with the first that did.
#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "simulation/agent_run.h"
#include "simulation/elastic_run.h"
#include "simulation/member_run.h"

namespace flockstep::simulation {

struct Failure {
  std::uint64_t seed = 0;
  std::string property, sentence;

  std::string report() const;  // the sentence, and the command that replays it
};

struct Summary {
  std::int64_t runs = 0, crashes = 0, stops = 0, absences = 0;
  std::map<std::string, std::int64_t, std::less<>> kinds;  // runs per value of sync, activation and merging
  Counts members, agents;
  ElasticCounts elastic;
  std::optional<Failure> failure;  // that of the lowest seed

  void add(const Summary& other);
};

struct Exploration {
  bool runs_members = true, runs_agents = true, runs_elastic = true;
  MakeParticipant make = make_honest;
  Flaw flaw = Flaw::none;
  AgentFlaw agent_flaw{};
  ElasticFlaw elastic_flaw{};
  ElasticRun::Wrap elastic_rounds{};
  std::string_view only;         // this property alone; all of them if empty
  std::FILE* history = nullptr;  // where to tell what happens
};

void run_seed(std::uint64_t seed, const Exploration& how, Summary& summary);

// A line per group of counts.
std::string to_text(const Summary& summary);

// The seed that the calling thread runs, for whoever has to explain an abort.
std::uint64_t seed_under_way();

}  // namespace flockstep::simulation
