// The Transformer (Vaswani et al., 2017): an encoder and a decoder of attention layers, normalised before each layer,
// attentions without biases, and one embedding for both languages, which also scores the next token.
#pragma once

#include <torch/nn/module.h>

#include "base/random.h"
#include "tasks/translation/translation.h"

namespace flockstep::tasks {

// Sets a share of numbers to zero and scales the others up, by our own random numbers.
struct Dropout {
  double share = 0;
  base::Random* random = nullptr;

  torch::Tensor operator()(const torch::Tensor& input) const;
};

struct KeysValues {
  torch::Tensor keys, values;  // batch x heads x length x width of a head
};

class EncoderLayer;
class DecoderLayer;
class TokenEmbedding;  // modules of their own: a module's own tensors count as registered before those of its parts
class LayerNorm;

// What a search has decoded so far, of several rows at once.
struct Decoded {
  torch::Tensor mask;  // of the source
  struct Layer {
    KeysValues source, target;  // the latter grow with every token
  };
  std::vector<Layer> layers;
  std::int64_t length = 0;

  void select(const torch::Tensor& rows);
};

// Tokens are rows of int64, filled up with kPadding.
class Transformer : public torch::nn::Module {
 public:
  explicit Transformer(const TransformerOptions& options);

  // The scores of the token behind each of `target`: batch x length x vocabulary.
  torch::Tensor forward(const torch::Tensor& source, const torch::Tensor& target, const Dropout& dropout = {});
  // Widths keep the variance from layer to layer (Glorot and Bengio, 2010), drawn so that they are the same everywhere.
  void reset(std::uint64_t seed);

  // The same token by token: each sentence `width` times, one behind the other ...
  Decoded begin(const torch::Tensor& source, std::int64_t width);
  // ... and the logarithms of the probabilities of what comes behind these, one for each row.
  torch::Tensor next(Decoded& decoded, const torch::Tensor& tokens);

 private:
  torch::Tensor encode(const torch::Tensor& source, const torch::Tensor& mask, const Dropout& dropout);
  torch::Tensor embed(const torch::Tensor& tokens, std::int64_t first);

  TransformerOptions options_;
  std::shared_ptr<TokenEmbedding> embedding_;
  std::vector<std::shared_ptr<EncoderLayer>> encoder_;
  std::shared_ptr<LayerNorm> encoded_;  // behind the last layer
  std::vector<std::shared_ptr<DecoderLayer>> decoder_;
  std::shared_ptr<LayerNorm> decoded_;
};

}  // namespace flockstep::tasks
