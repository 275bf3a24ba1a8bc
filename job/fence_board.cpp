#include "job/fence_board.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/printable.hpp"
#include "job/json_line.hpp"

namespace verbena::job {
namespace {

using nlohmann::json;

constexpr std::size_t kShownBytes = 200;  // of a line in an error

absl::Status broke_the_rules(std::string_view who, std::string_view line) {
  return absl::InvalidArgumentError(fmt::format("{} said what it should not: {}{}", who,
                                                base::printable(line.substr(0, kShownBytes)),
                                                line.size() > kShownBytes ? "…" : ""));
}

std::string go_line() {
  return line_of({{"go", true}});
}

std::string told_line(std::uint32_t rank, const std::string& key, const std::string& value) {
  return line_of({{"rank", rank}, {"key", key}, {"value", value}});
}

}  // namespace

std::optional<FencePut> put_in(const json& line) {
  std::optional<std::string> key = text_in(line, "put");
  std::optional<std::string> value = text_in(line, "value");
  if (!key || !value) return std::nullopt;
  return FencePut{.key = *std::move(key), .value = *std::move(value)};
}

bool is_fence(const json& line) {
  return has(line, "fence");
}

bool is_go(const json& line) {
  return has(line, "go");
}

// --- a process's side

std::string FenceNotes::put_line(const std::string& key, const std::string& value) {
  return line_of({{"put", key}, {"value", value}});
}

std::string FenceNotes::fence_line() {
  return line_of({{"fence", true}});
}

absl::StatusOr<bool> FenceNotes::take(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (is_go(object)) return true;
  const std::optional<std::uint32_t> rank = number_in(object, "rank");
  std::optional<std::string> key = text_in(object, "key");
  std::optional<std::string> value = text_in(object, "value");
  if (!rank || *rank >= size_ || !key || !value) return broke_the_rules("who hosts the rendezvous", line);
  values_[{*rank, *std::move(key)}] = *std::move(value);
  return false;
}

absl::StatusOr<std::string> FenceNotes::get(std::uint32_t rank, const std::string& key) const {
  const auto found = values_.find({rank, key});
  if (found == values_.end())
    return absl::NotFoundError(fmt::format("process {} has not told its {}", rank, key));
  return found->second;
}

std::string FenceNotes::lines() const {
  std::string all;
  for (const auto& [place, value] : values_) all += told_line(place.first, place.second, value);
  return all + go_line();
}

// --- the host's side

absl::Status FenceBoard::take(std::uint32_t rank, std::string_view line) {
  if (rank >= is_at_fence_.size()) is_at_fence_.resize(rank + 1, false);
  const json object = json::parse(line, nullptr, false);
  if (is_fence(object) && !is_at_fence_[rank]) {
    is_at_fence_[rank] = true;
    return absl::OkStatus();
  }
  const std::optional<FencePut> put = put_in(object);
  if (!put) return broke_the_rules(fmt::format("process {}", rank), line);
  tell(rank, put->key, put->value);
  return absl::OkStatus();
}

void FenceBoard::tell(std::uint32_t rank, const std::string& key, const std::string& value) {
  news_ += told_line(rank, key, value);
}

std::optional<std::string> FenceBoard::let_go() {
  const auto end = is_at_fence_.begin() + size_;
  if (!std::all_of(is_at_fence_.begin(), end, [](bool is_there) { return is_there; })) return std::nullopt;
  std::fill(is_at_fence_.begin(), end, false);
  have_met_ = true;
  said_ += news_;
  return std::exchange(news_, {}) + go_line();
}

std::optional<std::string> FenceBoard::let_go_late(std::uint32_t rank) {
  if (!have_met_ || rank < size_ || !is_at_fence(rank)) return std::nullopt;
  is_at_fence_[rank] = false;
  return let_go_late();
}

std::string FenceBoard::let_go_late() const {
  return said_ + go_line();
}

void FenceBoard::take_over(std::string said) {
  std::fill(is_at_fence_.begin(), is_at_fence_.end(), false);
  news_.clear();
  said_ = std::move(said);
  have_met_ = true;
}

void FenceBoard::tell_late(std::uint32_t rank, const std::string& key, const std::string& value) {
  said_ += told_line(rank, key, value);
}

}  // namespace verbena::job
