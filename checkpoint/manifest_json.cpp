#include "checkpoint/manifest_json.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "checkpoint/checksum.hpp"

namespace verbena::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kSumBegin = ",\"checksum\":\"";
constexpr std::string_view kSumEnd = "\"}\n";
constexpr std::size_t kSumBytes = kSumBegin.size() + kChecksumDigits + kSumEnd.size();
static_assert(kSumBytes == 32);

constexpr std::array<std::pair<ChunkKind, std::string_view>, 4> kKinds = {
    {{ChunkKind::kRows, "rows"},
     {ChunkKind::kScatteredRows, "scattered"},
     {ChunkKind::kBlob, "blob"},
     {ChunkKind::kRemovedRows, "removed"}}};

std::uint64_t sum_of(std::string_view text) {
  return checksum_of(std::as_bytes(std::span(text)));
}

json to_json(const ChunkEntry& chunk) {
  json object = {{"number", chunk.number},
                 {"first", chunk.first},
                 {"last", chunk.last},
                 {"rows", chunk.rows},
                 {"offset", chunk.offset},
                 {"bytes", chunk.bytes},
                 {"checksum", checksum_text(chunk.checksum)}};
  for (const auto& [kind, name] : kKinds) {
    if (kind == chunk.kind) object["kind"] = name;
  }
  return object;
}

json to_json(const Part& part) {
  json files = json::array();
  for (const DataFile& file : part.files) {
    json chunks = json::array();
    for (const ChunkEntry& chunk : file.chunks) chunks.push_back(to_json(chunk));
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"checksum", checksum_text(file.checksum)},
                     {"chunks", std::move(chunks)}});
  }
  json blobs = json::array();
  for (const Blob& blob : part.blobs) blobs.push_back({{"name", blob.name}, {"bytes", blob.bytes}});
  return {{"name", part.name}, {"files", std::move(files)}, {"blobs", std::move(blobs)}};
}

json to_json(const Manifest& manifest) {
  json tables = json::array();
  for (const TableEntry& table : manifest.tables)
    tables.push_back({{"number", table.number}, {"name", table.name}, {"description", table.description}});
  json parts = json::array();
  for (const Part& part : manifest.parts) parts.push_back(to_json(part));
  json object = {{"format", kManifestFormat},   {"clock", manifest.clock},     {"run", manifest.run},
                 {"written", manifest.written}, {"program", manifest.program}, {"options", manifest.options},
                 {"tables", std::move(tables)}, {"parts", std::move(parts)}};
  if (manifest.since) object["since"] = *manifest.since;
  return object;
}

/// Thrown by what follows, caught where text is decoded.
struct Malformed {
  std::string message;
};

/// A value in parsed text, which knows where it stands. Belongs to the value that it was taken from, which
/// must outlive it.
class Place {
 public:
  explicit Place(const json& value) : value_(value) {}

  [[nodiscard]] Place at(std::string_view key) const {
    const std::optional<Place> found = find(key);
    if (!found) expected(fmt::format("a field \"{}\"", key));
    return *found;
  }
  [[nodiscard]] std::optional<Place> find(std::string_view key) const {
    if (!value_.is_object()) expected("an object");
    const auto found = value_.find(key);
    if (found == value_.end()) return std::nullopt;
    return Place(*found, this, key, 0);
  }
  /// Calls visit(Place) for each element.
  template <class Visit>
  void for_each(const Visit& visit) const {
    if (!value_.is_array()) expected("a list");
    for (std::size_t i = 0; i < value_.size(); ++i) visit(Place(value_[i], this, {}, i));
  }
  template <class Number = std::uint64_t>
  [[nodiscard]] Number number() const {
    if (!value_.is_number_unsigned() || !std::in_range<Number>(value_.get<std::uint64_t>()))
      expected(fmt::format("a whole number from 0 to {}", std::numeric_limits<Number>::max()));
    return value_.get<Number>();
  }
  [[nodiscard]] const std::string& text() const {
    if (!value_.is_string()) expected("a text");
    return value_.get_ref<const std::string&>();
  }
  [[nodiscard]] std::uint64_t checksum() const {
    const auto checksum = parse_checksum(text());
    if (!checksum) expected("16 hexadecimal digits");
    return *checksum;
  }
  [[nodiscard]] ChunkKind kind() const {
    for (const auto& [kind, name] : kKinds) {
      if (text() == name) return kind;
    }
    expected("rows, scattered, removed or blob");
  }
  [[nodiscard]] const json& value() const { return value_; }

 private:
  Place(const json& value, const Place* parent, std::string_view key, std::size_t index)
      : value_(value), parent_(parent), key_(key), index_(index) {}

  [[noreturn]] void expected(std::string_view what) const {
    throw Malformed{fmt::format("{}: expected {}", parent_ == nullptr ? "the text" : path(), what)};
  }
  /// "parts[2].files"
  [[nodiscard]] std::string path() const {
    if (parent_ == nullptr) return "";
    const std::string above = parent_->path();
    if (key_.empty()) return fmt::format("{}[{}]", above, index_);
    return above.empty() ? std::string(key_) : fmt::format("{}.{}", above, key_);
  }

  const json& value_;
  const Place* parent_ = nullptr;
  std::string_view key_;  ///< empty: an element of a list
  std::size_t index_ = 0;
};

/// Throws Malformed, also for text that is nested deeper than any of ours: the library walks through parsed
/// text recursively.
json parse_text(std::string_view text) {
  static constexpr int kMostDepth = 64;
  try {
    return json::parse(text, [](int depth, json::parse_event_t /*event*/, json& /*parsed*/) {
      if (depth > kMostDepth) throw Malformed{fmt::format("nested deeper than {} levels", kMostDepth)};
      return true;
    });
  } catch (const json::exception& error) {
    throw Malformed{fmt::format("expected JSON: {}", error.what())};
  }
}

Part part_of(const Place& place) {
  Part part{.name = place.at("name").text(), .files = {}, .blobs = {}};
  place.at("files").for_each([&](const Place& file) {
    DataFile& read = part.files.emplace_back(DataFile{.name = file.at("name").text(),
                                                      .bytes = file.at("bytes").number(),
                                                      .checksum = file.at("checksum").checksum(),
                                                      .chunks = {}});
    file.at("chunks").for_each([&](const Place& chunk) {
      read.chunks.push_back({.kind = chunk.at("kind").kind(),
                             .number = chunk.at("number").number<std::uint32_t>(),
                             .first = chunk.at("first").number(),
                             .last = chunk.at("last").number(),
                             .rows = chunk.at("rows").number(),
                             .offset = chunk.at("offset").number(),
                             .bytes = chunk.at("bytes").number(),
                             .checksum = chunk.at("checksum").checksum()});
    });
  });
  place.at("blobs").for_each([&](const Place& blob) {
    part.blobs.push_back({.name = blob.at("name").text(), .bytes = blob.at("bytes").number()});
  });
  return part;
}

absl::StatusOr<Manifest> manifest_of(const Place& place) {
  const std::uint64_t format = place.at("format").number();
  if (format != kManifestFormat) {
    return absl::UnimplementedError(fmt::format(
        "it is of format {}, which this program does not know: it reads format {}", format, kManifestFormat));
  }
  Manifest manifest{.clock = place.at("clock").number(),
                    .written = place.at("written").text(),
                    .program = place.at("program").text(),
                    .options = place.at("options").value(),
                    .tables = {},
                    .parts = {}};
  if (const std::optional<Place> run = place.find("run")) manifest.run = run->number();
  if (const std::optional<Place> since = place.find("since")) manifest.since = since->number();
  place.at("tables").for_each([&](const Place& table) {
    manifest.tables.push_back({.number = table.at("number").number<std::uint32_t>(),
                               .name = table.at("name").text(),
                               .description = table.at("description").value()});
  });
  place.at("parts").for_each([&](const Place& part) { manifest.parts.push_back(part_of(part)); });
  return manifest;
}

}  // namespace

absl::StatusOr<std::string> encode(const Manifest& manifest) {
  std::string text;
  try {
    text = to_json(manifest).dump();
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(
        base::printable(fmt::format("the manifest cannot be written as JSON: {}", error.what())));
  }
  text.pop_back();  // the object's end
  return fmt::format("{}{}{}{}", text, kSumBegin, checksum_text(sum_of(text)), kSumEnd);
}

absl::StatusOr<Manifest> decode_manifest(std::string_view text) {
  const std::string_view summed = text.substr(0, text.size() - std::min(text.size(), kSumBytes));
  const std::string_view end = text.substr(summed.size());
  const bool has_sum = end.size() == kSumBytes && end.starts_with(kSumBegin) && end.ends_with(kSumEnd);
  const auto sum = has_sum ? parse_checksum(end.substr(kSumBegin.size(), kChecksumDigits)) : std::nullopt;
  if (!sum) return absl::DataLossError("expected a checksum at its end: it is cut off or damaged");
  if (*sum != sum_of(summed)) {
    return absl::DataLossError(fmt::format("expected the checksum {}, found {}: it is damaged",
                                           checksum_text(*sum), checksum_text(sum_of(summed))));
  }
  try {
    const json parsed = parse_text(text);
    absl::StatusOr<Manifest> manifest = manifest_of(Place(parsed));
    if (manifest.ok()) RETURN_IF_ERROR(check(*manifest));
    return manifest;
  } catch (const Malformed& malformed) {
    return absl::InvalidArgumentError(base::printable(malformed.message));
  }
}

std::string encode(const Part& part) {
  return to_json(part).dump();
}

absl::StatusOr<Part> decode_part(std::string_view text) {
  try {
    const json parsed = parse_text(text);
    Part part = part_of(Place(parsed));
    RETURN_IF_ERROR(check(part));
    return part;
  } catch (const Malformed& malformed) {
    return absl::InvalidArgumentError(base::printable(malformed.message));
  }
}

}  // namespace verbena::checkpoint
