#include "study/published.h"

#include "base/names.h"

namespace flockstep::study {
namespace {

constexpr bool kFitted = true, kScored = false;

PublishedWorkload resnet() {
  return {"resnet",
          "ResNet-50, about two random ranks 320 ms late in each step",
          "images/s",
          25'559'081,
          0,
          0,
          161,  // the authors' code lists their lengths, which add up to the parameters
          10,
          128,
          1,
          2,
          320,
          {4, 16, 64, 256},
          {{"local", kScored, {570, 2292, 9144, 32518}},
           {"allreduce", kFitted, {572, 2305, 9070, 32616}},
           {"D-PSGD", kScored, {570, 2303, 9316, 35851}},
           {"SGP", kScored, {532, 2177, 9121, 36431}},
           {"eager", kScored, {636, 2804, 10146, 32558}},
           {"WAGMA", kScored, {641, 2835, 11435, 44523}},
           {"AD-PSGD", kScored, {678, 3115, 13051, 52698}},
           {"ideal", kFitted, {879, 3335, 13253, 53253}}}};
}

// Each rank has a batch of 8,192 tokens. Input, output and the last layer share an embedding of 33,708 words;
// TensorFlow takes the sum of their gradients for sparse, so that it is gathered from all ranks, as rows for every word
// read and a whole embedding from the last layer ("Densifying Assumed-Sparse Tensors", ISC 2019).
constexpr std::int64_t kTokens = 8192, kWidth = 512, kEmbedding = 33'708 * kWidth;
PublishedWorkload transformer() {
  return {"transformer",
          "Transformer, sentences of uneven length",
          "k tokens/s",
          61'362'176,
          kEmbedding,
          kEmbedding + 2 * kTokens * kWidth,
          185,  // of TensorFlow's official base model with 33,708 words, which has exactly so many parameters
          8,
          kTokens,
          1000,
          0,
          0,
          {16, 64},
          {{"local", kScored, {118, 317}},
           {"allreduce", kFitted, {91, 153}},
           {"D-PSGD", kScored, {118, 411}},
           {"SGP", kScored, {122, 452}},
           {"WAGMA", kScored, {157, 524}},
           {"AD-PSGD", kScored, {148, 594}},
           {"ideal", kFitted, {244, 898}}}};
}

// Two environments of 128 steps make 256 of a rank's step.
PublishedWorkload reinforcement() {
  return {"rl",
          "Reinforcement learning (PPO), episodes of uneven length",
          "steps/s",
          8'476'421,
          0,
          0,
          80,  // of Habitat's ResNet-18 for depth images and an LSTM of two layers: exactly so many parameters
          8,
          256,
          1,
          0,
          0,
          {16, 64, 256, 1024},
          {{"local", kFitted, {815, 1862, 5611, 20913}},
           {"D-PSGD", kScored, {791, 2204, 6187, 25956}},
           {"SGP", kScored, {836, 2135, 6343, 23164}},
           {"WAGMA", kScored, {1048, 3736, 12205, 48755}},
           {"AD-PSGD", kScored, {1413, 5591, 21187, 82092}},
           {"ideal", kFitted, {1632, 6230, 23908, 99941}}}};
}

}  // namespace

const PublishedColumn& PublishedWorkload::column(std::string_view column) const {
  return base::find_by_name(std::span<const PublishedColumn>(columns), column, "published column");
}

// Summing n numbers moves 2 n (P-1)/P to and from each rank; gathering n of each, n (P-1).
std::int64_t PublishedWorkload::allreduce_parameters(std::size_t place) const {
  return parameters - gathered_parameters + ranks[place] * gathered_numbers / 2;
}

double PublishedWorkload::compute_s(std::size_t place) const {
  return samples_per_step * ranks[place] / (column("ideal").values[place] * samples_per_unit);
}

std::span<const PublishedWorkload> published_workloads() {
  static const std::vector<PublishedWorkload> workloads{resnet(), transformer(), reinforcement()};
  return workloads;
}

}  // namespace flockstep::study
