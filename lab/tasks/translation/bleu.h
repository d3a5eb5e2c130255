// BLEU (Papineni et al., 2002) of a corpus with one reference a sentence, as sacreBLEU computes it by default: words as
// mteval-v13a splits them, counts of n-grams up to four, and smoothing where an order has no match.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace flockstep::tasks {

// The words of a line: most punctuation stands alone, periods and commas do except beside digits.
std::vector<std::string> words_as_13a(std::string_view line);

// Of one sentence, or of many that were added up.
struct BleuCounts {
  static constexpr std::size_t kOrders = 4;

  double words = 0, reference_words = 0;
  std::array<double, kOrders> matches{}, ngrams{};  // of one word, of two, ...

  BleuCounts& operator+=(const BleuCounts& other);
};

BleuCounts count_for_bleu(std::string_view translation, std::string_view reference);

// From 0 to 100.
double bleu(const BleuCounts& counts);

}  // namespace flockstep::tasks
