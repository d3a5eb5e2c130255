#include "tasks/translation/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace flockstep::tasks {
namespace {

constexpr double kUnlikely = -std::numeric_limits<double>::infinity();

struct Hypothesis {
  Tokens tokens;
  double logarithm;
  std::int64_t row;  // in the last call
};

struct Extension {
  double logarithm;
  std::size_t parent;
  Token token;

  bool operator<(const Extension& other) const {  // better; ties go the same way everywhere
    if (logarithm != other.logarithm) return logarithm > other.logarithm;
    return parent != other.parent ? parent < other.parent : token < other.token;
  }
};

// The beam of one sentence: in each step the best continuations, of which those that end leave it.
class Beam {
 public:
  Beam(const SearchOptions& options, std::size_t longest, std::int64_t first_row)
      : options_(options), longest_(longest), live_{{{}, 0, first_row}} {}

  const std::vector<Hypothesis>& live() const { return live_; }
  const Translation& best() const { return best_; }

  // `logarithms` has those of all rows.
  void advance(std::span<const float> logarithms, std::size_t vocabulary) {
    std::vector<Extension> candidates;
    for (std::size_t parent = 0; parent < live_.size(); ++parent) {
      const auto row = logarithms.subspan(static_cast<std::size_t>(live_[parent].row) * vocabulary, vocabulary);
      for (std::size_t token = 0; token < vocabulary; ++token) {
        const double logarithm = live_[parent].logarithm + static_cast<double>(row[token]);
        if (token != kPadding && token != kBegin && logarithm > kUnlikely)
          candidates.push_back({logarithm, parent, static_cast<Token>(token)});
      }
    }
    const std::size_t kept = std::min(candidates.size(), options_.width);
    std::ranges::partial_sort(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(kept), std::less<>());
    std::vector<Hypothesis> next;
    for (const Extension& candidate : std::span(candidates).first(kept)) {
      Hypothesis hypothesis = live_[candidate.parent];
      hypothesis.logarithm = candidate.logarithm;
      if (candidate.token == kEnd) {
        offer(hypothesis, 1);
      } else {
        hypothesis.tokens.push_back(candidate.token);
        next.push_back(std::move(hypothesis));
      }
    }
    live_ = std::move(next);
    if (live_.empty()) return;
    if (live_[0].tokens.size() >= longest_)
      for (const Hypothesis& hypothesis : live_) offer(hypothesis, 0);
    // Logarithms only fall, and no penalty is larger than the longest's.
    const double attainable = score_of(live_[0].logarithm, longest_, options_.length_penalty);
    if (live_[0].tokens.size() >= longest_ || best_.score >= attainable) live_.clear();
  }

  void stand_in_rows_from(std::int64_t first) {
    for (Hypothesis& hypothesis : live_) hypothesis.row = first++;
  }

 private:
  void offer(const Hypothesis& hypothesis, std::size_t ends) {
    const double score = score_of(hypothesis.logarithm, hypothesis.tokens.size() + ends, options_.length_penalty);
    if (score > best_.score) best_ = {hypothesis.tokens, score};
  }

  const SearchOptions& options_;
  std::size_t longest_;
  std::vector<Hypothesis> live_;  // the best first; none: the search has ended
  Translation best_{{}, kUnlikely};
};

}  // namespace

double score_of(double logarithm, std::size_t tokens, double length_penalty) {
  return logarithm / std::pow((5 + static_cast<double>(tokens)) / 6, length_penalty);
}

std::vector<Translation> search(NextToken& model, std::span<const std::size_t> longest, const SearchOptions& options) {
  const std::size_t sentences = longest.size();
  const std::size_t rows = sentences * options.width;
  std::vector<std::int64_t> parents(rows);
  std::iota(parents.begin(), parents.end(), 0);
  Tokens tokens(rows, kBegin);
  std::vector<Beam> beams;
  for (std::size_t i = 0; i < sentences; ++i)
    beams.emplace_back(options, longest[i], static_cast<std::int64_t>(i * options.width));
  const auto goes_on = [](const Beam& beam) { return !beam.live().empty(); };
  while (std::ranges::any_of(beams, goes_on)) {
    const std::span<const float> logarithms = model.logarithms(parents, tokens);
    for (std::size_t i = 0; i < sentences; ++i) {
      Beam& beam = beams[i];
      if (goes_on(beam)) beam.advance(logarithms, logarithms.size() / rows);
      const std::size_t first = i * options.width;
      for (std::size_t j = 0; j < options.width; ++j) {  // rows without a hypothesis go on with anything
        const bool live = j < beam.live().size();
        parents[first + j] = live ? beam.live()[j].row : static_cast<std::int64_t>(first + j);
        tokens[first + j] = live ? beam.live()[j].tokens.back() : kEnd;
      }
      beam.stand_in_rows_from(static_cast<std::int64_t>(first));
    }
  }
  std::vector<Translation> translations;
  for (const Beam& beam : beams) translations.push_back(beam.best());
  return translations;
}

}  // namespace flockstep::tasks
