// What a shell asks while a line is typed: which words may come next. The answers are read off the options as they are
// declared, whose type names say what a value may be; so there is no second list that could be out of date.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace flockstep::command {

// The first word of a shell's call; what is typed after `flockstep` follows, up to the word that the cursor is in.
constexpr const char* kComplete = "__complete";

// Type names of options. Several words with | between them are all that an option takes.
constexpr const char *kTask = "TASK", *kAlgorithm = "ALGORITHM", *kAlgorithms = "ALGORITHM,...", *kEngine = "ENGINE",
                     *kNetwork = "NETWORK", *kStudy = "STUDY", *kFile = "FILE", *kFolder = "DIR";

// Prints which paths may come next ("none", "files" or "folders"), then a line for each word that may: the word, a tab
// and what it means.
int complete(const CLI::App& app, std::vector<std::string> words);

}  // namespace flockstep::command
