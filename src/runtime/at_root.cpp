#include "runtime/at_root.h"

#include "runtime/gather.h"

namespace flockstep::runtime {

std::string at_root(Context& context, const std::function<std::string()>& body) {
  std::string told;  // a failure's code in the first letter, or a blank, then the text
  if (context.rank() == 0) try {
      told = " " + body();
    } catch (const Error& error) {
      told = static_cast<char>('0' + static_cast<int>(error.code())) + std::string(error.what());
    }
  told = broadcast_text(context, told);
  if (told[0] != ' ')
    throw Error(static_cast<ErrorCode>(told[0] - '0'), told.substr(1), std::string(context.engine().name()));
  return told.substr(1);
}

}  // namespace flockstep::runtime
