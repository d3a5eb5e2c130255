// `translation`: a Transformer that translates sentences. Here are its options and its row in the registry; the network
// itself, which needs torch, is in lab/tasks/torch.
#pragma once

#include "tasks/adam.h"
#include "tasks/registry.h"
#include "tasks/translation/corpus.h"
#include "tasks/translation/search.h"
#include "tasks/worker_data.h"

namespace flockstep::tasks {

struct TransformerOptions {
  std::int64_t width = 64, heads = 4, inner = 128, layers = 2;  // layers: of the encoder, and so many of the decoder
  std::int64_t vocabulary = 100;                                // rows of the embedding
};

struct TranslationOptions {
  TransformerOptions network;
  AdamOptions adam;
  double label_smoothing = 0, dropout = 0;
  SearchOptions search;
  CorpusOptions corpus;
  ShardOptions shard;
};

// Throws Error{bad_input}.
TranslationOptions translation_options_of(const base::Settings& settings, int workers, std::int64_t steps);

TaskRow translation_row();

}  // namespace flockstep::tasks
