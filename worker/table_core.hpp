// A table of either kind, as a session sees it: worker/fixed has the static tables, worker/moving the dynamic
// ones.
//
// It is an interface of two sides, what users call and what a session tells, so it has many functions. Most
// have a body here that does nothing, and a kind overrides those that concern it.
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
#include "worker/row_layout.hpp"
#include "worker/server_link.hpp"
#include "worker/session_core.hpp"
#include <verbena/row_handles.hpp>
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
  /// Keys are below this.
  [[nodiscard]] std::uint64_t keys_end() const { return keys_end_; }
  [[nodiscard]] const consistency::Rules& rules() const { return rules_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] ValueType value_type() const { return layout_.type; }
  [[nodiscard]] const StalenessHistogram& staleness() const { return staleness_; }

  // ---- what users call (<verbena/table.hpp>). `values`: how many they gave.

  virtual absl::Status pull(std::span<const Key> keys, std::byte* out, std::size_t values) = 0;
  virtual absl::Status pull(KeyRange range, std::byte* out, std::size_t values) = 0;
  /// For sparse tables. Other tables return FAILED_PRECONDITION.
  virtual absl::StatusOr<RowHandles> locate(const Keys& keys);
  virtual absl::Status pull_located(RowHandles& rows, std::byte* out, std::size_t values);
  /// `wait`: whether the push waits until its updates are applied, if the model makes pushes wait for that.
  virtual absl::Status push(std::span<const Key> keys, const std::byte* updates, std::size_t values,
                            bool wait) = 0;
  virtual absl::Status push(KeyRange range, const std::byte* updates, std::size_t values, bool wait) = 0;
  absl::StatusOr<std::shared_ptr<Operation>> start_pull(const Keys& keys, std::byte* out, std::size_t values,
                                                        Operations after);

  /// For sparse tables: calls use(key, values) for each row that there is. Other tables return
  /// FAILED_PRECONDITION.
  virtual absl::Status scan(KeyRange range, absl::FunctionRef<absl::Status(Key, const std::byte*)> use);

  /// For static tables: calls a server function; the operation is a FunctionCallOperation. `wait`: the caller
  /// will wait for it in this clock. Other tables return FAILED_PRECONDITION.
  virtual absl::StatusOr<std::shared_ptr<Operation>> start_call(std::string_view function, const Keys& keys,
                                                                std::span<const double> numbers, bool wait);

  // For dynamic tables; a static table returns FAILED_PRECONDITION.

  [[nodiscard]] virtual bool rows_move() const { return false; }
  virtual absl::StatusOr<std::shared_ptr<Operation>> start_localize(const Keys& keys,
                                                                    const Operations& after);
  /// The worker will use `keys` in its clocks from … to − 1.
  virtual absl::Status intend(const Keys& keys, consistency::Clock from, consistency::Clock to);
  /// Takes the locks of those rows that are on this node and free. Calls use(i, p): p is where the values of
  /// keys[i] are, or nullptr. `rows`: how many places there are for these addresses. Returns how many rows it
  /// took. FAILED_PRECONDITION: some rows are held already.
  virtual absl::StatusOr<std::size_t> hold(const Keys& keys, std::size_t rows,
                                           absl::FunctionRef<void(std::size_t, std::byte*)> use);
  /// Gives back what hold() took.
  virtual void release() {}
  /// hold() would take the row if nobody held its lock.
  [[nodiscard]] virtual bool is_free_here(Key /*key*/) const { return false; }
  /// is_free_here() will be called soon.
  virtual void prefetch(Key /*key*/) const {}
  /// Replaces those of `keys` that are not near by others that are, each with probability `preference`, as
  /// far as near ones are found. Returns how many were replaced. REQUIRES: rows_move()
  virtual std::size_t redraw(std::span<Key> keys, double preference, const KeyDistribution& distribution,
                             std::mt19937_64& random) const;

  // ---- what the session calls

  /// A copy has taken the server's place, and has the table at `shard`, and the regions of link.regions.
  virtual absl::Status on_server_back(ServerLink& link, const transport::RemoteDescriptor& shard);
  /// Called when every server has opened its shard: for one server after the other, in the order of ranks.
  virtual absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& shard) = 0;
  /// The server has keys of the table.
  [[nodiscard]] virtual bool has_keys_of(std::uint32_t server) const;
  /// Reads of the table wait for the servers' clocks, so servers that have rows of it are told this worker's
  /// clock.
  [[nodiscard]] virtual bool follows_clocks() const = 0;

  /// Called in each poll: sends what could not be sent before. Returns true if nothing is left that others
  /// must be told before this worker's clock.
  virtual bool send_put_off() { return true; }

  // How a clock ends: the session calls ship(), then on_clock_ends(); waits until send_put_off() returns
  // true; tells the servers; begins the next clock; and waits for other workers and for what is described
  // below. If any of these fails, the session ends.

  /// Sends this clock's updates.
  virtual absl::Status ship() { return absl::OkStatus(); }
  /// Nobody has been told of the clock's end yet.
  virtual void on_clock_ends() {}
  virtual void on_clock_begins(bool /*is_barrier*/) {}
  /// Waits until what this worker has in transit is allowed at its clock.
  virtual absl::Status bound_in_transit() { return absl::OkStatus(); }
  /// How many batches of updates the servers are not known to have applied, in the part of the table that has
  /// the most.
  [[nodiscard]] virtual std::size_t most_outstanding() const { return 0; }

  /// Called before a barrier and before leaving, until it returns true: begins to send all updates that are
  /// held back.
  virtual bool settle() { return true; }
  /// The session is about to leave, and will call settle() once more.
  virtual void on_leaving() {}
  /// All is settled; the servers will be told goodbye next.
  virtual void on_settled() {}

  /// Rows that a server pushed.
  virtual absl::Status on_rows(ServerLink& link, const protocol::BulkMessage& message);
  /// A piece of an answer to a call.
  virtual absl::Status on_result(ServerLink& link, const protocol::BulkMessage& message);
  /// The lane has told how many updates it has applied.
  virtual void on_applied(ServerLink& /*link*/, std::uint32_t /*lane*/) {}
  virtual absl::Status on_answers(ServerLink& link, const protocol::KeyAnswers& answers);
  virtual absl::Status on_push_answer(ServerLink& link, const protocol::PushAnswer& answer);
  virtual absl::Status on_install_answer(ServerLink& link, const protocol::InstallAnswer& answer);
  virtual absl::Status on_census(ServerLink& link, const protocol::Census& census);
  /// A kGone for this table: its payload has as many words as its header says.
  virtual absl::Status on_gone(ServerLink& link, const protocol::BulkMessage& message);
  /// A server has another region of a sparse table.
  virtual absl::Status on_region(ServerLink& link, const protocol::RegionAdded& added);
  /// The session goes on without that server. REQUIRES: not follows_clocks().
  virtual void on_dead_server(std::uint32_t /*server*/) {}

 protected:
  /// A pull of `keys` from the index `next` on, to be started.
  virtual std::shared_ptr<Operation> make_pull(const Keys& keys, std::size_t next, std::byte* out) = 0;
  /// A pull by a user: `pull_now(keys)` reads the first rows, those at hand, and returns how many; the rest
  /// waits. Inlined, with what it calls: most pulls are a few instructions a row.
  template <class Keys, class PullNow>
  [[gnu::always_inline]] absl::Status pull_rows(const Keys& keys, std::byte* out, std::size_t values,
                                                const PullNow& pull_now) {
    if (!session_.is_here()) [[unlikely]]
      return session_.elsewhere();
    session_.poll_sometimes(keys.size());
    if (!is_ready(keys, values)) [[unlikely]]
      return check_ready(keys.all(), values);
    session_.counters().rows_pulled += keys.size();
    const std::size_t done = pull_now(keys);
    return done == keys.size() ? absl::OkStatus() : pull_rest(keys.all(), out, done);
  }
  /// The rest of a pull, from the index `next` on, if it has to wait for something. Not inlined, so that
  /// pulls that find all rows at hand do not pay for what it needs.
  [[gnu::noinline]] absl::Status pull_rest(const Keys& keys, std::byte* out, std::size_t next);

  /// Whether a call can go ahead. Takes a few instructions.
  template <class Keys>
  [[nodiscard]] bool is_ready(const Keys& keys, std::size_t values) const {
    return session_.status().ok() && values == keys.size() * options_.width && keys.all_below(keys_end_);
  }
  /// Why a call cannot go ahead; OK if it can.
  [[nodiscard]] absl::Status check_ready(const Keys& keys, std::size_t values) const;
  /// Called first by each call that is not a fast one. FAILED_PRECONDITION in a thread that is not the
  /// session's; otherwise check_ready().
  absl::Status enter(const Keys& keys, std::size_t values);

  SessionCore& session_;
  const std::uint32_t number_;
  const TableOptions options_;
  const std::uint64_t keys_end_;
  const RowLayout layout_;
  const consistency::Rules rules_;
  StalenessHistogram staleness_;  ///< of the reads so far

 private:
  [[nodiscard]] absl::Status check(const Keys& keys, std::size_t values) const;
  absl::Status refuse_as_dense();
  absl::Status refuse_as_static(const Keys& keys, std::size_t values, std::string_view distinction);
};

/// Makes a table of the kind that the options ask for.
std::unique_ptr<TableCore> make_table_core(SessionCore& session, std::uint32_t number,
                                           const TableOptions& options, ValueType type);

}  // namespace verbena::worker
