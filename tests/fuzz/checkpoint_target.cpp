// Checkpoints that somebody has written who can compute checksums: what is wrong with one must be found
// before its bytes are used.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "apps/resuming/saved_state.hpp"
#include "checkpoint/checksum.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/manifest_json.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/verify.hpp"
#include "protocol/saved_table.hpp"
#include "tests/checkpoint/simulated_disk.hpp"
#include "tests/fuzz/target.hpp"

namespace verbena::fuzz {
namespace {

constexpr const char* kFolder = "c/ckpt";

std::uint64_t checksum_of_text(std::string_view text) {
  return checkpoint::checksum_of(std::as_bytes(std::span(text)));
}

/// A manifest of the JSON object that `begin` begins, without its end.
std::string with_checksum(std::string_view begin) {
  return fmt::format("{},\"checksum\":\"{}\"}}\n", begin, checkpoint::checksum_text(checksum_of_text(begin)));
}

void require_one_line(const absl::Status& status) {
  require(!status.message().empty() && status.message().find('\n') == absl::string_view::npos, "one line");
}

/// Writes the number, if there is room.
void put(std::string& bytes, std::uint64_t offset, std::uint64_t number) {
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof number)
    std::memcpy(bytes.data() + offset, &number, sizeof number);
}

/// Makes the checksums of the file, its header and its chunks right, in the bytes and in the entry.
void repair(std::string& bytes, checkpoint::DataFile& entry) {
  const std::string_view all = bytes;
  put(bytes, offsetof(checkpoint::FileHeader, checksum),
      checksum_of_text(all.substr(0, offsetof(checkpoint::FileHeader, checksum))));
  for (checkpoint::ChunkEntry& chunk : entry.chunks) {
    if (chunk.offset > bytes.size() || chunk.bytes > bytes.size() - chunk.offset) continue;
    const std::string_view whole = all.substr(chunk.offset, chunk.bytes);
    chunk.checksum =
        checksum_of_text(std::string(whole.substr(0, offsetof(checkpoint::ChunkHeader, checksum))) +
                         std::string(whole.substr(sizeof(checkpoint::ChunkHeader))));
    put(bytes, chunk.offset + offsetof(checkpoint::ChunkHeader, checksum), chunk.checksum);
  }
  entry.checksum = checksum_of_text(bytes);
}

/// Puts what the increment builds upon beside it: a checkpoint of its tables, without rows.
void put_base(checkpoint::SimulatedDisk& disk, const checkpoint::Manifest& increment) {
  checkpoint::Manifest base{.clock = *increment.since, .run = increment.run, .tables = increment.tables};
  std::string data(sizeof(checkpoint::FileHeader), '\0');
  const checkpoint::FileHeader header{.clock = base.clock};
  std::memcpy(data.data(), &header, sizeof header);
  checkpoint::Part part{.name = "s", .files = {{.name = "s", .bytes = data.size()}}};
  repair(data, part.files[0]);
  base.parts = {part};
  const std::string folder = fmt::format("{}-{}", kFolder, base.clock);
  disk.put_folder(folder);
  disk.put_file(folder + "/s", data);
  disk.put_file(fmt::format("{}/{}", folder, checkpoint::kManifestName), checkpoint::encode(base).value());
}

/// Looks at each byte, which a sanitizer sees.
void require_readable(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<std::uint64_t>(byte);
  require(sum <= bytes.size() * UINT8_MAX, "bytes");
}

/// Reads the rows of a table in that range. Returns how many there were.
absl::StatusOr<std::uint64_t> read_rows(const checkpoint::Reader& reader, std::uint32_t table,
                                        checkpoint::NumberRange range) {
  std::uint64_t count = 0;
  const absl::Status status = reader.read_rows(table, range, [&](const checkpoint::Rows& rows) {
    require(rows.count > 0 && !rows.columns.empty(), "no rows");
    require(!rows.are_removed || (rows.columns.size() == 1 && rows.columns[0].row_bytes == 8), "keys");
    require(rows.are_scattered || rows.are_removed ||
                (rows.numbers.first >= range.first && rows.numbers.end <= range.end &&
                 rows.count == rows.numbers.end - rows.numbers.first),
            "rows of another range");
    for (const checkpoint::Column& column : rows.columns) {
      require(column.row_bytes > 0 && column.bytes.size() == rows.count * column.row_bytes, "a column");
      require_readable(column.bytes);
    }
    count += rows.count;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return count;
}

/// Whether all could be read.
bool read_all(const checkpoint::Reader& reader) {
  bool is_read = true;
  for (const checkpoint::TableEntry& table : reader.manifest().tables) {
    const auto whole = read_rows(reader, table.number, {0, UINT64_MAX});
    if (!whole.ok()) require_one_line(whole.status());
    is_read = is_read && whole.ok();
    for (const checkpoint::NumberRange range :
         {checkpoint::NumberRange{0, 5}, {5, UINT64_MAX}, {3, 4}, {7, 7}}) {
      const auto part = read_rows(reader, table.number, range);
      require(!whole.ok() || (part.ok() && *part <= *whole), "a part of the rows");
    }
  }
  for (const checkpoint::Part& part : reader.manifest().parts) {
    for (const checkpoint::Blob& blob : part.blobs) {
      const auto bytes = reader.read_blob(blob.name);
      require(!bytes.ok() || bytes->size() == blob.bytes, "a blob");
      is_read = is_read && bytes.ok();
    }
  }
  return is_read;
}

/// What a manifest says of a table is refused, or says the same when it is written again.
void require_table(const checkpoint::TableEntry& entry) {
  const auto table = protocol::table_of(entry.description, entry.number);
  if (!table.ok()) return require_one_line(table.status());
  protocol::visit_attributes([&](auto, auto attribute, auto is_valid, auto) {
    require(is_valid((*table).*attribute), "what no table can have");
  });
  const auto again = protocol::table_of(protocol::description_of(*table), entry.number);
  require(again.ok() && *again == *table, "a table that is described otherwise");
}

}  // namespace

void checkpoint_manifest(std::string_view bytes) {
  const auto as_it_is = checkpoint::decode_manifest(bytes);
  if (!as_it_is.ok()) require_one_line(as_it_is.status());
  const auto part = checkpoint::decode_part(bytes);
  if (part.ok()) {
    require(checkpoint::check(*part).ok(), "a part that is not sound");
    const std::string text = checkpoint::encode(*part);
    require(checkpoint::encode(checkpoint::decode_part(text).value()) == text,
            "a part that is written otherwise");
  } else {
    require_one_line(part.status());
  }
  const auto manifest = checkpoint::decode_manifest(with_checksum(bytes));
  if (!manifest.ok()) return require_one_line(manifest.status());
  require(checkpoint::check(*manifest).ok(), "a manifest that is not sound");
  for (const checkpoint::TableEntry& entry : manifest->tables) require_table(entry);
  const std::string text = checkpoint::encode(*manifest).value();
  require(checkpoint::encode(checkpoint::decode_manifest(text).value()).value() == text,
          "it is written otherwise");
}

bool checkpoint_reads_well(std::string_view bytes) {
  Input input(bytes);
  const auto length = input.take<std::uint16_t>();
  const auto decoded = checkpoint::decode_manifest(with_checksum(input.take_bytes(length)));
  if (!decoded.ok() || decoded->parts.empty()) return false;
  checkpoint::Manifest manifest = *decoded;
  checkpoint::DataFile& entry = manifest.parts[0].files[0];
  std::string data(input.take_bytes(bytes.size()));
  repair(data, entry);

  checkpoint::SimulatedDisk disk;
  disk.put_folder("c");
  disk.put_folder(kFolder);
  disk.put_file(fmt::format("{}/{}", kFolder, entry.name), data);
  disk.put_file(fmt::format("{}/{}", kFolder, checkpoint::kManifestName),
                checkpoint::encode(manifest).value());
  if (manifest.since) put_base(disk, manifest);
  const std::vector<checkpoint::Damage> damages = checkpoint::verify(disk, kFolder);
  for (const checkpoint::Damage& damage : damages)
    require(checkpoint::to_string(damage).find('\n') == std::string::npos, "one line");
  const auto reader = checkpoint::Reader::open(disk, kFolder);
  require(reader.ok() || !damages.empty(), "it does not open, and nothing is wrong");
  if (!reader.ok()) {
    require_one_line(reader.status());
    return false;
  }
  const bool is_read = read_all(*reader);
  require(is_read == damages.empty(), "it is damaged and can be read, or the other way round");
  return is_read;
}

void saved_state(std::string_view bytes) {
  const auto decoded = apps::decode_state(std::as_bytes(std::span(bytes)));
  if (!decoded.ok()) return require_one_line(decoded.status());
  require(decoded->is_object(), "no object");
  const auto again = apps::decode_state(apps::encode_state(*decoded));
  require(again.ok() && apps::encode_state(*again) == apps::encode_state(*decoded),
          "it is written otherwise");
  const apps::SavedState state(*decoded);
  for (const auto& [name, value] : decoded->items()) {
    require(state.object(name).ok() == value.is_object(), "an object");
    require(!state.text(name).ok() || value.is_string(), "a text");
    const auto numbers = state.array<std::uint64_t>(name);
    require(!numbers.ok() || value.get_binary().size() == numbers->size() * sizeof(std::uint64_t),
            "an array");
    for (const absl::Status& status : {state.whole_number(name).status(), state.number(name).status(),
                                       state.flag(name).status(), state.places(name, 3).status()}) {
      if (!status.ok()) require_one_line(status);
    }
  }
}

void checkpoint_files(std::string_view bytes) {
  checkpoint_reads_well(bytes);
}

}  // namespace verbena::fuzz
