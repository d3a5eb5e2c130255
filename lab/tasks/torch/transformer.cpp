#include "tasks/torch/transformer.h"

#include <torch/types.h>

#include <cmath>
#include <limits>

#include "tasks/torch/initial_values.h"

namespace flockstep::tasks {
namespace {

constexpr double kLayerNormEpsilon = 1e-5;

// Added to the scores of keys: nothing may attend to padding.
torch::Tensor mask_of(const torch::Tensor& source) {
  return torch::zeros({source.size(0), 1, 1, source.size(1)}, source.options().dtype(torch::kFloat32))
      .masked_fill_(source.eq(kPadding).view({source.size(0), 1, 1, source.size(1)}),
                    -std::numeric_limits<float>::infinity());
}

// Sines and cosines of wavelengths from 2 pi to 10,000 times as much.
torch::Tensor positions(std::int64_t first, std::int64_t length, std::int64_t width) {
  const torch::Tensor result = torch::empty({length, width});
  float* value = result.data_ptr<float>();
  for (std::int64_t at = first; at < first + length; ++at)
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double angle =
          static_cast<double>(at) * std::pow(10000, -2 * static_cast<double>(i) / static_cast<double>(width));
      *value++ = static_cast<float>(std::sin(angle));
      *value++ = static_cast<float>(std::cos(angle));
    }
  return result;
}

}  // namespace

class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(std::int64_t width) {
    scale = register_parameter("scale", torch::ones({width}));
    shift = register_parameter("shift", torch::zeros({width}));
  }
  torch::Tensor forward(const torch::Tensor& input) {
    return at::layer_norm(input, {scale.size(0)}, scale, shift, kLayerNormEpsilon);
  }
  torch::Tensor scale, shift;
};

class TokenEmbedding : public torch::nn::Module {
 public:
  TokenEmbedding(std::int64_t vocabulary, std::int64_t width) {
    rows = register_parameter("rows", torch::zeros({vocabulary, width}));
  }
  torch::Tensor rows;
};

class Attention : public torch::nn::Module {
 public:
  Attention(std::int64_t width, std::int64_t heads) : heads_(heads) {
    queries = register_parameter("queries", torch::zeros({width, width}));
    keys_values = register_parameter("keys_values", torch::zeros({2 * width, width}));
    result = register_parameter("result", torch::zeros({width, width}));
  }

  KeysValues look(const torch::Tensor& input) {
    const auto both = at::linear(input, keys_values).chunk(2, -1);
    return {by_head(both[0]), by_head(both[1])};
  }
  // `causal`: position i sees none behind it.
  torch::Tensor forward(const torch::Tensor& input, const KeysValues& seen, const torch::Tensor& mask, bool causal) {
    const torch::Tensor query = by_head(at::linear(input, queries));
    const torch::Tensor found = at::scaled_dot_product_attention(
        query, seen.keys, seen.values, mask.defined() ? std::optional<torch::Tensor>(mask) : std::nullopt, 0, causal);
    return at::linear(found.transpose(1, 2).reshape(input.sizes()), result);
  }

  torch::Tensor queries, keys_values, result;

 private:
  torch::Tensor by_head(const torch::Tensor& input) const {
    return input.view({input.size(0), input.size(1), heads_, -1}).transpose(1, 2);
  }
  std::int64_t heads_;
};

class FeedForward : public torch::nn::Module {
 public:
  FeedForward(std::int64_t width, std::int64_t inner) {
    first = register_parameter("first", torch::zeros({inner, width}));
    first_bias = register_parameter("first_bias", torch::zeros({inner}));
    second = register_parameter("second", torch::zeros({width, inner}));
    second_bias = register_parameter("second_bias", torch::zeros({width}));
  }
  torch::Tensor forward(const torch::Tensor& input) {
    return at::linear(at::linear(input, first, first_bias).relu_(), second, second_bias);
  }
  torch::Tensor first, first_bias, second, second_bias;
};

class EncoderLayer : public torch::nn::Module {
 public:
  explicit EncoderLayer(const TransformerOptions& options) {
    attention_norm_ = register_module("attention_norm", std::make_shared<LayerNorm>(options.width));
    attention_ = register_module("attention", std::make_shared<Attention>(options.width, options.heads));
    hidden_norm_ = register_module("hidden_norm", std::make_shared<LayerNorm>(options.width));
    hidden_ = register_module("hidden", std::make_shared<FeedForward>(options.width, options.inner));
  }
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& mask, const Dropout& dropout) {
    const torch::Tensor normed = attention_norm_->forward(input);
    const torch::Tensor attended =
        input + dropout(attention_->forward(normed, attention_->look(normed), mask, /*causal=*/false));
    return attended + dropout(hidden_->forward(hidden_norm_->forward(attended)));
  }

 private:
  std::shared_ptr<LayerNorm> attention_norm_, hidden_norm_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<FeedForward> hidden_;
};

class DecoderLayer : public torch::nn::Module {
 public:
  explicit DecoderLayer(const TransformerOptions& options) {
    own_norm_ = register_module("own_norm", std::make_shared<LayerNorm>(options.width));
    own_ = register_module("own", std::make_shared<Attention>(options.width, options.heads));
    source_norm_ = register_module("source_norm", std::make_shared<LayerNorm>(options.width));
    source_ = register_module("source", std::make_shared<Attention>(options.width, options.heads));
    hidden_norm_ = register_module("hidden_norm", std::make_shared<LayerNorm>(options.width));
    hidden_ = register_module("hidden", std::make_shared<FeedForward>(options.width, options.inner));
  }

  KeysValues look_at_source(const torch::Tensor& encoded) { return source_->look(encoded); }
  // Padding stands behind all tokens, so that the order of positions keeps it out.
  torch::Tensor forward(const torch::Tensor& input, const KeysValues& source, const torch::Tensor& mask,
                        const Dropout& dropout) {
    const torch::Tensor normed = own_norm_->forward(input);
    return rest(input + dropout(own_->forward(normed, own_->look(normed), {}, /*causal=*/true)), source, mask, dropout);
  }
  // One more token of each row.
  torch::Tensor next(const torch::Tensor& input, Decoded::Layer& seen, const torch::Tensor& mask) {
    const torch::Tensor normed = own_norm_->forward(input);
    const KeysValues latest = own_->look(normed);
    const bool first = !seen.target.keys.defined();
    seen.target.keys = first ? latest.keys : at::cat({seen.target.keys, latest.keys}, 2);
    seen.target.values = first ? latest.values : at::cat({seen.target.values, latest.values}, 2);
    return rest(input + own_->forward(normed, seen.target, {}, /*causal=*/false), seen.source, mask, {});
  }

 private:
  torch::Tensor rest(const torch::Tensor& input, const KeysValues& source, const torch::Tensor& mask,
                     const Dropout& dropout) {
    const torch::Tensor attended =
        input + dropout(source_->forward(source_norm_->forward(input), source, mask, /*causal=*/false));
    return attended + dropout(hidden_->forward(hidden_norm_->forward(attended)));
  }

  std::shared_ptr<LayerNorm> own_norm_, source_norm_, hidden_norm_;
  std::shared_ptr<Attention> own_, source_;
  std::shared_ptr<FeedForward> hidden_;
};

torch::Tensor Dropout::operator()(const torch::Tensor& input) const {
  if (share == 0 || !random) return input;
  const torch::Tensor factors = torch::empty(input.sizes());
  random->fill_uniform(values_of(factors), 0, 1);
  return input * factors.to(input.device()).ge(share).to(torch::kFloat32).mul_(1 / (1 - share));
}

void Decoded::select(const torch::Tensor& rows) {
  mask = mask.index_select(0, rows);
  for (Layer& layer : layers)
    for (torch::Tensor* part : {&layer.source.keys, &layer.source.values, &layer.target.keys, &layer.target.values})
      if (part->defined()) *part = part->index_select(0, rows);
}

Transformer::Transformer(const TransformerOptions& options) : options_(options) {
  embedding_ = register_module("embedding", std::make_shared<TokenEmbedding>(options.vocabulary, options.width));
  for (std::int64_t number = 1; number <= options.layers; ++number)
    encoder_.push_back(register_module("encoder" + std::to_string(number), std::make_shared<EncoderLayer>(options)));
  encoded_ = register_module("encoded", std::make_shared<LayerNorm>(options.width));
  for (std::int64_t number = 1; number <= options.layers; ++number)
    decoder_.push_back(register_module("decoder" + std::to_string(number), std::make_shared<DecoderLayer>(options)));
  decoded_ = register_module("decoded", std::make_shared<LayerNorm>(options.width));
}

torch::Tensor Transformer::embed(const torch::Tensor& tokens, std::int64_t first) {
  const double scale = std::sqrt(static_cast<double>(options_.width));
  return at::embedding(embedding_->rows, tokens) * scale +
         positions(first, tokens.size(1), options_.width).to(tokens.device());
}

torch::Tensor Transformer::encode(const torch::Tensor& source, const torch::Tensor& mask, const Dropout& dropout) {
  torch::Tensor output = dropout(embed(source, 0));
  for (const auto& layer : encoder_) output = layer->forward(output, mask, dropout);
  return encoded_->forward(output);
}

torch::Tensor Transformer::forward(const torch::Tensor& source, const torch::Tensor& target, const Dropout& dropout) {
  const torch::Tensor mask = mask_of(source), encoded = encode(source, mask, dropout);
  torch::Tensor output = dropout(embed(target, 0));
  for (const auto& layer : decoder_) output = layer->forward(output, layer->look_at_source(encoded), mask, dropout);
  return at::linear(decoded_->forward(output), embedding_->rows);
}

Decoded Transformer::begin(const torch::Tensor& source, std::int64_t width) {
  Decoded decoded;
  decoded.mask = mask_of(source);
  const torch::Tensor encoded = encode(source, decoded.mask, {});
  for (const auto& layer : decoder_) decoded.layers.push_back({layer->look_at_source(encoded), {}});
  if (width > 1) decoded.select(torch::arange(source.size(0), source.options()).repeat_interleave(width));
  return decoded;
}

torch::Tensor Transformer::next(Decoded& decoded, const torch::Tensor& tokens) {
  torch::Tensor output = embed(tokens.view({-1, 1}), decoded.length++);
  for (std::size_t i = 0; i < decoder_.size(); ++i) output = decoder_[i]->next(output, decoded.layers[i], decoded.mask);
  return at::linear(decoded_->forward(output.squeeze(1)), embedding_->rows).log_softmax(-1);
}

void Transformer::reset(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  base::Random random(seed, base::Purpose::initial_model);
  const auto fill = [&](const torch::Tensor& matrix, std::int64_t out) {
    fill_uniform(matrix, std::sqrt(6.0 / static_cast<double>(out + matrix.size(1))), random);
  };
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto attention = std::dynamic_pointer_cast<Attention>(module)) {
      fill(attention->queries, options_.width);
      fill(attention->keys_values, options_.width);  // two matrices
      fill(attention->result, options_.width);
    } else if (const auto hidden = std::dynamic_pointer_cast<FeedForward>(module)) {
      fill(hidden->first, options_.inner);
      hidden->first_bias.zero_();
      fill(hidden->second, options_.width);
      hidden->second_bias.zero_();
    } else if (const auto norm = std::dynamic_pointer_cast<LayerNorm>(module)) {
      norm->scale.fill_(1);
      norm->shift.zero_();
    }
  }
  fill_normal(embedding_->rows, 1 / std::sqrt(static_cast<double>(options_.width)), random);
}

}  // namespace flockstep::tasks
