// A study: runs that belong together, made with whatever earlier ones have taught, and the tables that say what came
// of them. It prints nothing and draws nothing; lab/command/study.cpp and the report do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compare/compare.h"

namespace flockstep::study {

struct StudyOptions {
  std::int64_t steps = 0;          // of every run; 0: as many as the study thinks right
  bool quick = false;              // fewer workers and steps: a first impression
  std::filesystem::path folder{};  // for files that runs read, such as step times; it exists
  std::filesystem::path data{};    // of the study's task; empty: what is shipped or generated
  // Of studies that are comparisons (study/comparisons.h).
  std::vector<std::string> scenarios{};   // only these are made; empty: all
  std::vector<std::string> algorithms{};  // instead of the study's own
};

// One run.
struct Cell {
  std::string name;  // such as resnet-wagma-64: no other cell's, and the name of its file
  runs::RunRequest request;
};

// Makes the runs of a study.
class Cells {
 public:
  virtual ~Cells() = default;
  // What came of each. Those that were made before are not made again. May be called as often as there is more to know;
  // `title` is for people who watch. Throws Interrupted, once what was under way has ended.
  virtual std::vector<telemetry::Summary> make(const std::string& title, const std::vector<Cell>& cells) = 0;
  // The same for a comparison, which has a folder of this name: what compare.json holds.
  virtual nlohmann::json compared(const std::string& name, compare::CompareRequest request) = 0;
};
struct Interrupted {};

enum class Mark { line, points };
std::string_view to_string(Mark mark);

struct Series {
  std::string name;  // series of one name share a colour
  Mark mark = Mark::line;
  std::vector<double> x, y;
};

struct Picture {
  std::string title, x_title, y_title;
  bool log_x = true, log_y = true;
  std::vector<Series> series;
  std::vector<std::string> x_names{};  // of the places 0, 1, ... on the axis, where these are no numbers
};

struct StudyTable {
  std::string name;   // of its picture's file
  std::string title;  // one sentence without its full stop
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // as people read them
  nlohmann::json figures;                      // the same in full
  Picture picture;
};

struct StudyResult {
  std::vector<StudyTable> tables;
  std::vector<std::string> words;  // sentences to end with
  nlohmann::json how;              // what was assumed or fitted
};
nlohmann::json to_json(const StudyResult& result);

}  // namespace flockstep::study
