#include "support/refusal.h"

#include <gtest/gtest.h>

#include <iterator>
#include <regex>

namespace flockstep::test {
namespace {

void expect_one_or_two_sentences(const std::string& text) {
  static const std::regex whole(R"(\S([^\n]*[^\s,;:])?)"), end_inside("[.!?] [A-Z]");
  EXPECT_TRUE(std::regex_match(text, whole)) << "'" << text << "' is no sentence on one line";
  EXPECT_LE(std::distance(std::sregex_iterator(text.begin(), text.end(), end_inside), {}), 1)
      << "'" << text << "' is more than two sentences";
}

std::optional<Error> error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    expect_one_or_two_sentences(error.what());
    return error;
  }
  return std::nullopt;
}

}  // namespace

std::string refusal(ErrorCode code, const std::function<void()>& action) {
  const std::optional<Error> error = error_of(action);
  if (!error) return "";
  EXPECT_EQ(to_string(error->code()), to_string(code)) << error->what();
  return error->what();
}

std::string refusal(const std::function<void()>& action) { return refusal(ErrorCode::bad_input, action); }

std::optional<ErrorCode> code_of(const std::function<void()>& action) {
  const std::optional<Error> error = error_of(action);
  return error ? std::optional(error->code()) : std::nullopt;
}

void expect_refused(const std::vector<WrongCall>& calls) {
  for (const WrongCall& wrong : calls) {
    SCOPED_TRACE(wrong.word);
    const std::string said = refusal(wrong.code, wrong.call);
    EXPECT_NE(said, "") << "it was taken";
    EXPECT_NE(said.find(wrong.word), std::string::npos) << said;
  }
}

}  // namespace flockstep::test
