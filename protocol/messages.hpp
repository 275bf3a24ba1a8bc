// What a server and a worker say to each other. Little-endian; control messages are packed, bulk messages
// 8-byte aligned; docs/protocol.md has both byte by byte.
//
// Control messages travel as transport messages: Hello/Welcome when a worker connects, OpenTable/TableOpened,
// RegionAdded, Goodbye, Failed, EndIteration, SaveRows/PartSaved, KeyRequests/KeyAnswers, PushAnswer,
// InstallAnswer, ServerGone, MovesEnded, Census, ServerAt; and with an observer, which is no worker and only
// looks, Observe/Observed, Describe/OpenTable, Inspect/Inspected. Bulk messages travel through a message
// ring: updates, pushes, calls, clocks and subscriptions to the server; rows, results and clocks to the
// worker. Every decode function takes bytes that anyone may have written and checks all of them:
// INVALID_ARGUMENT.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/peer_memory.hpp"
#include "protocol/open_table.hpp"
#include "protocol/placement.hpp"
#include "protocol/row_stride.hpp"
#include "protocol/slot.hpp"
#include "protocol/sparse_memory.hpp"
#include <verbena/keys.hpp>
#include <verbena/value_type.hpp>

namespace verbena::protocol {

static_assert(std::endian::native == std::endian::little,
              "messages are written in the processor's byte order");

constexpr std::uint32_t kMagic = 0x4e425256;  // "VRBN"
constexpr std::uint32_t kVersion = 27;
constexpr std::size_t kMaxReasonBytes = 1024;
constexpr std::uint32_t kMaxWorkers = 4096;
constexpr std::uint32_t kMaxLanes = 256;
constexpr std::size_t kMaxPathBytes = 1024;                     ///< of a folder
constexpr std::uint64_t kMaxExamples = std::uint64_t{1} << 48;  ///< of one worker

/// A transport's RemoteDescriptor as it travels; the protocol does not look inside.
struct Descriptor {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  std::uint64_t key = 0;

  // `Remote`: that type. The protocol does not know it.
  template <class Remote>
  static Descriptor of(const Remote& remote) {
    return {remote.address, remote.length_bytes, remote.key};
  }
  template <class Remote>
  [[nodiscard]] Remote as() const {
    return {address, length_bytes, key};
  }
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

// ---- control messages

/// Worker → server, first.
struct Hello {
  std::uint32_t worker = 0;
  std::uint32_t workers = 0;
  std::uint32_t pid = 0;
  std::uint32_t server = 0;  ///< the rank of the server that the worker believes it talks to
  std::uint32_t servers = 0;
  std::uint32_t node = 0;           ///< the rank of the server that is the worker's own
  std::uint64_t configuration = 1;  ///< the number of the one that it goes by (cluster/configuration.hpp)
  /// It was a worker of this server before, in an earlier configuration, and will say again what its Welcome
  /// does not count.
  bool is_back = false;
  /// How many processes have been this worker before it. That of a worker that takes the place of one that is
  /// gone is in the log of its server's copies: it is the place from which on it is this worker.
  std::uint32_t incarnation = 0;
  std::uint64_t inbox_bytes = 0;  ///< how large an inbox the worker asks for
  Descriptor push_ring;           ///< in the worker's memory
  Descriptor inbox_credit;        ///< in the worker's memory
  Descriptor heartbeat;           ///< in the worker's memory
};

/// Server → worker, the answer to Hello.
struct Welcome {
  std::uint32_t pid = 0;
  std::uint32_t lanes = 0;
  Descriptor inbox;             ///< in the server's memory
  Descriptor push_credit;       ///< in the server's memory
  Descriptor heartbeat;         ///< in the server's memory
  Descriptor clock_board;       ///< a ClockBoard in the memory of server 0; zeros from all other servers
  bool reads_in_place = false;  ///< the server can map what the worker grants it, see BulkKind::kElsewhere
  bool restores_rows = false;   ///< rows of dynamic tables come back from images when a node dies
  std::uint64_t messages = 0;   ///< how many is_logged() messages of the worker the server has
  /// The server has all that this worker, in whatever incarnation, had to say of the clocks below it.
  std::int64_t clock = 0;
};

/// Server → the one before it in its chain, first: it wants to follow, that is, to have the log.
struct Follow {
  std::uint32_t pid = 0;
  std::uint32_t server = 0;  ///< the rank of both
  std::uint32_t servers = 0;
  std::uint32_t workers = 0;
  std::uint32_t lanes = 0;
  std::uint64_t configuration = 0;
  std::uint64_t records = 0;  ///< of the log, that it has
  bool has_image = true;      ///< false: it joins a running job, and wants all that the other one has
  Descriptor log_ring;        ///< in its memory; for records of the log (log_record.hpp)
  Descriptor heartbeat;       ///< in its memory
};

/// Worker → server, after Hello::is_back: it has said again all that the server did not have, and knows where
/// the tables are. From now on it can be told something.
struct Adopted {
  std::uint64_t configuration = 0;
};

/// The answer to Follow.
struct Followed {
  std::uint32_t pid = 0;
  Descriptor log_credit;  ///< in the memory of the one that is followed
};

/// Server → worker, the answer to OpenTable.
struct TableOpened {
  std::uint32_t table = 0;
  /// The server's rows, in key order, row_stride_bytes() apart; for a dynamic table all slots, slot_bytes()
  /// apart. Zeros for a sparse table, whose regions have been announced before.
  Descriptor shard;
};

/// Server → worker: a region of one lane's part of a sparse table (sparse_memory.hpp). To a worker that reads
/// its messages it is sent before the lane uses the region, to others as soon as they do; who finds something
/// in a region that it has not heard of looks for news. Those that there are come before TableOpened.
/// `number`: counts the regions of each kind from 0; of a directory, its depth.
struct RegionAdded {
  std::uint32_t table = 0;
  std::uint32_t lane = 0;
  RegionKind kind = RegionKind::kRoot;
  std::uint32_t number = 0;
  /// Segments or rows, a power of two, the same in all regions of the kind; of a directory, its words.
  std::uint64_t items = 0;
  Descriptor memory;
};

/// Worker → server: the worker leaves for good and has sent everything.
struct Goodbye {};

/// In either direction: the job cannot go on.
struct Failed {
  std::uint32_t code = 0;  ///< an absl::StatusCode; not 0, which is OK
  std::string reason;
};

/// Worker → server: it has finished its examples in its clock `clock`. Server → the other workers: one worker
/// has finished, which ends the iteration of that clock under A-BSP.
struct EndIteration {
  std::int64_t clock = 0;
};

/// Worker 0 → server: a checkpoint begins (docs/checkpoints.md). The server saves its rows as they are when
/// all workers have finished the clocks below `clock`. Worker 0 finishes the last of these clocks only after
/// all servers have answered by a PartSaved.
struct SaveRows {
  std::int64_t clock = 0;
  /// Only rows that have changed since the checkpoint of this clock, which the server has written last; 0:
  /// all.
  std::int64_t since = 0;
  bool is_base = false;  ///< the next one may be an increment of this one
  std::string folder;    ///< where to, in the file system that all hosts share
};

/// About one process's part of a checkpoint. Server → worker 0: first kReady, then kWritten. Worker → server
/// 0: kWritten, which server 0 passes on to worker 0.
struct PartSaved {
  enum class Stage : std::uint32_t {
    kReady = 0,    ///< the server will save its rows
    kWritten = 1,  ///< all of the part is on the disk
  };
  std::int64_t clock = 0;
  Stage stage = Stage::kReady;
  bool is_worker = false;
  std::uint32_t rank = 0;  ///< of the server or the worker
  std::uint32_t code = 0;  ///< an absl::StatusCode; if it is not 0, there will be no such part
  std::string reason;
};

/// Worker → server: about rows of a dynamic table.
struct KeyRequests {
  enum class Kind : std::uint32_t {
    kLocate = 1,    ///< to the home: who owns it?
    kLocalize = 2,  ///< to the home: this worker's node wants to own it
    kHandOver = 3,  ///< to the owner at `epoch`: the home has given this worker the row's move
    kArrived = 4,   ///< to the home, without an answer: this worker's node owns the row, at `epoch`
    kIntend = 5,    ///< to the home: this worker will use it, until it says kDone or kSettled
    kDone = 6,      ///< to the home, without an answer: what it said with kIntend has ended
    /// To the home: the row is not where the home has said, at that epoch; where can it be taken from, for a
    /// localize?
    kMissing = 7,
    /// To the owner at `epoch`: as kHandOver, unless workers of the owner's node intend to use the row.
    kYield = 8,
    /// To the home, without an answer: the owner has kept the row at `epoch`, so that this worker's move of
    /// it is over.
    kKept = 9,
    /// To the home, without an answer: kArrived, and kDone, since this worker's intent is counted where the
    /// row is now.
    kSettled = 10,
    /// To the home, without an answer: this worker's node has kept the row from others, and none of its
    /// workers intends to use the row any more.
    kReleased = 11,
    /// To any server, for a Census: does its slot own the row, and at which epoch?
    kFind = 12,
    /// As kHandOver, to the server that may have an image of the row, of kRestoredAhead epochs before
    /// `epoch`.
    kRestore = 13,
  };
  [[nodiscard]] static constexpr bool is_answered(Kind kind) {
    return (kind <= Kind::kYield && kind != Kind::kArrived && kind != Kind::kDone) || kind >= Kind::kFind;
  }
  struct Row {
    Key key = 0;
    std::uint64_t epoch = 0;  ///< 0 if none is meant
    friend bool operator==(const Row&, const Row&) = default;
    /// It has the next key and is like `before` in all else: both travel as one.
    [[nodiscard]] bool goes_on_from(const Row& before) const {
      return key == before.key + 1 && epoch == before.epoch;
    }
  };

  Kind kind = Kind::kLocate;
  std::uint32_t table = 0;
  std::vector<Row> rows;  ///< at least one; as many as MessageRoom takes
};
static_assert(sizeof(KeyRequests::Row) == 16 && std::is_trivially_copyable_v<KeyRequests::Row>);

/// Server → worker: one answer to each row of KeyRequests that is answered, when the answer is known. Worker
/// → server, for a Census: those of kinds kHas and kHasImage that the worker was given.
struct KeyAnswers {
  enum class Kind : std::uint32_t {
    kOwned = 1,  ///< to a locate: server `node` owns it at `epoch`
    kHere = 2,   ///< to a localize or intend: `node`, which is the worker's own, owns it already, at `epoch`
    /// To a localize or intend: the move is this worker's; it now asks server `node` to hand over.
    kTake = 3,
    /// To a hand-over, and in place of kTake where the home is the owner: the slot on server `node` has
    /// ceased to own the row at `epoch`, so that this worker can take it.
    kTaken = 4,
    /// To a hand-over: the server does not own the row at that epoch, which happens only after a worker has
    /// died.
    kRefused = 5,
    kShared = 6,  ///< to an intend: other nodes will use it, too; it stays on server `node`, at `epoch`
    /// Not an answer: of all nodes, only this worker's will use the row, and it lies on server `node`, at
    /// `epoch`. Sent once after each intend, and after events that may have changed this.
    kAlone = 7,
    kLost = 8,  ///< to a locate, localize, intend or missing: the row was lost with a worker of `node`
    /// To a yield: the row stays on server `node`, at `epoch`, since workers of that node intend to use it.
    kKept = 9,
    kHas = 10,     ///< to a find: the slot on server `node` owns the row, at `epoch`
    kHasNot = 11,  ///< to a find: the slot on server `node` does not own the row
    /// To a missing: as kTake, but no slot owns the row. Server `node` may have an image of it, and is to be
    /// asked to restore it, at `epoch`.
    kImage = 12,
    /// To a find: as kHasNot, but the server has an image of the row, which was on server `node`, which is
    /// gone, at `epoch`.
    kHasImage = 13,
  };
  struct Answer {
    Key key = 0;
    Kind kind = Kind::kOwned;
    std::uint32_t node = 0;
    std::uint64_t epoch = 0;
    friend bool operator==(const Answer&, const Answer&) = default;
    [[nodiscard]] bool goes_on_from(const Answer& before) const {
      return key == before.key + 1 && kind == before.kind && node == before.node && epoch == before.epoch;
    }
  };

  std::uint32_t table = 0;
  std::vector<Answer> answers;  ///< at least one; as many as MessageRoom takes
};
static_assert(sizeof(KeyAnswers::Answer) == 24 && std::is_trivially_copyable_v<KeyAnswers::Answer>);

/// How many rows or answers, in their order, one message has room for. Those that go on from one another are
/// a run, which takes the space of one: so a block of a matrix is one message.
template <class Item>
class MessageRoom {
 public:
  static constexpr std::size_t kMaxItems = 1024;
  static constexpr std::size_t kMaxRuns = 120;

  /// False: the item is for the next message.
  bool take(const Item& item) {
    const bool begins = items_ == 0 || !item.goes_on_from(last_);
    if (items_ == kMaxItems || (begins && runs_ == kMaxRuns)) return false;
    runs_ += begins ? 1 : 0;
    ++items_;
    last_ = item;
    return true;
  }

 private:
  std::size_t items_ = 0;
  std::size_t runs_ = 0;
  Item last_;
};

/// A worker chooses it for a message that is answered; the answer repeats it.
using Tag = std::uint64_t;

constexpr std::uint32_t kMaxPushRecords = 1024;

/// Server → worker, the answer to kPush. The server has applied all records of the push except those in
/// `moved`, because it does not own their rows.
struct PushAnswer {
  std::uint32_t table = 0;
  Tag tag = 0;
  std::uint32_t records = 0;         ///< of the push: 1 to kMaxPushRecords
  std::vector<std::uint32_t> moved;  ///< indices of records, ascending
  friend bool operator==(const PushAnswer&, const PushAnswer&) = default;
};

/// Server → worker, the answer to kInstall: the slots own their rows now.
struct InstallAnswer {
  std::uint32_t table = 0;
  Tag tag = 0;
  friend bool operator==(const InstallAnswer&, const InstallAnswer&) = default;
};

// Of jobs that go on without servers that die (decision 65). Servers have no connections to one another: what
// one has to know of another, workers tell it.

/// Worker → server: its connection to that server has ended, so that the server is gone for it; or another
/// server has told it so. Server → worker: a worker has said so, and whoever hears it does without that
/// server, too. Each server comes once.
struct ServerGone {
  std::uint32_t server = 0;
};

/// Worker → server: it knows of as many servers that are gone, and has said which. Rows that it was moving
/// because one of them, as their home, had told it to have come or stay where they are.
struct MovesEnded {
  std::uint32_t gone = 0;
};

/// Server → worker: it inherits the keys of the home `server`, which is gone. The worker is to ask all
/// servers that are left which rows of `table` they own of these keys, and to pass the answers on. Worker →
/// server: it has passed on all answers.
struct Census {
  std::uint32_t table = 0;
  std::uint32_t server = 0;
  std::uint32_t gone = 0;  ///< how many servers were gone when it began: the newest one counts
  friend bool operator==(const Census&, const Census&) = default;
};

// Of jobs whose rows come back when a node dies (decision 75): a server keeps images of another one's rows.

/// Worker → server: where another server listens.
struct ServerAt {
  std::uint32_t server = 0;
  std::string address;  ///< 1 to kMaxPathBytes bytes
};

/// Server → another server, first: it keeps images of that one's rows. All that it has had before are
/// forgotten.
struct BackUp {
  std::uint32_t pid = 0;
  std::uint32_t server = 0;  ///< that keeps them
  std::uint32_t servers = 0;
  std::uint32_t of = 0;  ///< the server that is to send them
  Descriptor ring;       ///< in its memory; for kImages, kLeft, kBlank and kAllSent
};

/// The answer to BackUp.
struct BackedUp {
  Descriptor credit;  ///< in the memory of the one that sends images
};

/// Observer → server: first, and whenever it wants to know how the job is.
struct Observe {};

/// Server → observer, the answer to Observe.
struct Observed {
  std::uint32_t server = 0;
  std::uint32_t servers = 0;
  std::uint32_t workers = 0;  ///< of the job
  std::uint32_t left = 0;     ///< of these, how many have left
  std::uint32_t lanes = 0;
  std::uint32_t tables = 0;  ///< that are open
  /// The least that a worker has told this server; of workers that have not left. Workers tell it only to
  /// servers whose tables need it.
  std::int64_t clock = 0;
};

/// Observer → server: what is that table like? The answer is the OpenTable that it was opened with.
struct Describe {
  std::uint32_t table = 0;
};

/// Observer → server: a call of a server function that changes no rows, for one lane. The next one may come
/// when all of the answer is there.
struct Inspect {
  std::uint32_t table = 0;
  std::uint32_t lane = 0;
  /// If there are no keys: which of the lane's rows, counted from its first one.
  std::uint64_t first_row = 0;
  std::uint64_t most_rows = UINT64_MAX;
  std::string text;       ///< the function, with its parameters
  std::vector<Key> keys;  ///< at most kMaxInspectedKeys; those of other lanes are passed over
};
constexpr std::size_t kMaxInspectedKeys = 256;

/// Server → observer: a piece of the answer to Inspect, which is a CallAnswer (server_function.hpp).
struct Inspected {
  std::uint64_t rows = 0;  ///< of the lane, when it was looked at
  std::uint64_t words_left = 0;
  std::vector<std::uint64_t> words;  ///< at most kMaxInspectedWords
};
constexpr std::size_t kMaxInspectedWords = 448;

/// A worker that waits for more answers than this from one server breaks the rules. A push counts for its
/// records and one more, an install for one.
constexpr std::size_t kMaxOpenRequests = 65536;

using ControlMessage =
    std::variant<Hello, Welcome, OpenTable, TableOpened, Goodbye, Failed, EndIteration, KeyRequests,
                 KeyAnswers, PushAnswer, InstallAnswer, RegionAdded, Observe, Observed, Describe, Inspect,
                 Inspected, SaveRows, PartSaved, Follow, Followed, Adopted, ServerGone, MovesEnded, Census,
                 ServerAt, BackUp, BackedUp>;

/// Whether only observers send such messages.
inline bool comes_from_observer(const ControlMessage& message) {
  return std::holds_alternative<Observe>(message) || std::holds_alternative<Describe>(message) ||
         std::holds_alternative<Inspect>(message);
}

[[nodiscard]] std::string encode(const ControlMessage& message);
absl::StatusOr<ControlMessage> decode_control(std::span<const std::byte> bytes);

// ---- bulk messages

enum class BulkKind : std::uint32_t {
  kUpdates = 1,  ///< worker → server: `count` records of `table` in `lane`, made at clock `clock`
  /// worker → server: the worker has finished all clocks below `clock`. `count` is 1 if ExampleCounts of the
  /// last of these clocks follow, 0 if nothing does.
  kClock = 2,
  kSubscribe = 3,  ///< worker → server: `count` rows of `table` in `lane`, each a Key
  /// server → worker: `count` records of `table` in `lane`; 0 if there is only a clock to tell. After them
  /// the min clock of the lane is `clock`, and each row last received from the lane holds all updates of
  /// clocks < `clock`.
  kRows = 4,
  kUnsubscribe = 5,   ///< worker → server: as kSubscribe; these rows are no longer to be pushed
  kUpdatesAhead = 6,  ///< as kUpdates; the server tells the worker as soon as they are applied
  /// worker → server: a tag, and `count` records of dynamic `table`, at most kMaxPushRecords, to be added to
  /// the rows that this server owns.
  kPush = 7,
  /// worker → its own server: a tag, and `count` slots that the worker has taken, each with its key before
  /// it; these slots own their rows from now on.
  kInstall = 8,
  /// worker → server: a Descriptor of a kUpdates, kUpdatesAhead or kPackedUpdates, with its header, that lies
  /// in the worker's memory and was granted to the server. It stays as it is until it is applied. Only to
  /// servers that can map it (Welcome::reads_in_place).
  kElsewhere = 9,
  /// worker → server: a call of a server function, one that changes rows, for rows of `table` in `lane`, made
  /// at clock `clock`; its `count` keys, or, if there are none, its range (server_function.hpp).
  kCall = 10,
  /// server → worker: a piece of the answer to a kCall or kLook, `count` words. `clock`, `applied` and
  /// `subscriptions` as in a kRows without rows.
  kResult = 11,
  /// worker → server: as kUpdates or kUpdatesAhead, `count` updates in fewer bytes (packed_updates.hpp).
  kPackedUpdates = 12,
  /// server → worker: `count` words about sparse `table` in `lane`: a key whose row was taken away, or kNoKey
  /// for a segment of the index that was. The rest as in a kRows without rows.
  kGone = 13,
  /// worker → server: it knows of as many words as `applied` says, of all kGone of `lane`, and looks for
  /// nothing any more where these rows and segments were.
  kHeard = 14,
  /// As kCall, of a function that changes no rows: whoever does not get its answer may ask again.
  kLook = 15,
  // Server → server, over BackUp's ring:
  kImages = 16,  ///< `count` slots of dynamic `table`, each with its key before it, as they are there now
  kLeft = 17,    ///< `count` keys of `table`: their rows are no longer there
  kBlank = 18,   ///< `count` KeyRanges of `table`: rows that are there, at epoch 0, and hold only zeros
  /// All rows of the first `count` tables that have changed since the kAllSent before have been sent, or all
  /// if it is the first one.
  kAllSent = 19,
};

/// Whether messages of this kind change what a server has. The copies of a server get them, too, and a worker
/// keeps them until they have.
constexpr bool is_logged(BulkKind kind) {
  return kind == BulkKind::kUpdates || kind == BulkKind::kUpdatesAhead || kind == BulkKind::kPackedUpdates ||
         kind == BulkKind::kClock || kind == BulkKind::kCall;
}
constexpr bool is_call(BulkKind kind) {
  return kind == BulkKind::kCall || kind == BulkKind::kLook;
}

/// Whether updates are in the message, in whatever form.
constexpr bool has_updates(BulkKind kind) {
  return kind == BulkKind::kUpdates || kind == BulkKind::kUpdatesAhead || kind == BulkKind::kPackedUpdates;
}

/// Whether only servers send such messages.
constexpr bool comes_from_server(BulkKind kind) {
  return kind == BulkKind::kRows || kind == BulkKind::kResult || kind == BulkKind::kGone;
}

struct BulkHeader {
  BulkKind kind = BulkKind::kUpdates;
  std::uint32_t table = 0;
  std::uint32_t lane = 0;
  std::uint32_t count = 0;
  std::int64_t clock = 0;
  /// kRows: how many of this worker's messages with updates for `lane` the lane had applied: of tables whose
  /// updates it applies as they come, and of those whose updates wait for the ends of clocks. These rows hold
  /// exactly those.
  std::uint64_t applied = 0;
  std::uint64_t applied_held = 0;
  /// kRows: how many of this worker's kSubscribe and kUnsubscribe messages the lane had processed.
  std::uint64_t subscriptions = 0;
};
static_assert(sizeof(BulkHeader) == 48 && std::is_trivially_copyable_v<BulkHeader>);

/// Where the records of a kPush or kInstall begin: after the header and the tag.
constexpr std::size_t kTaggedRecordsBegin = sizeof(BulkHeader) + sizeof(Tag);

/// With kClock: how many of its examples the worker has processed in the clock that it has finished.
struct ExampleCounts {
  std::uint64_t processed = 0;
  std::uint64_t planned = 0;
};
static_assert(sizeof(ExampleCounts) == 16 && std::is_trivially_copyable_v<ExampleCounts>);

/// No bulk message is larger than this part of its ring, so that a ring holds several.
constexpr std::size_t max_bulk_bytes(std::size_t ring_bytes) {
  return ring_bytes / 8 / 8 * 8;
}
constexpr std::size_t kMinRingBytes = 4096;
constexpr std::size_t kMaxRingBytes = std::size_t{1} << 30;

/// A record is the row's key in the whole table (8 bytes), then row_stride_bytes() of values.
constexpr std::size_t record_bytes(std::size_t stride_bytes) {
  return sizeof(Key) + stride_bytes;
}

/// Header and payload of a bulk message whose length agrees with its header.
struct BulkMessage {
  BulkHeader header;
  std::span<const std::byte> payload;
};

/// Splits off the header, which is a copy; the payload stays where it is. Lengths are checked by the
/// functions below, once the table is known.
absl::StatusOr<BulkMessage> decode_bulk(std::span<const std::byte> bytes);

// The payload may lie where the peer can still write. So what these functions find out about keys is true at
// this moment only. It reports a peer that made a mistake; code that reads a key later must check the key
// that it has read.

/// Where the message of a kElsewhere is.
absl::StatusOr<Descriptor> decode_elsewhere(const BulkMessage& message);

/// Takes the tag of a kPush or kInstall off its payload.
absl::StatusOr<Tag> take_tag(BulkMessage& message);

/// `count` records. REQUIRES: stride_bytes is a multiple of 8.
absl::Status check_record_count(const BulkMessage& message, std::size_t stride_bytes);

/// `count` records with keys that all lie in `range`. REQUIRES: as above.
absl::Status check_records(const BulkMessage& message, std::size_t stride_bytes, KeyRange range);

/// `count` keys that all lie in `range`.
absl::Status check_keys(const BulkMessage& message, KeyRange range);

/// The same for a sparse table.
absl::Status check_keys(const BulkMessage& message, const HashedKeys& keys);

/// The error for a record with a key that is not in `range`, or `keys`.
[[nodiscard]] absl::Status wrong_record(Key key, KeyRange range);
[[nodiscard]] absl::Status wrong_record(Key key, const HashedKeys& keys);

/// The counts that go with a kClock; zeros if there are none.
absl::StatusOr<ExampleCounts> decode_example_counts(const BulkMessage& message);

/// Loaded once: what is checked is what is used.
inline Key record_key(std::span<const std::byte> payload, std::size_t stride_bytes, std::size_t record) {
  return base::load_once<Key>(payload.data() + record * record_bytes(stride_bytes));
}
inline const std::byte* record_values(std::span<const std::byte> payload, std::size_t stride_bytes,
                                      std::size_t record) {
  return payload.data() + record * record_bytes(stride_bytes) + sizeof(Key);
}

}  // namespace verbena::protocol
