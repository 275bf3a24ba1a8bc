// A table as a session sees it, of whatever kind: worker/fixed has those whose rows stay where they are,
// worker/moving those whose rows move.
//
// Thread safety: none; it belongs to its session.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include "transport/transport.hpp"
#include "worker/key_views.hpp"
#include "worker/operation.hpp"
#include "worker/server_link.hpp"
#include "worker/session_core.hpp"
#include <verbena/sampling.hpp>
#include <verbena/session.hpp>

namespace verbena::worker {

class TableCore {
 public:
  using Operations = std::vector<std::shared_ptr<Operation>>;

  TableCore(SessionCore& session, std::uint32_t number, const TableOptions& options, ValueType type);
  virtual ~TableCore() = default;
  TableCore(const TableCore&) = delete;
  TableCore& operator=(const TableCore&) = delete;

  [[nodiscard]] const TableOptions& options() const { return options_; }
  [[nodiscard]] const consistency::Rules& rules() const { return rules_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] ValueType value_type() const { return type_; }
  [[nodiscard]] const StalenessHistogram& staleness() const { return staleness_; }

  // ---- what users call (worker/table.hpp). `values`: how many they gave.

  virtual absl::Status pull(std::span<const Key> keys, std::byte* out, std::size_t values) = 0;
  virtual absl::Status pull(KeyRange range, std::byte* out, std::size_t values) = 0;
  /// Where the model makes a push wait for its updates to be applied, `wait` says whether it does.
  virtual absl::Status push(std::span<const Key> keys, const std::byte* updates, std::size_t values,
                            bool wait) = 0;
  virtual absl::Status push(KeyRange range, const std::byte* updates, std::size_t values, bool wait) = 0;
  absl::StatusOr<std::shared_ptr<Operation>> start_pull(const Keys& keys, std::byte* out, std::size_t values,
                                                        Operations after);

  // Of a table whose rows move; FAILED_PRECONDITION of any other.

  [[nodiscard]] virtual bool rows_move() const { return false; }
  virtual absl::StatusOr<std::shared_ptr<Operation>> start_localize(const Keys& keys,
                                                                    const Operations& after);
  /// The worker will use `keys` in its clocks from … to − 1.
  virtual absl::Status intend(const Keys& keys, consistency::Clock from, consistency::Clock to);
  /// Takes the locks of rows of this node that are free: use(i, where the values of keys[i] are, or nullptr).
  /// `rows`: how many places there are for them. Returns how many it took. FAILED_PRECONDITION where some are
  /// held already.
  virtual absl::StatusOr<std::size_t> hold(const Keys& keys, std::size_t rows,
                                           absl::FunctionRef<void(std::size_t, std::byte*)> use);
  /// Gives back what hold() took.
  virtual void release() {}
  /// hold() would take it, were it in nobody's hands.
  [[nodiscard]] virtual bool is_free_here(Key /*key*/) const { return false; }
  /// is_free_here() will be asked soon.
  virtual void prefetch(Key /*key*/) const {}
  /// Others that are near in place of those of `keys` that are not, each with probability `preference`, as
  /// far as any are found. Returns how many. REQUIRES: rows_move()
  virtual std::size_t redraw(std::span<Key> keys, double preference, const KeyDistribution& distribution,
                             std::mt19937_64& random) const;

  // ---- what the session calls

  /// Once every server has opened its shard: server by server, in the order of ranks.
  virtual absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& shard) = 0;
  /// Its reads wait for the servers' clocks, so that servers with rows of it are told of this worker's.
  [[nodiscard]] virtual bool follows_clocks() const = 0;

  /// In each poll: sends what could not be sent before. True if nothing is left that others must hear before
  /// this worker's clock.
  virtual bool send_put_off() { return true; }

  // A clock: the session ships; ends it; waits until send_put_off(); tells the servers; begins the next; and
  // waits for other workers, and for what is below. Whatever of these fails is the session's end.

  /// Sends this clock's updates.
  virtual absl::Status ship() { return absl::OkStatus(); }
  /// Nobody has been told of the clock's end yet.
  virtual void on_clock_ends() {}
  virtual void on_clock_begins(bool /*is_barrier*/) {}
  /// Waits until what this worker has in transit is allowed at its clock.
  virtual absl::Status bound_in_transit() { return absl::OkStatus(); }
  /// Batches of updates that the servers are not known to have applied, where there are the most.
  [[nodiscard]] virtual std::size_t most_outstanding() const { return 0; }

  /// Before a barrier, and before leaving, until it is true: begins to send all updates that are held back.
  virtual bool settle() { return true; }
  /// The session is about to leave, and will settle() once more.
  virtual void on_leaving() {}
  /// All is settled, and the servers hear of the goodbye next.
  virtual void on_settled() {}

  /// Rows that a server pushed.
  virtual absl::Status on_rows(ServerLink& link, const protocol::BulkMessage& message);
  /// The lane has told how many updates it has applied.
  virtual void on_applied(ServerLink& /*link*/, std::uint32_t /*lane*/) {}
  virtual absl::Status on_answers(ServerLink& link, const protocol::KeyAnswers& answers);
  virtual absl::Status on_push_answer(ServerLink& link, const protocol::PushAnswer& answer);
  virtual absl::Status on_install_answer(ServerLink& link, const protocol::InstallAnswer& answer);
  /// The session goes on without that server. REQUIRES: not follows_clocks().
  virtual void on_dead_server(std::uint32_t /*server*/) {}

 protected:
  /// A pull of `keys` from the index `next` on, to be started.
  virtual std::shared_ptr<Operation> make_pull(const Keys& keys, std::size_t next, std::byte* out) = 0;
  /// The rest of a pull, from the index `next` on, which has to wait for something. Not inlined, so that
  /// pulls that find all rows at hand do not pay for what it needs.
  [[gnu::noinline]] absl::Status pull_rest(const Keys& keys, std::byte* out, std::size_t next);

  /// A call can go ahead: in a few instructions.
  template <class Keys>
  [[nodiscard]] bool is_ready(const Keys& keys, std::size_t values) const {
    return session_.status().ok() && values == keys.size() * options_.width && keys.all_below(options_.rows);
  }
  /// Why it cannot, if so.
  [[nodiscard]] absl::Status check_ready(const Keys& keys, std::size_t values) const;
  /// Before a call that is not of the fast ones: FAILED_PRECONDITION in a thread that is not the session's,
  /// and check_ready().
  absl::Status enter(const Keys& keys, std::size_t values);

  SessionCore& session_;
  const std::uint32_t number_;
  const TableOptions options_;
  const ValueType type_;
  const std::size_t stride_bytes_;
  const std::size_t row_bytes_;
  const consistency::Rules rules_;
  const protocol::UpdateRule rule_;
  StalenessHistogram staleness_;  ///< of the reads so far

 private:
  [[nodiscard]] absl::Status check(const Keys& keys, std::size_t values) const;
  absl::Status refuse_as_static(const Keys& keys, std::size_t values, std::string_view distinction);
};

/// Of the kind that the options ask for.
std::unique_ptr<TableCore> make_table_core(SessionCore& session, std::uint32_t number,
                                           const TableOptions& options, ValueType type);

}  // namespace verbena::worker
