#include "command/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
// The one file that pays for this header.
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "command/arguments.h"
#include "flockstep/error.h"

namespace flockstep::command {
namespace {

// Commands that have options of their own in a section of that name.
constexpr std::array<std::string_view, 2> kSections{"train", "compare"};

constexpr std::size_t kMostBytes = 1 << 20;

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::bad_input, sentence); }

// A device may never end; a pipe, as shells make of <(...), does.
std::string read(const std::string& path) {
  std::error_code code;
  const auto type = std::filesystem::status(path, code).type();
  if (std::filesystem::exists(path, code) && type != std::filesystem::file_type::regular &&
      type != std::filesystem::file_type::fifo)
    refuse(fmt::format("--config: cannot read {}: it is not a file", path));
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) refuse(fmt::format("--config: cannot read {}: {}", path, std::strerror(errno)));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostBytes)
    refuse(fmt::format("--config: {} holds more than {} KiB: options take less", path, kMostBytes >> 10));
  return text;
}

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string: return "text";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number with a fraction";
    case toml::node_type::boolean: return "true or false";
    case toml::node_type::array: return "a list";
    case toml::node_type::table: return "a table";
    default: return "a date or time";
  }
}

// As one would write it on the command line; nothing for what cannot be written there.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{:#}", number->get());  // 4.0 is no 4
  if (const auto* answer = node.as_boolean()) return answer->get() ? "yes" : "no";
  if (!node.is_array()) return std::nullopt;
  std::vector<std::string> texts;
  for (const toml::node& each : *node.as_array()) {
    const auto text = each.is_array() ? std::nullopt : text_of(each);
    if (!text) return std::nullopt;
    texts.push_back(*text);
  }
  return fmt::format("{}", fmt::join(texts, ","));
}

// What an option takes instead of the node, or nothing if that will do as far as its type goes.
std::string_view wanted_instead(const CLI::Option& option, const toml::node& node) {
  const std::string type = option.get_type_name();
  const bool has_owner = option.get_lnames()[0].find('.') != std::string::npos;  // whose words may be yes and no
  if (option.get_items_expected_max() == 0) return node.is_boolean() ? "" : "true or false";
  if (type.starts_with("INT") || type.starts_with("UINT")) return node.is_integer() ? "" : "a whole number";
  if (type.starts_with("FLOAT")) return node.is_number() ? "" : "a number";
  if (node.is_boolean() && !has_owner) return "a value";
  return text_of(node) ? "" : "a value or a list of values";
}

class ConfigFile {
 public:
  ConfigFile(CLI::App& command, const std::string& path) : command_(command), path_(path) {}

  void apply() {
    toml::table all;
    try {
      all = toml::parse(read(path_), path_);
    } catch (const toml::parse_error& error) {
      refuse_at(error.source(), error.description());
    }
    toml::table own;  // goes last, so that it wins
    for (const std::string_view section : kSections) {
      toml::table* table = all[section].as_table();
      if (table && section == command_.get_name()) own = std::move(*table);
      if (table) all.erase(section);
    }
    set_all(all, "");
    set_all(own, "");
  }

 private:
  [[noreturn]] void refuse_at(const toml::source_region& place, std::string_view sentence) const {
    refuse(fmt::format("{}:{}:{}: {}", path_, place.begin.line, place.begin.column, sentence));
  }

  void set_all(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      if (node.is_table() && !find(name))
        set_all(*node.as_table(), name + ".");
      else
        set(name, key.source(), node);
    }
  }

  CLI::Option* find(const std::string& name) const { return command_.get_option_no_throw("--" + name); }

  void set(const std::string& name, const toml::source_region& place, const toml::node& node) {
    CLI::Option* option = find(name);
    if (name == "config") refuse_at(place, "config leads to another file: give it on the command line");
    if (!option || option == command_.get_help_ptr()) refuse_at(place, unknown_flag_sentence(command_, "--" + name));
    if (const auto wanted = wanted_instead(*option, node); !wanted.empty())
      refuse_at(node.source(), fmt::format("{} takes {}, not {}", name, wanted, kind_of(node)));
    const bool is_flag = node.is_boolean() && option->get_items_expected_max() == 0;
    const std::string value = is_flag ? (*node.value<bool>() ? "true" : "false") : *text_of(node);
    if (value.empty()) refuse_at(node.source(), fmt::format("{} has no value", name));
    try {
      option->add_result(value);
      option->run_callback();
    } catch (const CLI::Error& error) {
      refuse_at(node.source(), in_our_words(error));
    } catch (const Error& error) {
      refuse_at(node.source(), error.what());
    }
    option->clear();  // so that the command line begins anew, and count() tells what was given there
  }

  CLI::App& command_;
  const std::string& path_;
};

}  // namespace

void apply_config_file(CLI::App& command, const std::vector<std::string>& arguments) {
  if (!command.get_option_no_throw("--config")) return;
  std::string path;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].starts_with("--config=")) path = arguments[i].substr(9);
    if (arguments[i] == "--config" && i + 1 < arguments.size()) path = arguments[i + 1];
  }
  if (!path.empty()) ConfigFile(command, path).apply();
}

}  // namespace flockstep::command
