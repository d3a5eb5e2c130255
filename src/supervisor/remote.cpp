#include "supervisor/remote.h"

#include <fmt/format.h>

#include "flockstep/error.h"

namespace flockstep::supervisor {
namespace {

// What a socket takes without anybody reading, on any Linux.
constexpr std::size_t kLongestScript = 100 << 10;

// The whole is one command of the shell, which has read it all before it runs: what follows on its input is for `read`.
//
// The worker runs in the foreground, for a shell lets its background commands ignore Ctrl-C. It tells its number and
// becomes the command; what is right of that pipe passes on signals until the status follows.
//
// Descriptors: 3 and 4 are the worker's output and errors, 5 carries its status out of the pipelines, 6 is the shell's
// output, 7 its input. Behind 3 and 4, the first cat ends when its reader does; the second drains what comes then.
constexpr std::string_view kScript = R"(flockstep_worker() {{
for found in $(grep -lzx {id} /proc/[0-9]*/environ 2> /dev/null); do
  found=${{found#/proc/}}
  kill -s KILL "${{found%/environ}}" 2> /dev/null
done
cd {folder} 2> /dev/null || echo 'flockstep: there is no folder '{folder}' here: the worker starts in its home folder' >&2
{exports}
set -- sh -c 'echo $$; exec "$@" >&3 2>&4 3>&- 4>&-' sh {command}
command -v setsid > /dev/null && set -- setsid "$@"
exec 6>&1
status=$({{ {{ {{
  exec 7<&0
  {{ "$@" < /dev/null 5>&- 6>&- 7<&-; echo $?; }} | {{
    read -r worker
    while read -r number; do
      kill -s "$number" -- -"$worker" 2> /dev/null || kill -s "$number" "$worker" 2> /dev/null
    done <&7 3>&- 4>&- 5>&- 6>&- &
    reader=$!
    read -r status
    [ "$status" = 0 ] || kill -s KILL -- -"$worker" 2> /dev/null
    kill "$reader"
    echo "$status" >&5
  }}
}} 4>&1 | {{ exec 3>&- 5>&-; cat; exec cat > /dev/null; }} >&2; }} 3>&1 | {{ exec 5>&-; cat; exec cat > /dev/null; }} >&6; }} 5>&1)
exit "$status"
}}
flockstep_worker
)";

}  // namespace

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) letter == '\'' ? text += "'\\''" : text += letter;
  return text + "'";
}

std::string script_of(const RemoteWorker& worker) {
  const std::string id = "FLOCKSTEP_WORKER_ID=" + worker.id;
  std::string exports = "export " + quoted(id), command;
  for (const std::string& variable : worker.variables) exports += " " + quoted(variable);
  for (const std::string& word : worker.command) command += (command.empty() ? "" : " ") + quoted(word);
  const std::string script = fmt::format(kScript, fmt::arg("id", quoted(id)), fmt::arg("folder", quoted(worker.folder)),
                                         fmt::arg("exports", exports), fmt::arg("command", command));
  if (script.size() > kLongestScript)
    throw Error(
        ErrorCode::bad_input,
        fmt::format("the command is too long to be started on another host: {} KiB at most", kLongestScript >> 10));
  return script;
}

}  // namespace flockstep::supervisor
