#include "engines/failure_message.h"

#include <algorithm>
#include <iterator>

namespace flockstep::engines {

std::vector<std::byte> failure_message(const Error& error) {
  const std::string_view sentence = std::string_view(error.what()).substr(0, kControlBytes - 1);
  std::vector<std::byte> message{static_cast<std::byte>(error.code())};
  std::ranges::transform(sentence, std::back_inserter(message), [](char letter) { return std::byte(letter); });
  return message;
}

std::optional<Error> failure_in(ConstBytes message, std::string_view engine) {
  if (message.empty() || message.size() > kControlBytes || message[0] > static_cast<std::byte>(ErrorCode::bad_file))
    return std::nullopt;
  std::string sentence;
  for (const std::byte letter : message.subspan(1)) sentence += static_cast<char>(letter);
  return Error(static_cast<ErrorCode>(message[0]), sentence, std::string(engine));
}

}  // namespace flockstep::engines
