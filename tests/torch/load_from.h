// What users do to go on from a file: torch::load, which re-points every tensor of a module.
#pragma once

#include <torch/torch.h>

#include <string>

namespace flockstep::test {

inline void load_from(const torch::nn::Module& saved, torch::nn::Module& module) {
  std::string file;
  torch::serialize::OutputArchive out;
  saved.save(out);
  out.save_to([&file](const void* bytes, std::size_t size) {
    file.append(static_cast<const char*>(bytes), size);
    return size;
  });
  torch::serialize::InputArchive in;
  in.load_from(file.data(), file.size());
  module.load(in);
}

}  // namespace flockstep::test
