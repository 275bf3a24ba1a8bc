// Checkpoints as a job writes them, on the host's disk.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/file_system.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/part_writer.hpp"
#include "protocol/open_table.hpp"
#include "protocol/row_stride.hpp"
#include "protocol/saved_table.hpp"

namespace verbena::apps::inspect {

/// A checkpoint that is being written by one server and one worker of two.
class SavedRun {
 public:
  /// What an update rule keeps of each row.
  static constexpr std::uint32_t kStateBytes = 4;

  /// `since`: it is an increment of the checkpoint of that clock.
  SavedRun(const std::string& folder, std::uint64_t clock, std::optional<std::uint64_t> since = std::nullopt)
      : folder_(checkpoint::host_file_system(), folder), clock_(clock), path_(folder_.begin(clock).value()) {
    // Chunks of a few rows.
    server_ = checkpoint::PartWriter::create(checkpoint::host_file_system(), path_, clock_,
                                             {.name = "server-0", .chunk_bytes = 100})
                  .value();
    manifest_.run = 77;
    manifest_.since = since;
  }

  /// The table's next rows, from row `first` on, with what the rule keeps of them.
  template <class Value>
  void add_rows(const protocol::OpenTable& table, std::uint64_t first, const std::vector<Value>& values) {
    list(table);
    const std::string rows = padded(table, values);
    const std::string state(rows.size() / stride(table) * kStateBytes, 's');
    const std::vector<checkpoint::Column> columns = {column(rows, stride(table)), column(state, kStateBytes)};
    EXPECT_EQ(server_->add_rows(table.table, first, columns), absl::OkStatus());
  }
  /// Rows in any order. `numbers`: where a table is divided.
  template <class Value>
  void add_scattered_rows(const protocol::OpenTable& table, checkpoint::NumberRange numbers,
                          const std::vector<Key>& keys, const std::vector<Value>& values) {
    list(table);
    const std::string rows = padded(table, values);
    const std::string state(keys.size() * kStateBytes, 's');
    const std::vector<checkpoint::Column> columns = {
        {.bytes = std::as_bytes(std::span(keys)), .row_bytes = sizeof(Key)},
        column(rows, stride(table)),
        column(state, kStateBytes)};
    EXPECT_EQ(server_->add_scattered_rows(table.table, numbers, columns), absl::OkStatus());
  }

  void add_removed_rows(const protocol::OpenTable& table, checkpoint::NumberRange numbers,
                        const std::vector<Key>& keys) {
    EXPECT_EQ(server_->add_removed_rows(table.table, numbers, keys), absl::OkStatus());
  }

  /// Returns the path of the checkpoint.
  std::string commit() {
    auto worker =
        checkpoint::PartWriter::create(checkpoint::host_file_system(), path_, clock_, {.name = "worker-0"});
    EXPECT_EQ(worker->add_blob("worker-0", std::as_bytes(std::span("remembered", 10))), absl::OkStatus());
    manifest_.clock = clock_;
    manifest_.program = "1.2.3";
    manifest_.options = {{"workers", 2}, {"servers", 1}, {"notes", {{"data", "clicks.ffm"}}}};
    manifest_.parts = {server_->finish().value(), worker->finish().value()};
    EXPECT_EQ(folder_.commit(manifest_), absl::OkStatus());
    return path_.substr(0, path_.size() - std::string_view(".tmp").size());
  }

 private:
  static std::uint32_t stride(const protocol::OpenTable& table) {
    return static_cast<std::uint32_t>(protocol::row_stride_bytes(table.value_type, table.width));
  }
  static checkpoint::Column column(const std::string& bytes, std::uint32_t row_bytes) {
    return {.bytes = std::as_bytes(std::span(bytes)), .row_bytes = row_bytes};
  }
  /// What rows are padded with must not be seen.
  template <class Value>
  static std::string padded(const protocol::OpenTable& table, const std::vector<Value>& values) {
    std::string rows(values.size() / table.width * stride(table), '\xff');
    const std::size_t row_bytes = table.width * sizeof(Value);
    for (std::size_t row = 0; row < values.size() / table.width; ++row)
      std::memcpy(rows.data() + row * stride(table), values.data() + row * table.width, row_bytes);
    return rows;
  }
  void list(const protocol::OpenTable& table) {
    for (const checkpoint::TableEntry& entry : manifest_.tables) {
      if (entry.number == table.table) return;
    }
    manifest_.tables.push_back(
        {.number = table.table, .name = table.name, .description = protocol::description_of(table)});
  }

  checkpoint::Folder folder_;
  std::uint64_t clock_;
  std::string path_;
  std::optional<checkpoint::PartWriter> server_;
  checkpoint::Manifest manifest_;
};

/// 5 rows of 3 values, which are padded to 16 bytes.
inline protocol::OpenTable dense_table() {
  return {.table = 0,
          .value_type = ValueType::kFloat,
          .rows = 5,
          .width = 3,
          .name = "weights",
          .consistency = "ssp:1",
          .rule = "momentum(rate=0.1)"};
}
inline protocol::OpenTable sparse_table() {
  return {.table = 1,
          .value_type = ValueType::kInt64,
          .key_space = KeySpace::kSparse,
          .rows = 100,
          .width = 2,
          .name = "features",
          .consistency = "asp",
          .initial = "constant(value=1)",
          .seed = 7};
}

}  // namespace verbena::apps::inspect
