#include "runtime/gather.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "base/hash.h"

namespace flockstep::runtime {
namespace {

constexpr engines::Tag kGatherTag = engines::kMaximalTag;

// Through buffers of the engine's memory, which outlive a transfer that can no longer be waited for.
template <typename T>
std::vector<T> gather(Context& context, std::span<const T> mine) {
  const auto size = static_cast<std::size_t>(context.size()), rank = static_cast<std::size_t>(context.rank());
  auto all = context.engine().memory().allocate<T>(mine.size() * size, "gathering");
  std::vector<engines::Bytes> receive;
  for (std::size_t peer = 0; peer < size; ++peer)
    receive.push_back(engines::bytes_of(all.span().subspan(peer * mine.size(), mine.size())));
  const auto own = all.span().subspan(rank * mine.size(), mine.size());
  std::ranges::copy(mine, own.begin());
  context.wait(context.engine().all_gather(engines::const_bytes_of(own), receive, engines::Traffic::figures), "gather");
  return {all.span().begin(), all.span().end()};
}

// Of any lengths: padded to the longest on their way.
template <typename T>
std::vector<std::vector<T>> gather_lists(Context& context, std::span<const T> mine) {
  const std::uint64_t length = mine.size();
  const auto lengths = gather<std::uint64_t>(context, {&length, 1});
  std::vector<T> padded(mine.begin(), mine.end());
  padded.resize(std::ranges::max(lengths));
  const auto all = gather<T>(context, padded);
  std::vector<std::vector<T>> lists;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * padded.size());
    lists.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(lengths[rank]));
  }
  return lists;
}

std::optional<std::string> value_of(const Agreed& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &Agreed::value_type::first);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

void refuse_difference(Context& context, const std::string& name, const std::vector<Agreed>& all) {
  const auto expected = value_of(all[0], name);
  std::vector<std::size_t> differing;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (value_of(all[rank], name) != expected) differing.push_back(rank);
  if (differing.empty()) return;
  const bool several = differing.size() > 1;
  throw Error(
      ErrorCode::mismatch,
      fmt::format("worker{} {} ha{} {} {} where worker 0 has {}: all workers must be started alike", several ? "s" : "",
                  fmt::join(differing, ", "), several ? "ve" : "s", name,
                  value_of(all[differing[0]], name).value_or("at its default"), expected.value_or("it at its default")),
      std::string(context.engine().name()));
}

}  // namespace

std::vector<double> gather_doubles(Context& context, std::span<const double> mine) {
  return gather<double>(context, mine);
}

std::vector<double> gather_records(Context& context, std::span<const double> mine) {
  std::vector<double> all;
  for (const auto& each : gather_lists(context, mine)) all.insert(all.end(), each.begin(), each.end());
  return all;
}

std::vector<std::string> gather_texts(Context& context, const std::string& mine) {
  std::vector<std::string> texts;
  for (const auto& each : gather_lists<char>(context, mine)) texts.emplace_back(each.begin(), each.end());
  return texts;
}

std::vector<std::vector<std::byte>> gather_at_root(Context& context, std::span<const std::byte> mine) {
  const std::uint64_t length = mine.size();
  const auto lengths = gather<std::uint64_t>(context, {&length, 1});
  const auto buffer_of = [&](std::size_t bytes) {
    return context.engine().memory().allocate<std::byte>(bytes, "gathering");
  };
  if (context.rank() != 0) {
    const auto copy = buffer_of(mine.size());
    std::ranges::copy(mine, copy.span().begin());
    context.wait(context.engine().send(0, kGatherTag, copy.span()), "gather");
    return {};
  }
  std::vector<std::vector<std::byte>> all;
  all.emplace_back(mine.begin(), mine.end());
  for (int rank = 1; rank < context.size(); ++rank) {
    const auto theirs = buffer_of(lengths[static_cast<std::size_t>(rank)]);
    context.wait(context.engine().receive(rank, kGatherTag, theirs.span()), "gather");
    all.emplace_back(theirs.span().begin(), theirs.span().end());
  }
  return all;
}

std::string broadcast_text(Context& context, const std::string& text) {
  const std::uint64_t length = text.size();
  const auto bytes =
      context.engine().memory().allocate<char>(gather<std::uint64_t>(context, {&length, 1})[0], "telling");
  if (context.rank() == 0) std::ranges::copy(text, bytes.span().begin());
  context.wait(context.engine().broadcast(engines::bytes_of(bytes.span()), 0), "telling");
  return {bytes.span().begin(), bytes.span().end()};
}

std::string unequal_steps(int rank, std::int64_t steps, int other, std::int64_t other_steps) {
  if (rank < other) return unequal_steps(other, other_steps, rank, steps);
  return fmt::format(
      "worker {} has done {} steps where worker {} has done {}: all workers must do the same number before "
      "they consolidate, or leave",
      rank, steps, other, other_steps);
}

void check_same_steps(Context& context, std::span<const std::optional<std::int64_t>> steps) {
  const auto first = std::ranges::find_if(steps, [](const auto& count) { return count.has_value(); });
  const auto other = std::find_if(first, steps.end(), [&](const auto& count) { return count && *count != **first; });
  if (other == steps.end()) return;
  throw Error(
      ErrorCode::mismatch,
      unequal_steps(static_cast<int>(other - steps.begin()), **other, static_cast<int>(first - steps.begin()), **first),
      std::string(context.engine().name()));
}

void add_settings(Agreed& values, std::string_view owner, const base::Settings& settings) {
  for (const auto& [name, value] : settings) values.emplace_back(fmt::format("{}.{}", owner, name), value);
}

void check_agreement(Context& context, const Agreed& values) {
  const std::string mine = nlohmann::json(values).dump();
  const std::uint64_t hash = base::hash_of(std::span<const char>(mine));
  const auto hashes = gather<std::uint64_t>(context, {&hash, 1});
  if (std::ranges::count(hashes, hash) == context.size()) return;

  std::vector<Agreed> all;
  std::vector<std::string> names;  // worker 0's in its order, then those that only others have
  for (const std::string& text : gather_texts(context, mine)) {
    all.push_back(nlohmann::json::parse(text).get<Agreed>());
    for (const auto& [name, value] : all.back())
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  for (const std::string& name : names) refuse_difference(context, name, all);
  base::check(false, "workers that pass the same values in the same order");
}

}  // namespace flockstep::runtime
