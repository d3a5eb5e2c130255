// What users do to go on from a file: torch::load, which re-points every tensor of a module.
#pragma once

#include <torch/torch.h>

#include <sstream>

namespace flockstep::test {

inline void load_from(const torch::nn::Module& saved, torch::nn::Module& module) {
  std::stringstream file;
  torch::serialize::OutputArchive out;
  saved.save(out);
  out.save_to(file);
  torch::serialize::InputArchive in;
  in.load_from(file);
  module.load(in);
}

}  // namespace flockstep::test
