// The coordination store of a job: a few small keys on which all its processes agree. Who serves, who works,
// which configuration is in force. It is never on the way of a pull or a push, and a job trains on while it
// is away.
//
// Keys are bytes, in the order of bytes. Each change of the store has a revision, one more than the change
// before; a transaction is one change. An entry knows the revision of its creation and of its last change.
// Deleted and put again, it is created again.
//
//   get          Linearizable: what it returns includes each change that was acknowledged to anybody before
//                the get was asked for.
//   transaction  If all conditions hold, all puts and deletes happen, as one change; otherwise nothing does.
//                Strictly serializable. It is never repeated in secret: if its answer is lost, that is said.
//   lease        Keys that are put with it are deleted, all in one change, when it is revoked or not kept
//                alive for its time. That time is a minimum: a store may let a lease live longer, and begins
//                to count anew when it has been away itself. A holder may rely on its lease for the granted
//                time from the moment at which it ASKED for the grant or the last keep-alive, and no longer.
//                Since clocks and networks may stand still, a lease alone excludes nobody: compare a
//                revision in each transaction.
//   watch        Hints. Events of a watch come in the order of their revisions, those of one revision
//                together, none twice. They may be late without bound, and may fail to come, without a word:
//                etcd 3.4 does lose some. When a watch is known to have missed something it ends with an
//                error. So a watcher also gets what it watches, now and then and before it acts on it, and
//                watches from the revision that it got, plus one.
//
// Errors, beside those that a function names:
// - UNAVAILABLE: no answer, and nothing has happened; the store could not be reached until the deadline.
// - DEADLINE_EXCEEDED: it was asked, and did not answer until the deadline.
// - UNKNOWN: it was asked, and the connection or the store failed before the answer.
// - INVALID_ARGUMENT: the request breaks a limit, or what the function requires.
// - RESOURCE_EXHAUSTED: the store or this process has no room for it; nothing has happened.
// - UNAUTHENTICATED, PERMISSION_DENIED: the store takes no requests of this process, or not this one.
//
// After DEADLINE_EXCEEDED and UNKNOWN a transaction may have happened, or may yet happen (outcome_unknown()).
// Whoever must know puts something into a value that nobody else puts there, and reads it back. All other
// requests may be repeated, and a store repeats them by itself until their deadline: a lease granted to
// nobody ends by itself.
//
// Step-driven: functions only take requests down, poll() does what can be done without waiting and calls
// back. Callbacks come from poll() alone, each once, and may call every function of the store but poll() and
// the destructor. Time is that of poll()'s argument.
//
// Thread safety: a store belongs to one thread.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::cluster {

using transport::Duration;
using transport::TimePoint;

using Revision = std::uint64_t;  ///< 0 is none's: "never"
using LeaseId = std::uint64_t;
inline constexpr LeaseId kNoLease = 0;

/// Smaller than what etcd allows by default, so that all stores have the same.
inline constexpr std::size_t kMostKeyBytes = 1024;           ///< a key has at least one
inline constexpr std::size_t kMostRequestBytes = 512 << 10;  ///< keys and values of a transaction
inline constexpr std::size_t kMostOperations = 128;          ///< conditions; puts and deletes together
inline constexpr Duration kShortestTtl = std::chrono::milliseconds(100);
inline constexpr Duration kLongestTtl = std::chrono::hours(24);
inline constexpr std::size_t kMostUnanswered = 1024;  ///< requests of one store
inline constexpr std::size_t kMostWatches = 64;       ///< of one store

struct Entry {
  std::string key;
  std::string value;
  Revision created = 0;
  Revision modified = 0;
  LeaseId lease = kNoLease;

  bool operator==(const Entry&) const = default;
};

/// One key, or all keys that begin with `key`.
struct KeyRange {
  std::string key;
  bool is_prefix = false;

  [[nodiscard]] bool holds(std::string_view other) const {
    return is_prefix ? other.starts_with(key) : other == key;
  }
};

struct Condition {
  enum class Of : std::uint8_t { kCreated, kModified };

  std::string key;
  Of of = Of::kModified;
  Revision is = 0;  ///< 0: there is no such key
};
struct Put {
  std::string key;
  std::string value;
  LeaseId lease = kNoLease;
};
/// REQUIRES: no key is put or deleted twice.
struct Transaction {
  std::vector<Condition> conditions;
  std::vector<Put> puts;
  std::vector<std::string> deletes;  ///< a key that is not there counts as deleted
};
struct TransactionResult {
  bool succeeded = false;  ///< all conditions held
  /// Of the store, right after the transaction. If it has changed anything: of that change.
  Revision revision = 0;
};

struct Snapshot {
  Revision revision = 0;       ///< of the store
  std::vector<Entry> entries;  ///< by key
};

struct Lease {
  LeaseId id = kNoLease;
  Duration ttl = Duration::zero();  ///< not less than what was asked for
};

struct Event {
  bool is_delete = false;
  /// After the change. Of a deleted key only key and revision (`modified`).
  Entry entry;
};

// Requests as values, for what lies between a caller and the store.
struct GrantLease {
  Duration ttl = Duration::zero();
};
struct KeepLease {
  LeaseId id = kNoLease;
};
struct RevokeLease {
  LeaseId id = kNoLease;
};
using Request = std::variant<KeyRange, Transaction, GrantLease, KeepLease, RevokeLease>;
struct Revoked {};
using Answer = std::variant<Snapshot, TransactionResult, Lease, Revoked>;

/// Whether a request may have happened, or may yet happen, though it has ended with this error.
[[nodiscard]] bool outcome_unknown(const absl::Status& status);
/// Whether to repeat it does no harm.
[[nodiscard]] bool may_repeat(const Request& request);
/// INVALID_ARGUMENT: it breaks a limit, or what is required of it.
absl::Status check(const Request& request);
/// Whether an answer is of the kind of the request.
[[nodiscard]] bool answers(const Request& request, const Answer& answer);
absl::Status check_watch(std::string_view prefix, Revision from);

/// What implementations have in common is here, too: the requests that wait, their deadlines, whom to call.
class Store {
 public:
  using WatchId = std::uint64_t;
  template <class Result>
  using Done = std::function<void(const absl::StatusOr<Result>&)>;
  /// An error is the last that is heard of the watch: OUT_OF_RANGE, the store no longer has events of that
  /// revision; others, something may have been missed. Get, and watch again.
  using OnEvents = std::function<void(const absl::StatusOr<std::vector<Event>>&)>;

  /// Nothing is called back any more; what was asked for may still happen.
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  void get(KeyRange range, TimePoint deadline, Done<Snapshot> done);
  /// NOT_FOUND: a lease of a put is not there (any more); nothing has happened.
  void transact(Transaction transaction, TimePoint deadline, Done<TransactionResult> done);
  /// kShortestTtl ≤ ttl ≤ kLongestTtl
  void grant(Duration ttl, TimePoint deadline, Done<Lease> done);
  /// NOT_FOUND: the lease has ended.
  void keep_alive(LeaseId lease, TimePoint deadline, Done<Lease> done);
  /// OK also if the lease has ended before.
  void revoke(LeaseId lease, TimePoint deadline, std::function<void(const absl::Status&)> done);
  /// Events of keys that begin with `prefix` (at least one byte), of revision `from` (at least 1) and later.
  WatchId watch(std::string prefix, Revision from, OnEvents on_events);
  /// Nothing more is heard of it. A watch that has ended is no error.
  void unwatch(WatchId watch);

  /// Adds what poll() waits for. May change with each call of the store.
  virtual void add_descriptors(std::vector<pollfd>& wanted) const = 0;
  /// When poll() has something to do though no descriptor is ready. TimePoint::max(): never.
  [[nodiscard]] TimePoint next_poll() const;
  /// A bounded piece of work. Never blocks.
  void poll(TimePoint now);

 protected:
  struct Pending {
    Request request;
    TimePoint deadline;
    std::function<void(const absl::StatusOr<Answer>&)> done;
    /// The store may have heard of it. Implementations set it before the first byte goes out.
    bool is_asked = false;
    bool may_have_happened = false;  ///< its answer was lost before
  };
  struct Watch {
    std::string prefix;
    Revision next = 0;  ///< the events before this are told
    OnEvents on_events;
    bool is_asked = false;
  };

  Store() = default;

  /// Does what can be done at `now`: asks, and hears answers.
  virtual void step(TimePoint now) = 0;
  /// As next_poll(), as far as it is the implementation's affair.
  [[nodiscard]] virtual TimePoint next_step() const = 0;
  /// A request has ended before its answer came.
  virtual void on_given_up(std::uint64_t /*request*/) {}
  virtual void on_unwatched(WatchId /*watch*/) {}

  /// By number, the oldest first. finish() and tell() take elements out.
  [[nodiscard]] std::map<std::uint64_t, Pending>& pending() { return pending_; }
  [[nodiscard]] const std::map<std::uint64_t, Pending>& pending() const { return pending_; }
  [[nodiscard]] std::map<WatchId, Watch>& watches() { return watches_; }
  [[nodiscard]] const std::map<WatchId, Watch>& watches() const { return watches_; }

  /// Takes the request out of pending(). Nothing happens if it is not there: it was given up.
  void finish(std::uint64_t request, absl::StatusOr<Answer> answer);
  /// The answer will not come: the request waits to be asked again, if it may, or ends with UNKNOWN.
  void lose_answer(std::uint64_t request, std::string_view why);
  /// Events that the watch has had before are left out. An error takes the watch out of watches().
  void tell(WatchId watch, absl::StatusOr<std::vector<Event>> events);
  void lose_all(std::string_view why);
  /// Why the store cannot be reached, for messages. "" when it has answered.
  void set_trouble(std::string trouble) { trouble_ = std::move(trouble); }
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  void add(Request request, TimePoint deadline, std::function<void(const absl::StatusOr<Answer>&)> done);
  void give_up_late(TimePoint now);

  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Pending> pending_;
  std::map<WatchId, Watch> watches_;
  std::map<WatchId, OnEvents> ended_;        ///< watches whose last words are not called back yet
  std::deque<std::function<void()>> calls_;  ///< what the next poll() calls back
  std::string trouble_;
};

}  // namespace verbena::cluster
