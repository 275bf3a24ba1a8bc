// This server's part of a dynamic table: a slot for every key (protocol/slot.hpp), and what this server, as
// the home, knows of the keys that the partition gives to it, and of those that it has inherited.
//
// Other processes change the slots at the same time: the workers of this server's node, in place. So whatever
// this server does to a row, it does under the row's lock. It tries once, and puts off the work if the row is
// locked.
//
// Thread safety: belongs to the transport's thread; the slots as above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/heirs.hpp"
#include "protocol/messages.hpp"
#include "protocol/placement.hpp"
#include "protocol/presence.hpp"
#include "protocol/slot.hpp"
#include "server/homes.hpp"
#include "server/inherited_keys.hpp"
#include "server/lane.hpp"
#include "server/row_images.hpp"
#include "server/table_shard.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

struct SavedRows;

class MovingShard : public TableShard {
 public:
  /// All rows are zero, and those of this server's keys are owned here; that takes no time and no pages.
  /// `rule`: the table's, from protocol::check_together(). INVALID_ARGUMENT for too many servers,
  /// RESOURCE_EXHAUSTED if memory is short.
  static absl::StatusOr<std::unique_ptr<MovingShard>> create(transport::Transport& transport,
                                                             const protocol::OpenTable& table,
                                                             const protocol::UpdateRule& rule,
                                                             std::uint32_t server,
                                                             const protocol::Placement& placement);

  /// All slots, and each key's presence word. Access is kRemoteReadHostWrite: this server's own node changes
  /// them in place, others read them.
  [[nodiscard]] const transport::MemoryRegion& region() const { return *region_; }
  [[nodiscard]] std::size_t size_bytes() const { return region_->bytes().size(); }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] std::size_t stride_bytes() const { return stride_bytes_; }
  [[nodiscard]] KeyRange home_keys() const { return home_keys_; }
  /// Where a row lies if this server has it. For rows that are loaded, before any worker has the table open.
  [[nodiscard]] std::byte* values_of(Key key) { return protocol::slot_values(slot(key)); }
  /// Copies all rows that this server owns. Throws std::bad_alloc. REQUIRES: no worker pushes or moves rows.
  void copy_rows(SavedRows& to) const;

  [[nodiscard]] MovingShard* moving() override { return this; }
  [[nodiscard]] std::size_t row_message_bytes() const override {
    return sizeof(protocol::Tag) + protocol::record_bytes(slot_bytes_);
  }
  [[nodiscard]] absl::StatusOr<transport::RemoteDescriptor> grant(transport::Connection& connection,
                                                                  bool is_own_node) const override;
  absl::Status on_bulk(const Sender& sender, const protocol::BulkMessage& message, InboxMessage& inbox,
                       ShardHost& host) override;
  absl::Status on_key_requests(const Sender& sender, const protocol::KeyRequests& requests,
                               ShardHost& host) override;
  void on_goodbye(const Homes::Worker& worker, ShardHost& host) override {
    on_goodbye(worker.rank, host.key_answers());
  }
  void on_lost(const Homes::Worker& worker, ShardHost& host) override { on_lost(worker, host.key_answers()); }
  // When another server is gone (succession.hpp):

  /// This server inherits the keys of the home `from`, if it has not done so before. RESOURCE_EXHAUSTED.
  absl::Status inherit(std::uint32_t from);
  /// Yet another server is gone: until begin_census(), rows may be on their way that nobody knows of.
  void put_off_census();
  /// Nobody moves rows any more that only a home which is gone could have told it to; `gone`: so many servers
  /// are. From now on, workers that ask about inherited keys are to find out who owns them. `are_at_rest`:
  /// nor does anybody use the rows that were there, so that they may come back.
  void begin_census(std::uint32_t gone, bool are_at_rest, ShardHost& host);
  /// INVALID_ARGUMENT if the key is none that could be found.
  absl::Status on_found(std::uint32_t worker, const protocol::KeyAnswers::Answer& answer);
  /// A worker has ended the newest census of the keys of the home census.server. Adds the answers to the
  /// requests that have waited for it.
  absl::Status on_census(std::uint32_t worker, const protocol::Census& census, Homes::Answers& answers);

  // Rows that come back when a node dies (backup.hpp):

  /// They do. `heirs`: who is gone; must outlive the shard. To be called first, if at all.
  void restore_rows(const protocol::Heirs& heirs) { heirs_ = &heirs; }
  /// What is to be sent to the server that keeps images of this node's rows.
  struct RowsToSend {
    std::vector<std::byte> images;  ///< as many records of a key and its slot
    std::uint32_t count = 0;
    std::vector<KeyRange> blank;  ///< rows of zeros, at epoch 0
    [[nodiscard]] bool empty() const { return count == 0 && blank.empty(); }
  };
  /// Adds rows that have changed since their last image, or all that are here: looks at keys from `next` on,
  /// at some at a time, and moves `next` on. Rows that somebody holds are left out: they will have changed.
  void take_images(Key& next, bool all, std::size_t most_bytes, RowsToSend& to);
  /// Nobody keeps images of this node's rows now, or somebody does: then what leaves is noted.
  void note_what_leaves(bool whether) {
    notes_what_leaves_ = whether;
    left_.clear();
  }
  /// Up to so many keys whose rows have left since they were noted, each once.
  [[nodiscard]] std::vector<Key> take_left(std::size_t most);
  [[nodiscard]] bool has_left() const { return !left_.empty(); }
  // This server keeps images of the rows of the node `of`. INVALID_ARGUMENT for what breaks the rules,
  // RESOURCE_EXHAUSTED.
  absl::Status on_images(std::uint32_t of, const protocol::BulkMessage& message);
  /// Those of `of` are of no use any more.
  void drop_images(std::uint32_t of) { images_.erase(of); }
  [[nodiscard]] std::uint64_t images(std::uint32_t of) const;

  bool try_again(ShardHost& host) override { return try_again(host.key_answers(), host.message_answers()); }
  [[nodiscard]] bool has_put_off() const override {
    return !put_off_.empty() || forgotten_ < table.rows || (are_at_rest_ && !unsettled_.empty());
  }
  void forget_put_off() override;

  // Each adds its answers, and those that others have waited for. Errors: INVALID_ARGUMENT for what the rules
  // do not allow.
  absl::Status on_requests(const Homes::Worker& worker, const protocol::KeyRequests& requests,
                           Homes::Answers& answers);
  /// The message stays in use, as `inbox` counts, until its answer is there.
  absl::Status on_push(const Homes::Worker& worker, const protocol::BulkMessage& message, InboxMessage& inbox,
                       MessageAnswers& answers);
  absl::Status on_install(const Homes::Worker& worker, const protocol::BulkMessage& message,
                          MessageAnswers& answers);

  /// What the worker has intended is over.
  void on_goodbye(std::uint32_t worker, Homes::Answers& answers);
  /// The worker has died. Rows that it held may contain half an update, so they are lost; whoever wants to
  /// change or move one finds that out.
  void on_lost(const Homes::Worker& worker, Homes::Answers& answers);

  /// Tries again what was put off; true if something of it is done.
  bool try_again(Homes::Answers& answers, MessageAnswers& message_answers);

 private:
  struct HandOver {
    std::uint32_t worker = 0;
    protocol::KeyRequests::Row row;
    bool yields = false;  ///< only if the row is not kept
  };
  /// A push that goes on from its record `next`.
  struct Push {
    std::uint32_t worker = 0;
    std::span<const std::byte> records;
    std::uint32_t next = 0;
    protocol::PushAnswer answer;  ///< as far as it is known
    InboxMessage* inbox = nullptr;
  };
  using PutOff = std::variant<HandOver, Push>;

  MovingShard(const protocol::OpenTable& open, const protocol::UpdateRule& rule, std::uint32_t server,
              const protocol::TablePlacement& placement, Homes homes,
              std::unique_ptr<transport::MemoryRegion> region);
  [[nodiscard]] protocol::Slot slot(Key key) const {
    return protocol::slot_at(region_->bytes().data(), slot_bytes_, key, home_keys_);
  }
  /// Of keys that this server has inherited; nullptr: it has not.
  [[nodiscard]] InheritedKeys* inherited(Key key);
  /// REQUIRES: the key is one of this server's, or inherited and known.
  [[nodiscard]] Homes& homes_of(Key key);
  /// A request about a key of these homes.
  absl::Status on_request(Homes& homes, const InheritedKeys::Request& request, Homes::Answers& answers);
  void order_census(ShardHost& host);
  void find(Key key, std::uint32_t worker, Homes::Answers& answers) const;
  /// The row lies here now; its values have been written.
  void own(Key key, std::uint64_t epoch);
  /// Whether a worker that has died held the row; if so, this slot no longer owns the row from now on.
  [[nodiscard]] bool is_given_up(Key key);
  void note_that_it_leaves(Key key) {
    if (notes_what_leaves_) left_.insert(key);
  }
  /// A worker misses the row, which its home believes to be on a node that is gone.
  struct Missed {
    bool may_come_back = false;  ///< if nobody else may have it, it may come back from an image
    std::uint32_t keeper = 0;    ///< which server may have one
  };
  [[nodiscard]] Missed missed(const Homes& homes, Key key);
  /// Of the rows of a node that is gone.
  struct Image {
    std::uint32_t of = 0;
    std::uint64_t epoch = 0;
  };
  [[nodiscard]] std::optional<Image> image(Key key) const;
  /// An image becomes the row of this slot, as if that had owned it until now.
  [[nodiscard]] bool restore(Key key, std::uint64_t epoch);
  absl::Status settle_missed(Homes::Answers& answers);
  /// Does what can be done now; true if the request is done.
  bool hand_over(const HandOver& request, Homes::Answers& answers);
  enum class Handed : std::uint8_t { kTaken, kKept, kBusy, kNotOwned };
  [[nodiscard]] Handed try_hand_over(Key key, std::uint64_t epoch, bool yields);
  bool push(Push& request, MessageAnswers& answers);
  /// If this server is the one that must hand over, it does so at once and need not be asked.
  void take_here(Homes::Answers& answers, std::size_t first);
  /// Nobody knows what a dead worker intended, so the intents of this server's node are counted anew. Does
  /// some keys at a time; false if none were left.
  bool forget_some_intents();

  const protocol::UpdateRule rule_;
  const std::uint32_t server_;
  const std::size_t stride_bytes_;
  const std::size_t slot_bytes_;
  const protocol::TablePlacement placement_;
  const KeyRange home_keys_;
  Homes homes_;
  std::vector<InheritedKeys> inherited_;
  std::uint32_t census_gone_ = 0;  ///< begin_census(); 0: none can be made
  std::unique_ptr<transport::MemoryRegion> region_;
  const protocol::PresenceMap presence_;
  std::deque<PutOff> put_off_;
  const protocol::Heirs* heirs_ = nullptr;     ///< nullptr: rows do not come back
  std::map<std::uint32_t, RowImages> images_;  ///< by node
  bool notes_what_leaves_ = false;
  absl::flat_hash_set<Key> left_;
  bool are_at_rest_ = false;  ///< begin_census()
  /// Workers that miss rows which may come back, until are_at_rest_.
  std::vector<InheritedKeys::Request> unsettled_;
  std::vector<Homes::Worker> lost_;          ///< workers that have died
  absl::flat_hash_set<std::uint32_t> dead_;  ///< dead workers, as holders of locks
  Key forgotten_;                            ///< intents on keys below it are, since the last of dead_ died
};

}  // namespace verbena::server
