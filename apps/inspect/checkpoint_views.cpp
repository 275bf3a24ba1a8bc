#include "apps/inspect/checkpoint_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "apps/inspect/columns.hpp"
#include "base/printable.hpp"
#include "checkpoint/reader.hpp"
#include "protocol/saved_table.hpp"

namespace verbena::apps::inspect {
namespace {

using checkpoint::FileSystem;
using checkpoint::Folder;
using checkpoint::Manifest;
using nlohmann::json;
using Lines = std::vector<std::vector<std::string>>;

std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string last_name_of(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

/// What is in it. INVALID_ARGUMENT: it is no folder.
absl::StatusOr<std::vector<checkpoint::FolderEntry>> entries_of(FileSystem& files, const std::string& path) {
  auto entries = files.list(path);
  if (absl::IsFailedPrecondition(entries.status()))  // absl's code for ENOTDIR
    return absl::InvalidArgumentError(entries.status().message());
  return entries;
}

/// Whether the path is meant to be a checkpoint, and no folder of them. A checkpoint that is damaged may have
/// no manifest, and one that was moved another name.
absl::StatusOr<bool> is_one_checkpoint(FileSystem& files, const std::string& path) {
  const auto entries = entries_of(files, path);
  if (!entries.ok()) return entries.status();
  return checkpoint::is_checkpoint_name(last_name_of(path)) ||
         std::ranges::find(*entries, checkpoint::kManifestName, &checkpoint::FolderEntry::name) !=
             entries->end();
}

absl::Status no_checkpoint(const std::string& path, const Folder::Listing& listing) {
  if (listing.damaged.empty())
    return absl::NotFoundError(fmt::format("{}: there is no checkpoint (ckpt-N) in it", path));
  std::string message = fmt::format("{}: no checkpoint in it is whole", path);
  for (const Folder::Damaged& one : listing.damaged)
    message += fmt::format("; {} is damaged: {}", one.name, one.reason);
  return absl::DataLossError(message);
}

/// `manifest`: checked.
SeenCheckpoint seen_in(const std::string& path, const Manifest& manifest) {
  SeenCheckpoint seen{.path = path,
                      .clock = manifest.clock,
                      .since = manifest.since,
                      .written = manifest.written,
                      .program = manifest.program,
                      .options = manifest.options,
                      .tables = {},
                      .parts = {}};
  std::map<std::uint32_t, SeenTable> tables;
  for (const checkpoint::TableEntry& table : manifest.tables)
    tables.emplace(table.number,
                   SeenTable{.number = table.number, .name = table.name, .description = table.description});
  for (const checkpoint::Part& part : manifest.parts) {
    SeenPart& seen_part =
        seen.parts.emplace_back(SeenPart{.name = part.name, .files = part.files.size(), .blobs = part.blobs});
    for (const checkpoint::DataFile& file : part.files) {
      seen_part.bytes += file.bytes;
      for (const checkpoint::ChunkEntry& chunk : file.chunks) {
        if (!checkpoint::is_of_table(chunk.kind)) continue;
        SeenTable& table = tables.at(chunk.number);  // a manifest lists all tables that it has rows of
        if (chunk.kind == checkpoint::ChunkKind::kRemovedRows)
          table.removed += chunk.rows;
        else
          table.rows += chunk.rows;
        table.bytes += chunk.bytes;
      }
    }
    seen.bytes += seen_part.bytes;
  }
  for (auto& [number, table] : tables) seen.tables.push_back(std::move(table));
  return seen;
}

/// How many there were of what the session counts; nullopt: the manifest does not say.
std::optional<std::uint64_t> count_in(const json& options, std::string_view name) {
  const auto count = options.find(name);
  if (count == options.end() || !count->is_number_unsigned()) return std::nullopt;
  return count->get<std::uint64_t>();
}

std::string shown_count(const json& options, std::string_view name) {
  const std::optional<std::uint64_t> count = count_in(options, name);
  return count ? std::to_string(*count) : "?";
}

/// Attributes that have no column, and are not as they usually are.
std::string unusual_attributes(const protocol::OpenTable& table) {
  static constexpr std::array<std::string_view, 7> kWithColumn = {
      "name", "key_space", "width", "value_type", "consistency", "rule", "rows"};
  const protocol::OpenTable usual;
  std::vector<std::string> unusual;
  protocol::visit_attributes([&](std::string_view name, auto attribute, auto, auto shown) {
    if (table.*attribute != usual.*attribute && std::ranges::find(kWithColumn, name) == kWithColumn.end())
      unusual.push_back(shown(table.*attribute));
  });
  return absl::StrJoin(unusual, ", ");
}

std::string text_of_tables(const std::vector<SeenTable>& tables) {
  Lines lines = {{"table", "keys", "width", "type", "model", "rule", "rows", "of", "MB"}};
  std::string more;
  for (const SeenTable& table : tables) {
    const std::string name = base::printable(table.name);
    const auto open = protocol::table_of(table.description, table.number);
    if (open.ok()) {
      lines.push_back(
          {name, name_of(open->key_space), std::to_string(open->width), name_of(open->value_type),
           base::printable(open->consistency), base::printable(open->rule), std::to_string(table.rows),
           open->key_space == KeySpace::kDense ? std::to_string(open->rows) : "", megabytes(table.bytes)});
      const std::string unusual = unusual_attributes(*open);
      if (!unusual.empty()) more += fmt::format("{}: {}\n", name, base::printable(unusual));
    } else {
      lines.push_back(
          {name, "?", "?", "?", "?", "?", std::to_string(table.rows), "", megabytes(table.bytes)});
      more += fmt::format("{}: {}\n", name, std::string(open.status().message()));
    }
    if (table.removed > 0) more += fmt::format("{}: {} rows are there no more\n", name, table.removed);
  }
  return in_columns(lines) + more;
}

std::string text_of_parts(const std::vector<SeenPart>& parts) {
  Lines lines = {{"part", "files", "MB", "blobs", "MB of blobs"}};
  for (const SeenPart& part : parts) {
    std::uint64_t blob_bytes = 0;
    for (const checkpoint::Blob& blob : part.blobs) blob_bytes += blob.bytes;
    lines.push_back({base::printable(part.name), std::to_string(part.files), megabytes(part.bytes),
                     std::to_string(part.blobs.size()), megabytes(blob_bytes)});
  }
  return in_columns(lines);
}

std::string text_of_notes(const json& options) {
  const auto notes = options.find("notes");
  if (notes == options.end() || !notes->is_object()) return "";
  std::string text;
  for (const auto& [name, value] : notes->items()) {
    const std::string shown = value.is_string() ? value.get<std::string>()
                                                : value.dump(-1, ' ', false, json::error_handler_t::replace);
    text += base::printable(fmt::format("{}: {}", name, shown)) + '\n';
  }
  return text.empty() ? "" : "\nnotes\n" + text;
}

/// Of one whose own files are whole: what Folder says, and verify_alone() cannot know.
checkpoint::Damage damage_of(const std::string& path, const Folder::Damaged& damaged, bool is_increment) {
  std::string what = damaged.reason;
  if (what.starts_with(path + ": ")) what.erase(0, path.size() + 2);
  return {.path = path,
          .offset = 0,
          .what = std::move(what),
          .advice = is_increment ? "take an older checkpoint, or put back a copy of what it builds upon"
                                 : "give the folder its own name again"};
}

bool is_there(FileSystem& files, const std::string& path) {
  return !absl::IsNotFound(files.list(path).status());
}

/// `alone`: without what an increment builds upon.
VerifiedCheckpoint verify_one(FileSystem& files, const std::string& path, bool alone,
                              VerifyProgress progress) {
  VerifiedCheckpoint verified{.path = path, .bytes = 0, .damages = {}};
  std::vector<checkpoint::Layer> layers;
  // Without a manifest there is nothing to examine.
  checkpoint::read_layers(files, path, layers).IgnoreError();
  if (alone && !layers.empty()) layers.resize(1);
  for (const checkpoint::Layer& layer : layers) verified.bytes += seen_in(layer.path, layer.manifest).bytes;
  const auto tell = [&](std::uint64_t bytes) { progress(path, bytes, verified.bytes); };
  verified.damages =
      alone ? checkpoint::verify_alone(files, path, tell) : checkpoint::verify(files, path, tell);
  return verified;
}

}  // namespace

absl::StatusOr<std::string> find_checkpoint(FileSystem& files, const std::string& given) {
  const std::string path = without_end_slashes(given);
  const absl::StatusOr<bool> is_one = is_one_checkpoint(files, path);
  if (!is_one.ok()) return is_one.status();
  if (*is_one) return path;
  const absl::StatusOr<Folder::Listing> listing = Folder(files, path).list();
  if (!listing.ok()) return listing.status();
  if (listing->complete.empty()) return no_checkpoint(path, *listing);
  return listing->complete.front().path;
}

absl::StatusOr<SeenFolder> look_at_folder(FileSystem& files, const std::string& given) {
  const std::string path = without_end_slashes(given);
  if (const auto entries = entries_of(files, path); !entries.ok()) return entries.status();
  absl::StatusOr<Folder::Listing> listing = Folder(files, path).list();
  if (!listing.ok()) return listing.status();
  SeenFolder seen{.path = path,
                  .complete = {},
                  .damaged = std::move(listing->damaged),
                  .unfinished = std::move(listing->unfinished)};
  for (const Folder::Complete& one : listing->complete) {
    const absl::StatusOr<Manifest> manifest = checkpoint::read_manifest(files, one.path);
    // A run that goes on may have removed it meanwhile.
    if (absl::IsNotFound(manifest.status()) && !is_there(files, one.path)) continue;
    if (!manifest.ok()) return manifest.status();
    seen.complete.push_back(seen_in(one.path, *manifest));
  }
  return seen;
}

absl::StatusOr<SeenCheckpoint> look_at_checkpoint(FileSystem& files, const std::string& path) {
  const absl::StatusOr<std::string> found = find_checkpoint(files, path);
  if (!found.ok()) return found.status();
  const absl::StatusOr<Manifest> manifest = checkpoint::read_manifest(files, *found);
  if (!manifest.ok()) return manifest.status();
  return seen_in(*found, *manifest);
}

absl::StatusOr<std::vector<VerifiedCheckpoint>> verify_checkpoints(FileSystem& files,
                                                                   const std::string& given,
                                                                   VerifyProgress progress) {
  const std::string path = without_end_slashes(given);
  const absl::StatusOr<bool> is_one = is_one_checkpoint(files, path);
  if (!is_one.ok()) return is_one.status();
  std::vector<VerifiedCheckpoint> verified;
  if (*is_one) {
    verified.push_back(verify_one(files, path, /*alone=*/false, progress));
    return verified;
  }
  const absl::StatusOr<Folder::Listing> listing = Folder(files, path).list();
  if (!listing.ok()) return listing.status();
  for (const Folder::Complete& one : listing->complete)
    verified.push_back(verify_one(files, one.path, /*alone=*/true, progress));
  // The oldest first, since each is of no use without all below it.
  for (std::size_t i = verified.size(); i-- > 0;) {
    const Folder::Complete* const base = listing->base_of(listing->complete[i]);
    if (base == nullptr ||
        verified[static_cast<std::size_t>(base - listing->complete.data())].damages.empty())
      continue;
    verified[i].damages.push_back({.path = verified[i].path,
                                   .offset = 0,
                                   .what = fmt::format("it builds upon {}, which is damaged", base->name),
                                   .advice = "take an older checkpoint"});
  }
  for (const Folder::Damaged& one : listing->damaged) {
    VerifiedCheckpoint& damaged = verified.emplace_back(
        verify_one(files, fmt::format("{}/{}", path, one.name), /*alone=*/true, progress));
    const absl::StatusOr<Manifest> manifest = checkpoint::read_manifest(files, damaged.path);
    if (damaged.damages.empty())
      damaged.damages.push_back(damage_of(damaged.path, one, manifest.ok() && manifest->since.has_value()));
  }
  // Those that a run that goes on has removed meanwhile.
  std::erase_if(verified, [&](const VerifiedCheckpoint& one) { return !is_there(files, one.path); });
  if (verified.empty()) return no_checkpoint(path, *listing);
  return verified;
}

std::string to_text(const SeenFolder& folder) {
  std::string text;
  if (folder.complete.empty()) {
    text = fmt::format("no whole checkpoint is in {}\n", base::printable(folder.path));
  } else {
    Lines lines = {{"checkpoint", "clock", "rows", "written", "tables", "MB", "workers", "servers"}};
    for (const SeenCheckpoint& one : folder.complete) {
      lines.push_back({last_name_of(one.path), std::to_string(one.clock),
                       one.since ? fmt::format("since {}", *one.since) : "all", base::printable(one.written),
                       std::to_string(one.tables.size()), megabytes(one.bytes),
                       shown_count(one.options, "workers"), shown_count(one.options, "servers")});
    }
    text = in_columns(lines);
  }
  for (const Folder::Damaged& one : folder.damaged)
    text += fmt::format("{} is damaged: {}\n", one.name, base::printable(one.reason));
  for (const std::string& name : folder.unfinished) text += fmt::format("{} is unfinished\n", name);
  return text;
}

json to_json(const SeenFolder& folder) {
  json complete = json::array();
  for (const SeenCheckpoint& one : folder.complete) {
    json names = json::array();
    for (const SeenTable& table : one.tables) names.push_back(table.name);
    json entry = {{"path", one.path},       {"clock", one.clock}, {"written", one.written},
                  {"program", one.program}, {"bytes", one.bytes}, {"tables", std::move(names)},
                  {"workers", nullptr},     {"servers", nullptr}};
    for (const char* const who : {"workers", "servers"}) {
      if (const auto count = count_in(one.options, who)) entry[who] = *count;
    }
    if (one.since) entry["since"] = *one.since;
    complete.push_back(std::move(entry));
  }
  json damaged = json::array();
  for (const Folder::Damaged& one : folder.damaged)
    damaged.push_back({{"name", one.name}, {"reason", one.reason}});
  return {{"folder", folder.path},
          {"checkpoints", std::move(complete)},
          {"damaged", std::move(damaged)},
          {"unfinished", folder.unfinished}};
}

std::string to_text(const SeenCheckpoint& seen) {
  std::string text = base::printable(fmt::format("{}: clock {}, written {} by version {}", seen.path,
                                                 seen.clock, seen.written, seen.program));
  text += fmt::format("; {} workers, {} servers; {} MB\n", shown_count(seen.options, "workers"),
                      shown_count(seen.options, "servers"), megabytes(seen.bytes));
  if (seen.since)
    text += fmt::format("only what has changed since ckpt-{}, with which it is read\n", *seen.since);
  if (!seen.tables.empty()) text += '\n' + text_of_tables(seen.tables);
  if (!seen.parts.empty()) text += '\n' + text_of_parts(seen.parts);
  return text + text_of_notes(seen.options);
}

json to_json(const SeenCheckpoint& seen) {
  json tables = json::array();
  for (const SeenTable& table : seen.tables) {
    tables.push_back({{"number", table.number},
                      {"name", table.name},
                      {"description", table.description},
                      {"rows", table.rows},
                      {"removed", table.removed},
                      {"bytes", table.bytes}});
  }
  json parts = json::array();
  for (const SeenPart& part : seen.parts) {
    json blobs = json::array();
    for (const checkpoint::Blob& blob : part.blobs)
      blobs.push_back({{"name", blob.name}, {"bytes", blob.bytes}});
    parts.push_back(
        {{"name", part.name}, {"files", part.files}, {"bytes", part.bytes}, {"blobs", std::move(blobs)}});
  }
  json object = {{"path", seen.path},           {"clock", seen.clock},      {"written", seen.written},
                 {"program", seen.program},     {"bytes", seen.bytes},      {"options", seen.options},
                 {"tables", std::move(tables)}, {"parts", std::move(parts)}};
  if (seen.since) object["since"] = *seen.since;
  return object;
}

std::string to_text(std::span<const VerifiedCheckpoint> verified) {
  std::string text;
  for (const VerifiedCheckpoint& one : verified) {
    text += base::printable(one.path);
    if (one.damages.empty()) {
      text += fmt::format(": whole, {} MB\n", megabytes(one.bytes));
      continue;
    }
    text += ": damaged\n";
    for (const checkpoint::Damage& damage : one.damages)
      text += fmt::format("  {}\n", base::printable(to_string(damage)));
  }
  return text;
}

absl::Status check_whole(std::span<const VerifiedCheckpoint> verified) {
  const auto damaged =
      std::ranges::count_if(verified, [](const VerifiedCheckpoint& one) { return !one.damages.empty(); });
  if (damaged == 0) return absl::OkStatus();
  return absl::DataLossError(verified.size() == 1
                                 ? fmt::format("{}: the checkpoint is damaged", verified.front().path)
                                 : fmt::format("{} of {} checkpoints are damaged", damaged, verified.size()));
}

}  // namespace verbena::apps::inspect
