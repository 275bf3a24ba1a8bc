#include "protocol/admission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "protocol/named_parameters.hpp"
#include "protocol/placement.hpp"
#include "protocol/random_bits.hpp"
#include "protocol/sparse_index.hpp"

namespace verbena::protocol {
namespace {

constexpr std::string_view kTheAdmission = "the admission";
constexpr NamedParameter kCount[] = {{.name = "least", .usual = 2, .least = 1, .most = 255}};
constexpr NamedParameter kProbability[] = {{.name = "p", .usual = 0.1, .least = 0, .most = 1}};

/// With more keys, more than one key in two hundred is taken for one that has come before.
constexpr std::uint64_t kCountersAKey = 16;
constexpr std::uint32_t kMostShift = 24;
/// The hint may be any number: more sketches are made if the keys come.
constexpr std::uint32_t kMostFirstShift = 8;

}  // namespace

absl::StatusOr<AdmissionRule> AdmissionRule::find(std::string_view text, std::uint64_t seed) {
  const absl::StatusOr<NamedParameters> named = NamedParameters::parse(kTheAdmission, text);
  if (!named.ok()) return named.status();
  AdmissionRule rule;
  if (named->name == kAdmitAlways) {
    const auto none = named->values_of(kTheAdmission, {});
    if (!none.ok()) return none.status();
  } else if (named->name == "count") {
    const auto values = named->values_of(kTheAdmission, kCount);
    if (!values.ok()) return values.status();
    if ((*values)[0] != std::floor((*values)[0]))
      return absl::InvalidArgumentError(
          fmt::format("least of {} is {}, no whole number", text, (*values)[0]));
    rule.least_ = static_cast<std::uint32_t>((*values)[0]);
  } else if (named->name == "probability") {
    const auto values = named->values_of(kTheAdmission, kProbability);
    if (!values.ok()) return values.status();
    rule.probability_ = (*values)[0];
    rule.seed_ = random_bits(~seed);
  } else {
    return absl::InvalidArgumentError(fmt::format(
        "{} \"{}\": expected always, count(least=NUMBER) or probability(p=NUMBER)", kTheAdmission, text));
  }
  return rule;
}

bool AdmissionRule::draws(Key key, const PushOrigin& origin) const {
  const std::uint64_t when = random_bits(static_cast<std::uint64_t>(origin.clock) << 13 ^ origin.worker);
  return random_fraction(random_bits(random_bits(seed_ ^ key) ^ when)) < probability_;
}

Admission::Admission(const AdmissionRule& rule, std::uint64_t expected) : rule_(rule) {
  if (rule.least() == 1) return;
  parts_.resize(SparsePlacement::kParts);
  counter_bits_ = rule.least() <= 4 ? 2 : rule.least() <= 16 ? 4 : 8;
  const std::uint64_t lines =
      expected / SparsePlacement::kParts / (CountMin::kLineBits / counter_bits_ / kCountersAKey);
  first_shift_ = std::min(static_cast<std::uint32_t>(std::bit_width(lines)), kMostFirstShift);
}

std::size_t Admission::bytes() const {
  std::size_t bytes = parts_.size() * sizeof(Part);
  for (const Part& part : parts_) {
    for (const CountMin& counts : part.counts) bytes += counts.bytes();
  }
  return bytes;
}

namespace {

/// Before a part's sketches, each of which is its form and its counters.
struct SavedPart {
  std::uint32_t part = 0;
  std::uint32_t sketches = 0;
  std::uint64_t keys = 0;
};

struct SavedForm {
  std::uint32_t shift = 0;
  std::uint32_t counter_bits = 0;  ///< 0: 8, in checkpoints of versions that had no others
};

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Takes the next bytes off; false if there are not so many.
bool take_bytes(std::span<const std::byte>& from, std::span<std::byte> to) {
  if (from.size() < to.size()) return false;
  std::memcpy(to.data(), from.data(), to.size());
  from = from.subspan(to.size());
  return true;
}

template <class Value>
std::span<std::byte> bytes_of(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

std::vector<std::byte> Admission::save() const {
  std::vector<std::byte> saved;
  for (std::uint32_t number = 0; number < parts_.size(); ++number) {
    const Part& part = parts_[number];
    if (part.counts.empty()) continue;
    SavedPart header{number, static_cast<std::uint32_t>(part.counts.size()), part.keys};
    append(saved, bytes_of(header));
    for (const CountMin& counts : part.counts) {
      SavedForm form{.shift = counts.shift(), .counter_bits = counts.counter_bits()};
      append(saved, bytes_of(form));
      append(saved, counts.memory());
    }
  }
  return saved;
}

absl::Status Admission::load(std::span<const std::byte> saved, KeyRange parts) {
  const auto wrong = [] {
    return absl::InvalidArgumentError("expected counts of keys that have no rows yet, found something else");
  };
  if (parts_.empty()) return absl::OkStatus();
  while (!saved.empty()) {
    SavedPart header;
    if (!take_bytes(saved, bytes_of(header)) || header.part >= parts_.size()) return wrong();
    Part part{.keys = header.keys};
    for (std::uint32_t i = 0; i < header.sketches; ++i) {
      SavedForm form;
      if (!take_bytes(saved, bytes_of(form)) || form.shift > kMostShift ||
          saved.size() >> 6 >> form.shift == 0)
        return wrong();
      if (form.counter_bits == 0) form.counter_bits = 8;
      if (form.counter_bits != 2 && form.counter_bits != 4 && form.counter_bits != 8) return wrong();
      if (!take_bytes(saved, part.counts.emplace_back(form.counter_bits, form.shift).memory()))
        return wrong();
    }
    if (parts.contains(header.part)) parts_[header.part] = std::move(part);
  }
  return absl::OkStatus();
}

bool Admission::count(Key key) {
  Part& part = parts_[KeyHash(key).part()];
  if (part.counts.empty()) part.counts.emplace_back(counter_bits_, first_shift_);
  const std::uint64_t hash = random_bits(key);
  std::uint32_t times = 0;
  for (std::size_t i = 0; i + 1 < part.counts.size(); ++i) times += part.counts[i].estimate(hash);
  CountMin& newest = part.counts.back();
  const std::uint32_t newly = newest.add(hash);
  times += newly;
  const std::uint64_t most_keys = newest.lines() * newest.counters_a_line() / kCountersAKey;
  if (newly == 1 && ++part.keys == most_keys && newest.shift() < kMostShift) {
    part.counts.emplace_back(counter_bits_, newest.shift() + 1);
    part.keys = 0;
  }
  return times >= rule_.least();
}

}  // namespace verbena::protocol
