// Wrong calls of the launcher, and who is started where.
#include "supervisor/options.h"

#include <gtest/gtest.h>

#include <functional>

#include "flockstep/error.h"
#include "supervisor/remote.h"
#include "support/refusal.h"

namespace flockstep::supervisor {
namespace {

Options some_options() {
  Options options;
  options.workers = 4;
  options.command = {"python", "train.py"};
  return options;
}

TEST(LaunchOptions, thatCannotBeMeantAreRefusedAndOthersTaken) {
  using Names = std::vector<std::string>;
  const std::pair<std::string, std::function<void(Options&)>> cases[] = {
      {"", [](Options&) {}},  // these three are fine
      {"",
       [](Options& o) {
         o.hosts = Names{"a", "me@b.example.org", "10.0.0.3"};
       }},
      {"", [](Options& o) { o.join = "a.b:4000", o.secret_file = "secret"; }},
      {"after --, such as `-- python train.py`", [](Options& o) { o.command.clear(); }},
      {"needs --workers", [](Options& o) { o.workers = 0; }},
      {"--workers takes a whole number from 1 to 4096, not -1", [](Options& o) { o.workers = -1; }},
      {"--restarts takes a whole number from 0 to 1000000, not -1", [](Options& o) { o.restarts = -1; }},
      {"--port takes a whole number from 0 to 65535, not 65536", [](Options& o) { o.port = 65536; }},
      {"--heartbeat takes a time such as 320ms, 1.5s or 50us, not '5'", [](Options& o) { o.heartbeat = "5"; }},
      {"--heartbeat takes a time from 100ms to 3600s, not 1ms", [](Options& o) { o.heartbeat = "1ms"; }},
      {"--hosts takes names such as a,b or user@a, not ''",
       [](Options& o) {
         o.hosts = Names{"a", ""};
       }},
      {"--hosts takes names such as a,b or user@a, not '-oP=x'", [](Options& o) { o.hosts = {"-oP=x"}; }},
      {"1 worker cannot be spread over 2 hosts",
       [](Options& o) {
         o.hosts = Names{"a", "b"}, o.workers = 1;
       }},
      {"--join takes host:port", [](Options& o) { o.join = "a", o.secret_file = "s"; }},
      {"the port in --join", [](Options& o) { o.join = "a:0", o.secret_file = "s"; }},
      {"--secret-file", [](Options& o) { o.join = "a:1"; }},
      {"leave one of them out", [](Options& o) { o.join = "a:1", o.secret_file = "s", o.port = 5; }}};
  for (const auto& [words, change] : cases) {
    SCOPED_TRACE(words);
    Options options = some_options();
    change(options);
    const std::string said = test::refusal([&] { check(options); });
    EXPECT_NE(said.find(words), std::string::npos) << said;
    EXPECT_EQ(said.empty(), words.empty()) << said;
  }
}

TEST(LaunchOptions, spreadWorkersInBlocks) {
  Options options = some_options();
  EXPECT_EQ(host_of(options, 3), "");
  options.hosts = {"a", "b", "c"};
  options.workers = 7;
  std::string hosts;
  for (int i = 0; i < options.workers; ++i) hosts += host_of(options, i);
  EXPECT_EQ(hosts, "aaabbcc");
}

TEST(LaunchOptions, tellWorkersTheirPlaceOnTheirHost) {
  Options options = some_options();
  options.workers = 7;
  EXPECT_EQ(place_of(options, 4).number, 4);
  EXPECT_EQ(place_of(options, 4).workers, 7);
  options.hosts = {"a", "b", "c"};
  std::string places;
  for (int i = 0; i < options.workers; ++i)
    places += std::to_string(place_of(options, i).number) + "/" + std::to_string(place_of(options, i).workers) + " ";
  EXPECT_EQ(places, "0/3 1/3 2/3 0/2 1/2 0/2 1/2 ");
}

TEST(RemoteScript, quotesWhateverIsInAWord) {
  EXPECT_EQ(quoted("it's $HOME `x` \n"), "'it'\\''s $HOME `x` \n'");
  EXPECT_EQ(quoted(""), "''");
}

TEST(RemoteScript, refusesWhatIsTooLong) {
  EXPECT_THROW(script_of({.id = "a.0", .folder = "/", .variables = {}, .command = {std::string(200'000, 'x')}}), Error);
}

}  // namespace
}  // namespace flockstep::supervisor
