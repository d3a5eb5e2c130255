#include "tasks/translation/translation.h"

#include <fmt/core.h>

#include "flockstep/error.h"
#include "tasks/sizes.h"
#include "tasks/torch_tasks.h"
#include "tasks/translation/pair_sampler.h"

namespace flockstep::tasks {
namespace {

constexpr std::array<base::OptionSpec, 26> kOptions{{
    kSizeOption,
    {"layers", kBySize, "layers of the encoder, and of the decoder"},
    {"width", kBySize, "size of the embedding of a token"},
    {"heads", kBySize, "heads of an attention, which divide the width"},
    {"inner", kBySize, "size of the hidden layer after an attention"},
    {"tokens", kBySize, "bpe (subwords), or words"},
    {"vocabulary", kBySize, "number of tokens, of both languages together"},
    {"learning_rate", kBySize, kLearningRateHelp},
    {"schedule", "inverse_root", kScheduleHelp},
    kScheduleAtOption,
    {"warmup", kBySize, kWarmupHelp},
    {"beta2", "0.98", "beta2 of Adam"},
    {"clip", "0", "largest norm of the gradient; longer gradients are scaled down; 0: never"},
    {"label_smoothing", kBySize, "share of every token's probability that is spread over the vocabulary"},
    {"dropout", kBySize, "dropout rate of the output of each layer"},
    {"beam", "1", "hypotheses of the beam search; 1: greedy"},
    {"length_penalty", "0.6",
     "length penalty of the beam search: 0 prefers short translations, 1 compares the mean over tokens"},
    {"longest", kBySize, "tokens of a sentence: longer pairs are not trained on, longer test sentences are cut"},
    {"test_sentences", kBySize, "number of test sentences, counted from the first, and as many for validation; 0: all"},
    {"numbers", kBySize, "most numbers in a generated sentence"},
    {"spelling", kBySize, "spelling of generated numbers: together (einundzwanzig) or apart (ein und zwanzig)"},
    {"source", "en", "ending of the files in the language to translate from"},
    {"target", "de", "ending of the files in the language to translate to"},
    kTranslationShardOption,
    kTranslationNoisyOption,
    {"data", "",
     "folder with train.en, train.de, test.en and test.de, and perhaps valid.en and valid.de, instead of generated "
     "number words"},
}};

constexpr std::array<SizeSetting, 14> kTiny{{{"layers", "1"},
                                             {"width", "64"},
                                             {"heads", "4"},
                                             {"inner", "128"},
                                             {"tokens", "words"},
                                             {"vocabulary", "80"},
                                             {"learning_rate", "0.003"},
                                             {"warmup", "100"},
                                             {"label_smoothing", "0.1"},
                                             {"dropout", "0"},
                                             {"longest", "40"},
                                             {"test_sentences", "200"},
                                             {"numbers", "1"},
                                             {"spelling", "apart"}}};
constexpr std::array<SizeSetting, 14> kSmall{{{"layers", "2"},
                                              {"width", "64"},
                                              {"heads", "4"},
                                              {"inner", "128"},
                                              {"tokens", "bpe"},
                                              {"vocabulary", "150"},
                                              {"learning_rate", "0.003"},
                                              {"warmup", "100"},
                                              {"label_smoothing", "0.1"},
                                              {"dropout", "0"},
                                              {"longest", "100"},
                                              {"test_sentences", "500"},
                                              {"numbers", "4"},
                                              {"spelling", "together"}}};
// The base model of Vaswani et al. (2017), with a rate of 1 / sqrt(width x warmup).
constexpr std::array<SizeSetting, 14> kPaper{{{"layers", "6"},
                                              {"width", "512"},
                                              {"heads", "8"},
                                              {"inner", "2048"},
                                              {"tokens", "bpe"},
                                              {"vocabulary", "33708"},
                                              {"learning_rate", "0.0007"},
                                              {"warmup", "4000"},
                                              {"label_smoothing", "0.1"},
                                              {"dropout", "0.1"},
                                              {"longest", "100"},
                                              {"test_sentences", "0"},
                                              {"numbers", "4"},
                                              {"spelling", "together"}}};
constexpr std::array<Size, 3> kSizes{{
    {"tiny", {.steps = 300, .batch_per_worker = 16}, kTiny},
    {"small", {.steps = 400, .batch_per_worker = 16}, kSmall},
    {"paper", {.steps = 100000, .batch_per_worker = 128}, kPaper},
}};

}  // namespace

TranslationOptions translation_options_of(const base::Settings& given, int workers, std::int64_t steps) {
  const base::Settings settings = with_size("translation", kOptions, kSizes, given);
  const base::SettingsReader reader("translation", kOptions, settings);
  const auto size = [&](std::string_view name, std::int64_t least, std::int64_t most) {
    return static_cast<std::size_t>(reader.integer(name, least, most));
  };
  const TransformerOptions network{.width = reader.integer("width", 2, 1 << 16),
                                   .heads = reader.integer("heads", 1, 1024),
                                   .inner = reader.integer("inner", 1, 1 << 20),
                                   .layers = reader.integer("layers", 1, 1000),
                                   .vocabulary = reader.integer("vocabulary", kReserved + 1, 1 << 24)};
  if (network.width % network.heads != 0 || network.width % 2 != 0)
    throw Error(ErrorCode::bad_input,
                fmt::format("--translation.width takes an even multiple of --translation.heads ({}), not '{}'",
                            network.heads, network.width));
  return {.network = network,
          .adam = {.rate = rate_options_of("translation", reader, steps),
                   .beta1 = 0.9,
                   .beta2 = reader.below_one("beta2"),
                   .epsilon = 1e-9,
                   .weight_decay = 0,
                   .clip = reader.real("clip", 0, 1e9)},
          .label_smoothing = reader.below_one("label_smoothing"),
          .dropout = reader.below_one("dropout"),
          .search = {.width = size("beam", 1, 64), .length_penalty = reader.real("length_penalty", 0, 10)},
          .corpus = {.files = {reader.text("data"), reader.text("source"), reader.text("target")},
                     .numbers = {.most_numbers = static_cast<int>(reader.integer("numbers", 1, 1000)),
                                 .spelling = reader.choice("spelling", kSpellings)},
                     .tokens = reader.choice("tokens", kTokenKinds),
                     .vocabulary = static_cast<std::size_t>(network.vocabulary),
                     .longest = size("longest", 8, 4096),
                     .tested = size("test_sentences", 0, 1 << 30)},
          .shard = shard_options_of(reader, workers)};
}

TaskRow translation_row() {
  return {
      .name = "translation",
      .description =
          "a Transformer on English and German number words, or parallel text; workers may see their own lengths of "
          "sentences or wrong translations",
      .metric = "BLEU on the test sentences, higher is better",
      .options = kOptions,
      .defaults =
          [](const base::Settings& settings) { return size_of("translation", kOptions, kSizes, settings).defaults; },
      .make = [](const TaskInputs& inputs) { return make_torch_task("translation", inputs); },
      .check =
          [](const base::Settings& settings, int workers) {
            translation_options_of(settings, workers, 0);
            require_torch_tasks("translation");
          },
      .takes_uneven_batches = true,
      .needs_torch = true,
      .files =
          [](const base::Settings& settings) {
            const TextFiles files = translation_options_of(settings, 1, 0).corpus.files;
            return files.folder.empty() ? std::vector<std::filesystem::path>{} : files_of(files);
          },
      .sizes = kSizes,
  };
}

}  // namespace flockstep::tasks
