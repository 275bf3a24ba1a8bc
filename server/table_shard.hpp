// A server's part of one table, of any kind, as the server sees it: fixed_shard.hpp has shards with rows that
// stay (dense_shard.hpp, sparse_shard.hpp), moving_shard.hpp has shards with rows that move.
//
// Thread safety: belongs to the transport's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/compression.hpp"
#include "protocol/messages.hpp"
#include "protocol/open_table.hpp"
#include "server/homes.hpp"
#include "server/lane.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

class MovingShard;

/// The answer to a worker's message.
struct MessageAnswer {
  std::uint32_t worker = 0;
  std::variant<protocol::PushAnswer, protocol::InstallAnswer> answer;
};
using MessageAnswers = std::vector<MessageAnswer>;

/// A worker that has opened the table.
struct Sender {
  Homes::Worker worker;
  consistency::Clock clock = 0;        ///< the worker's clock, as it has told it
  std::size_t most_message_bytes = 0;  ///< the longest bulk message that its inbox takes
};

/// What a shard may ask of its server.
class ShardHost {
 public:
  virtual ~ShardHost() = default;
  virtual void enqueue(std::uint32_t lane, const LaneTask& task) = 0;
  /// The worker makes another call of a server function. INVALID_ARGUMENT if too many are under way already.
  virtual absl::Status begin_call(std::uint32_t lane, std::uint32_t worker) = 0;
  /// The worker will get `more` answers. INVALID_ARGUMENT if it waits for too many already.
  virtual absl::Status expect_answers(std::uint32_t worker, std::size_t more) = 0;
  /// For one message at a time.
  virtual base::Decompressor& decompressor() = 0;
  /// The worker is to find out who owns rows.
  virtual void order(std::uint32_t worker, const protocol::Census& census) = 0;
  // Answers for workers about this table. They are sent when the shard returns.
  virtual Homes::Answers& key_answers() = 0;
  virtual MessageAnswers& message_answers() = 0;
};

class TableShard {
 public:
  explicit TableShard(protocol::OpenTable open) : table(std::move(open)) {}
  virtual ~TableShard() = default;
  TableShard(const TableShard&) = delete;
  TableShard& operator=(const TableShard&) = delete;

  /// The part of a bulk message behind its header that one row takes.
  [[nodiscard]] virtual std::size_t row_message_bytes() const = 0;
  /// Grants the rows to a worker. `is_own_node`: the worker is of this server's node.
  [[nodiscard]] virtual absl::StatusOr<transport::RemoteDescriptor> grant(transport::Connection& connection,
                                                                          bool is_own_node) const = 0;
  /// How many regions there are besides, of which the worker is told before it is told that the table is
  /// open, and of later ones when they are there.
  [[nodiscard]] virtual std::size_t regions() const { return 0; }
  /// Grants one to a worker, and returns what it is to be told. Errors as Connection::grant(). REQUIRES:
  /// region < regions()
  [[nodiscard]] virtual absl::StatusOr<protocol::RegionAdded> grant_region(
      std::size_t /*region*/, transport::Connection& /*connection*/) const {
    return protocol::RegionAdded{};
  }
  /// The shard, if lanes apply its updates and it waits for clocks of workers. nullptr: neither.
  [[nodiscard]] virtual const FixedShard* for_lanes() const { return nullptr; }
  /// The shard, if its rows move; nullptr: it is for lanes.
  [[nodiscard]] virtual MovingShard* moving() { return nullptr; }

  /// `inbox` counts the users of the message. Errors here and below: INVALID_ARGUMENT for messages that break
  /// the rules.
  virtual absl::Status on_bulk(const Sender& sender, const protocol::BulkMessage& message,
                               InboxMessage& inbox, ShardHost& host) = 0;
  virtual absl::Status on_key_requests(const Sender& sender, const protocol::KeyRequests& requests,
                                       ShardHost& host) = 0;
  virtual void on_goodbye(const Homes::Worker& /*worker*/, ShardHost& /*host*/) {}
  /// The worker has died, and the job goes on.
  virtual void on_lost(const Homes::Worker& /*worker*/, ShardHost& /*host*/) {}

  /// Tries again what could not be done at once; true if some of it is done.
  virtual bool try_again(ShardHost& /*host*/) { return false; }
  [[nodiscard]] virtual bool has_put_off() const { return false; }
  /// The job has failed.
  virtual void forget_put_off() {}

  const protocol::OpenTable table;
};

}  // namespace verbena::server
