#include "tasks/translation/bleu.h"

#include <algorithm>
#include <map>
#include <span>

#include "base/portable_math.h"
#include "tasks/translation/utf8.h"

namespace flockstep::tasks {
namespace {

void replace_all(std::string& text, std::string_view old, std::string_view by) {
  for (std::size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + by.size()))
    text.replace(at, old.size(), by);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }
// All punctuation of ASCII but the apostrophe, stops and the dash.
bool stands_alone(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

// Rewrites pairs of characters from left to right; a character belongs to one pair at most.
template <typename Applies, typename Write>
std::string rewrite_pairs(const std::string& line, const Applies& applies, const Write& write) {
  std::string result;
  std::size_t i = 0;
  while (i < line.size()) {
    if (i + 1 < line.size() && applies(line[i], line[i + 1])) {
      write(result, line[i], line[i + 1]);
      i += 2;
    } else {
      result += line[i++];
    }
  }
  return result;
}

using Ngrams = std::map<std::vector<std::string_view>, int>;

Ngrams ngrams_of(std::span<const std::string> words, std::size_t order) {
  Ngrams ngrams;
  for (std::size_t i = 0; i + order <= words.size(); ++i)
    ++ngrams[{words.begin() + static_cast<std::ptrdiff_t>(i), words.begin() + static_cast<std::ptrdiff_t>(i + order)}];
  return ngrams;
}

}  // namespace

std::vector<std::string> words_as_13a(std::string_view given) {
  std::string line(given);
  replace_all(line, "<skipped>", "");
  replace_all(line, "&quot;", "\"");
  replace_all(line, "&amp;", "&");
  replace_all(line, "&lt;", "<");
  replace_all(line, "&gt;", ">");

  std::string spaced = " ";
  for (const char c : line) stands_alone(c) ? spaced.append({' ', c, ' '}) : spaced.append({c});
  spaced += ' ';
  spaced = rewrite_pairs(
      spaced, [](char a, char b) { return !is_digit(a) && is_stop(b); },
      [](std::string& to, char a, char b) {
        to.append({a, ' ', b, ' '});
      });
  spaced = rewrite_pairs(
      spaced, [](char a, char b) { return is_stop(a) && !is_digit(b); },
      [](std::string& to, char a, char b) {
        to.append({' ', a, ' ', b});
      });
  spaced = rewrite_pairs(
      spaced, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& to, char a, char b) {
        to.append({a, ' ', b, ' '});
      });
  const auto words = words_of(spaced);
  return {words.begin(), words.end()};
}

BleuCounts& BleuCounts::operator+=(const BleuCounts& other) {
  words += other.words;
  reference_words += other.reference_words;
  for (std::size_t i = 0; i < kOrders; ++i) {
    matches[i] += other.matches[i];
    ngrams[i] += other.ngrams[i];
  }
  return *this;
}

BleuCounts count_for_bleu(std::string_view translation, std::string_view reference) {
  const auto words = words_as_13a(translation), expected = words_as_13a(reference);
  BleuCounts counts{.words = static_cast<double>(words.size()),
                    .reference_words = static_cast<double>(expected.size())};
  for (std::size_t order = 1; order <= BleuCounts::kOrders; ++order) {
    const Ngrams there = ngrams_of(expected, order);
    for (const auto& [ngram, count] : ngrams_of(words, order)) {
      const auto found = there.find(ngram);
      counts.ngrams[order - 1] += count;
      counts.matches[order - 1] += found == there.end() ? 0 : std::min(count, found->second);
    }
  }
  return counts;
}

double bleu(const BleuCounts& counts) {
  if (std::ranges::all_of(counts.matches, [](double count) { return count == 0; })) return 0;
  double logarithms = 0, smoothing = 1;
  for (std::size_t i = 0; i < BleuCounts::kOrders; ++i) {
    if (counts.ngrams[i] == 0) return 0;
    // An order without a match counts as half a match, the next as a quarter, and so on.
    const double matches = counts.matches[i] > 0 ? counts.matches[i] : 1 / (smoothing *= 2);
    logarithms += base::portable_log(matches / counts.ngrams[i]);
  }
  const double brevity = std::min(0.0, 1 - counts.reference_words / counts.words);
  return 100 * base::portable_exp(brevity + logarithms / BleuCounts::kOrders);
}

}  // namespace flockstep::tasks
