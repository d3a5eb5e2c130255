#include <set>

#include "base/random.h"
#include "tasks/translation/parallel_text.h"

namespace flockstep::tasks {
namespace {

constexpr std::uint64_t kSeed = 1913;  // of all runs: the sentences are a fixed set
constexpr std::size_t kTrain = 20000, kValidation = 500, kTest = 500;
constexpr std::uint32_t kMostDigits = 6;

using Numbers = std::vector<std::uint32_t>;

// Every number of digits is as likely as any other: were all numbers, almost all would have six digits.
std::uint32_t draw_number(base::Random& random) {
  std::uint32_t bound = 10;
  for (std::uint32_t more = random.below(kMostDigits); more > 0; --more) bound *= 10;
  return bound == 10 ? random.below(10) : bound / 10 + random.below(bound - bound / 10);
}

Numbers draw_sentence(const NumberSentences& options, base::Random& random) {
  Numbers numbers(1 + random.below(static_cast<std::uint32_t>(options.most_numbers)));
  for (std::uint32_t& number : numbers) number = draw_number(random);
  return numbers;
}

// Of lone numbers below a thousand there are so few that training meets them all: those of one and two digits are for
// training only, and a tenth of those of three for evaluations only.
bool may_be_trained(const Numbers& numbers) {
  return numbers.size() > 1 || numbers[0] < 100 || numbers[0] >= 1000 || numbers[0] * 37 % 101 >= 10;
}
bool may_be_evaluated(const Numbers& numbers) {
  return numbers.size() > 1 || numbers[0] >= 1000 || !may_be_trained(numbers);
}

SentencePair sentence_of(const Numbers& numbers, Spelling spelling) {
  SentencePair pair;
  for (const std::uint32_t number : numbers) {
    const std::string_view between = pair.source.empty() ? "" : ", ";
    pair.source.append(between).append(english_number(number, spelling));
    pair.target.append(between).append(german_number(number, spelling));
  }
  return pair;
}

}  // namespace

ParallelText generate_number_sentences(const NumberSentences& options) {
  base::Random random(kSeed, base::Purpose::fixed_data);
  ParallelText text;
  std::set<Numbers> kept_aside;
  const auto add = [&](std::vector<SentencePair>& part, std::size_t count) {
    while (part.size() < count) {
      const Numbers numbers = draw_sentence(options, random);
      const bool trains = &part == &text.train;
      if (trains ? kept_aside.contains(numbers) || !may_be_trained(numbers) : !may_be_evaluated(numbers)) continue;
      if (!trains) kept_aside.insert(numbers);
      part.push_back(sentence_of(numbers, options.spelling));
    }
  };
  add(text.test, kTest);
  add(text.validation, kValidation);
  add(text.train, kTrain);
  return text;
}

}  // namespace flockstep::tasks
