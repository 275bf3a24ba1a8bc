#include "protocol/log_record.hpp"

#include <fmt/format.h>

#include <variant>

#include "base/peer_memory.hpp"

namespace verbena::protocol {

bool is_logged(const ControlMessage& message) {
  return std::holds_alternative<OpenTable>(message) || std::holds_alternative<EndIteration>(message) ||
         std::holds_alternative<Goodbye>(message) || std::holds_alternative<Adopted>(message) ||
         std::holds_alternative<Hello>(message);
}

absl::StatusOr<LogRecord> decode_log_record(std::span<const std::byte> bytes, std::uint32_t workers) {
  LogRecord record;
  if (bytes.size() < sizeof record.header)
    return absl::InvalidArgumentError(fmt::format("a record of the log has {} bytes", bytes.size()));
  record.header = base::load_once<LogHeader>(bytes.data());
  record.message = bytes.subspan(sizeof record.header);
  const LogHeader::Kind kind = record.header.kind;
  if (kind != LogHeader::Kind::kBulk && kind != LogHeader::Kind::kControl &&
      kind != LogHeader::Kind::kImage) {
    return absl::InvalidArgumentError(
        fmt::format("a record of the log is of unknown kind {}", static_cast<std::uint32_t>(kind)));
  }
  if (kind != LogHeader::Kind::kImage && record.header.worker >= workers) {
    return absl::InvalidArgumentError(
        fmt::format("a record of the log is of worker {} of {}", record.header.worker, workers));
  }
  return record;
}

}  // namespace verbena::protocol
