#include "server/moving_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/prefetch.hpp"
#include "base/return_if_error.hpp"
#include "base/word_copy.hpp"
#include "protocol/placement.hpp"
#include "protocol/row_stride.hpp"
#include "protocol/slot.hpp"
#include "server/saved_rows.hpp"

namespace verbena::server {

using protocol::KeyAnswers;
using protocol::KeyRequests;
using protocol::LockResult;
using protocol::Presence;
using protocol::SlotHeader;

namespace {
/// Some tens of microseconds: others wait for the server meanwhile.
constexpr Key kKeysForgottenAtOnce = Key{1} << 15U;
/// The same, where slots are looked at, which are in no cache.
constexpr Key kKeysImagedAtOnce = Key{1} << 11U;
}  // namespace

absl::StatusOr<std::unique_ptr<MovingShard>> MovingShard::create(transport::Transport& transport,
                                                                 const protocol::OpenTable& table,
                                                                 const protocol::UpdateRule& rule,
                                                                 std::uint32_t server,
                                                                 const protocol::Placement& placement) {
  if (placement.servers() > Homes::kMaxNodes) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\" is dynamic, which works with up to {} servers, not {}", table.name,
                    Homes::kMaxNodes, placement.servers()));
  }
  const std::size_t slot_bytes =
      protocol::slot_bytes(protocol::row_stride_bytes(table.value_type, table.width));
  const std::size_t bytes =
      table.rows > SIZE_MAX / 8 / slot_bytes ? SIZE_MAX : protocol::slot_region_bytes(table.rows, slot_bytes);
  auto region = transport.allocate_region(bytes, transport::Access::kRemoteReadHostWrite);
  if (!region.ok()) {
    return absl::Status(region.status().code(),
                        fmt::format("dynamic table \"{}\" needs {} bytes on each server: {}", table.name,
                                    bytes, std::string(region.status().message())));
  }
  const protocol::TablePlacement of_table = placement.table(table.rows);
  auto homes = Homes::create(of_table.keys(server), server);
  if (!homes.ok()) return homes.status();
  return std::unique_ptr<MovingShard>(
      new MovingShard(table, rule, server, of_table, std::move(*homes), std::move(*region)));
}

MovingShard::MovingShard(const protocol::OpenTable& open, const protocol::UpdateRule& rule,
                         std::uint32_t server, const protocol::TablePlacement& placement, Homes homes,
                         std::unique_ptr<transport::MemoryRegion> region)
    : TableShard(open),
      rule_(rule),
      server_(server),
      stride_bytes_(protocol::row_stride_bytes(table.value_type, table.width)),
      slot_bytes_(protocol::slot_bytes(stride_bytes_)),
      placement_(placement),
      home_keys_(placement.keys(server)),
      homes_(std::move(homes)),
      region_(std::move(region)),
      presence_(region_->bytes().data() + protocol::presence_offset(table.rows, slot_bytes_), home_keys_),
      forgotten_(table.rows) {}

absl::StatusOr<transport::RemoteDescriptor> MovingShard::grant(transport::Connection& connection,
                                                               bool is_own_node) const {
  const absl::StatusOr<transport::RemoteDescriptor> granted =
      is_own_node ? connection.grant_in_place(*region_) : connection.grant(*region_);
  if (!granted.ok()) return granted.status();
  return granted->slice(0, region_->bytes().size());
}

absl::Status MovingShard::on_bulk(const Sender& sender, const protocol::BulkMessage& message,
                                  InboxMessage& inbox, ShardHost& host) {
  const protocol::BulkHeader& header = message.header;
  if (header.kind == protocol::BulkKind::kPush) {
    RETURN_IF_ERROR(host.expect_answers(sender.worker.rank, std::size_t{header.count} + 1));
    return on_push(sender.worker, message, inbox, host.message_answers());
  }
  if (header.kind == protocol::BulkKind::kInstall) {
    RETURN_IF_ERROR(host.expect_answers(sender.worker.rank, 1));
    return on_install(sender.worker, message, host.message_answers());
  }
  return absl::InvalidArgumentError(fmt::format("sent a message of kind {} for table {}, which is dynamic",
                                                static_cast<std::uint32_t>(header.kind), header.table));
}

absl::Status MovingShard::on_key_requests(const Sender& sender, const KeyRequests& requests,
                                          ShardHost& host) {
  if (KeyRequests::is_answered(requests.kind))
    RETURN_IF_ERROR(host.expect_answers(sender.worker.rank, requests.rows.size()));
  RETURN_IF_ERROR(on_requests(sender.worker, requests, host.key_answers()));
  if (!inherited_.empty()) order_census(host);
  return absl::OkStatus();
}

/// What presence words say is looked at first: a slot that was never used has no page, and is to get none.
void MovingShard::copy_rows(SavedRows& to) const {
  std::uint64_t most = 0;
  for (Key key = 0; key < table.rows; ++key) {
    if (presence_.load(key).is_here()) ++most;
  }
  to.are_scattered = true;
  to.has_removed = false;
  to.numbers = {0, table.rows};
  to.rows = 0;
  to.keys.begin(sizeof(Key), most);
  to.values.begin(stride_bytes_, most);
  to.states.begin(0, 0);
  to.uses.begin(0, 0);
  to.counts.clear();
  for (Key key = 0; key < table.rows && to.rows < most; ++key) {
    if (!presence_.load(key).is_here()) continue;
    const protocol::Slot at = slot(key);
    if (!protocol::load_header(at).is_owned()) continue;
    to.keys.append(&key, 1);
    to.values.append(protocol::slot_values(at), 1);
    ++to.rows;
  }
}

void MovingShard::own(Key key, std::uint64_t epoch) {
  protocol::store_header(slot(key), SlotHeader::owned(epoch).changed());
  presence_.store(key, Presence::here(epoch, 0));
}

absl::Status MovingShard::on_requests(const Homes::Worker& worker, const KeyRequests& requests,
                                      Homes::Answers& answers) {
  const bool for_home =
      requests.kind != KeyRequests::Kind::kHandOver && requests.kind != KeyRequests::Kind::kYield &&
      requests.kind != KeyRequests::Kind::kFind && requests.kind != KeyRequests::Kind::kRestore;
  const KeyRange keys = for_home ? home_keys_ : KeyRange{0, table.rows};
  const bool mostly_takes = !for_home || requests.kind == KeyRequests::Kind::kLocalize ||
                            requests.kind == KeyRequests::Kind::kIntend;
  for (std::size_t i = 0; i < requests.rows.size(); ++i) {
    if (i + base::kKeysAhead < requests.rows.size()) {
      const Key ahead = requests.rows[i + base::kKeysAhead].key;
      const bool is_key = keys.contains(ahead);
      if (is_key && for_home) homes_.prefetch(ahead);
      if (is_key && mostly_takes) base::prefetch_to_write(slot(ahead).bytes);
    }
    const InheritedKeys::Request request{worker, requests.kind, requests.rows[i]};
    const Key key = request.row.key;
    Homes* homes = &homes_;
    if (!keys.contains(key)) [[unlikely]] {
      InheritedKeys* const of_another = for_home ? inherited(key) : nullptr;
      if (of_another == nullptr) {
        return absl::InvalidArgumentError(
            fmt::format("a request of kind {} about key {}, expected {} to below {}",
                        static_cast<std::uint32_t>(requests.kind), key, keys.first, keys.last));
      }
      if (!of_another->are_known()) {
        of_another->wait(request);
        continue;
      }
      homes = &of_another->homes();
    }
    RETURN_IF_ERROR(on_request(*homes, request, answers));
  }
  return absl::OkStatus();
}

absl::Status MovingShard::on_request(Homes& homes, const InheritedKeys::Request& request,
                                     Homes::Answers& answers) {
  const auto& [worker, kind, row] = request;
  const std::size_t first = answers.size();
  switch (kind) {
    case KeyRequests::Kind::kLocate:
      homes.locate(row.key, worker.rank, answers);
      break;
    case KeyRequests::Kind::kLocalize:
      homes.localize(row.key, worker, answers);
      break;
    case KeyRequests::Kind::kIntend:
      homes.intend(row.key, worker, answers);
      break;
    case KeyRequests::Kind::kDone:
      RETURN_IF_ERROR(homes.end_intent(row.key, worker.rank, answers));
      break;
    case KeyRequests::Kind::kArrived:
      RETURN_IF_ERROR(homes.arrived(row.key, worker.rank, row.epoch, answers));
      break;
    case KeyRequests::Kind::kMissing: {
      RETURN_IF_ERROR(homes.check_missing(row.key, worker, row.epoch));
      const Missed missed = this->missed(homes, row.key);
      if (missed.may_come_back && !are_at_rest_) {
        unsettled_.push_back(request);
        break;
      }
      const auto keeper = missed.may_come_back ? std::optional(missed.keeper) : std::nullopt;
      RETURN_IF_ERROR(homes.missing(row.key, worker, row.epoch, answers, keeper));
      break;
    }
    case KeyRequests::Kind::kSettled:
      RETURN_IF_ERROR(homes.settled(row.key, worker.rank, row.epoch, answers));
      break;
    case KeyRequests::Kind::kKept:
      RETURN_IF_ERROR(homes.kept(row.key, worker.rank, row.epoch, answers));
      break;
    case KeyRequests::Kind::kReleased:
      homes.released(row.key, worker.node, answers);
      break;
    case KeyRequests::Kind::kFind:
      find(row.key, worker.rank, answers);
      break;
    case KeyRequests::Kind::kRestore: {
      const bool is_there = restore(row.key, row.epoch);
      answers.push_back({worker.rank,
                         {.key = row.key,
                          .kind = is_there ? KeyAnswers::Kind::kTaken : KeyAnswers::Kind::kRefused,
                          .node = server_,
                          .epoch = row.epoch}});
      break;
    }
    case KeyRequests::Kind::kHandOver:
    case KeyRequests::Kind::kYield: {
      const HandOver asked{.worker = worker.rank, .row = row, .yields = kind == KeyRequests::Kind::kYield};
      if (!hand_over(asked, answers)) put_off_.emplace_back(asked);
      break;
    }
  }
  take_here(answers, first);
  return absl::OkStatus();
}

void MovingShard::on_goodbye(std::uint32_t worker, Homes::Answers& answers) {
  homes_.leave(worker, answers);
  for (InheritedKeys& keys : inherited_)
    keys.are_known() ? keys.homes().leave(worker, answers) : keys.forget(worker);
}

// ---- keys that are inherited

InheritedKeys* MovingShard::inherited(Key key) {
  const auto found = std::find_if(inherited_.begin(), inherited_.end(),
                                  [&](const InheritedKeys& one) { return one.keys().contains(key); });
  return found == inherited_.end() ? nullptr : &*found;
}

Homes& MovingShard::homes_of(Key key) {
  return home_keys_.contains(key) ? homes_ : inherited(key)->homes();
}

absl::Status MovingShard::inherit(std::uint32_t from) {
  const bool has_them = std::any_of(inherited_.begin(), inherited_.end(),
                                    [&](const InheritedKeys& one) { return one.from() == from; });
  if (has_them) return absl::OkStatus();
  absl::StatusOr<InheritedKeys> keys = InheritedKeys::create(placement_.keys(from), from);
  if (!keys.ok()) return keys.status();
  inherited_.push_back(*std::move(keys));
  return absl::OkStatus();
}

void MovingShard::put_off_census() {
  census_gone_ = 0;
  are_at_rest_ = false;
  for (InheritedKeys& keys : inherited_) {
    if (!keys.are_known()) keys.begin_anew();
  }
}

void MovingShard::begin_census(std::uint32_t gone, bool are_at_rest, ShardHost& host) {
  census_gone_ = gone;
  are_at_rest_ = are_at_rest;
  order_census(host);
}

void MovingShard::order_census(ShardHost& host) {
  if (census_gone_ == 0) return;
  for (InheritedKeys& keys : inherited_) {
    if (keys.are_known()) continue;
    for (const std::uint32_t worker : keys.take_counters())
      host.order(worker, {.table = table.table, .server = keys.from(), .gone = census_gone_});
  }
}

absl::Status MovingShard::on_found(std::uint32_t worker, const KeyAnswers::Answer& answer) {
  InheritedKeys* const keys = inherited(answer.key);
  if (keys == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("found key {}, which this server has not inherited", answer.key));
  }
  const bool is_image = answer.kind == KeyAnswers::Kind::kHasImage;
  if (is_image && (heirs_ == nullptr || !heirs_->is_gone(answer.node))) {
    return absl::InvalidArgumentError(
        fmt::format("found an image of key {} of server {}, which is not gone", answer.key, answer.node));
  }
  if (keys->are_known()) return absl::OkStatus();  // another worker was faster
  return keys->found(worker, answer);
}

absl::Status MovingShard::on_census(std::uint32_t worker, const protocol::Census& census,
                                    Homes::Answers& answers) {
  const auto keys = std::find_if(inherited_.begin(), inherited_.end(),
                                 [&](const InheritedKeys& one) { return one.from() == census.server; });
  if (keys == inherited_.end()) {
    return absl::InvalidArgumentError(fmt::format(
        "ends a census of the keys of server {}, which this server has not inherited", census.server));
  }
  std::vector<InheritedKeys::Request> waiting;
  if (keys->are_known() || !keys->end(worker, waiting)) return absl::OkStatus();
  // One of a node that lives may have taken a row from its owner for the home that is gone, and bring it
  // there after all.
  const bool some_may_come_late = std::any_of(lost_.begin(), lost_.end(), [&](const Homes::Worker& one) {
    return heirs_ == nullptr || !heirs_->is_gone(one.node);
  });
  if (some_may_come_late) keys->let_none_come_back();
  for (const InheritedKeys::Request& request : waiting)
    RETURN_IF_ERROR(on_request(keys->homes(), request, answers));
  return absl::OkStatus();
}

/// What the presence word says is looked at first, as in copy_rows().
void MovingShard::find(Key key, std::uint32_t worker, Homes::Answers& answers) const {
  const SlotHeader header = presence_.load(key).is_here() ? protocol::load_header(slot(key)) : SlotHeader();
  const std::optional<Image> image = header.is_owned() ? std::nullopt : this->image(key);
  if (image) {
    answers.push_back(
        {worker,
         {.key = key, .kind = KeyAnswers::Kind::kHasImage, .node = image->of, .epoch = image->epoch}});
    return;
  }
  answers.push_back({worker,
                     {.key = key,
                      .kind = header.is_owned() ? KeyAnswers::Kind::kHas : KeyAnswers::Kind::kHasNot,
                      .node = server_,
                      .epoch = header.is_owned() ? header.epoch() : 0}});
}

// ---- rows that come back

void MovingShard::take_images(Key& next, bool all, std::size_t most_bytes, RowsToSend& to) {
  const std::size_t record_bytes = protocol::record_bytes(slot_bytes_);
  const Key end = std::min<Key>(table.rows, next + kKeysImagedAtOnce);
  for (; next < end && to.images.size() + record_bytes <= std::max(most_bytes, record_bytes); ++next) {
    if (!presence_.load(next).is_here()) continue;
    const protocol::Slot at = slot(next);
    if (!all && !protocol::load_header(at).is_changed()) continue;
    SlotHeader header;
    if (protocol::try_lock(at, SlotHeader::kServer, header) != LockResult::kLocked) continue;
    const std::byte* const values = protocol::slot_values(at);
    const bool is_blank =
        header.epoch() == 0 &&
        std::all_of(values, values + stride_bytes_, [](std::byte byte) { return byte == std::byte{0}; });
    if (is_blank && !to.blank.empty() && to.blank.back().last == next) {
      ++to.blank.back().last;
    } else if (is_blank) {
      to.blank.push_back({next, next + 1});
    } else {
      const std::size_t begin = to.images.size();
      to.images.resize(begin + record_bytes);
      const std::uint64_t owned = SlotHeader::owned(header.epoch()).bits();
      std::byte* const record = to.images.data() + begin;
      std::memcpy(record, &next, sizeof next);
      std::memcpy(record + sizeof next, &owned, sizeof owned);
      std::memcpy(record + sizeof next + sizeof owned, values, stride_bytes_);
      ++to.count;
    }
    protocol::store_header(at, header.unchanged());
  }
}

std::vector<Key> MovingShard::take_left(std::size_t most) {
  std::vector<Key> keys;
  while (!left_.empty() && keys.size() < most) {
    keys.push_back(*left_.begin());
    left_.erase(left_.begin());
  }
  return keys;
}

absl::Status MovingShard::on_images(std::uint32_t of, const protocol::BulkMessage& message) {
  const protocol::BulkHeader& header = message.header;
  auto images = images_.find(of);
  if (images == images_.end()) {
    try {
      images = images_.emplace(of, RowImages(table.rows, stride_bytes_)).first;
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          fmt::format("no memory for images of {} rows of table \"{}\"", table.rows, table.name));
    }
  }
  RowImages& rows = images->second;
  if (header.kind == protocol::BulkKind::kImages) {
    RETURN_IF_ERROR(protocol::check_records(message, slot_bytes_, {0, table.rows}));
    for (std::uint32_t i = 0; i < header.count; ++i) {
      const Key key = protocol::record_key(message.payload, slot_bytes_, i);
      if (key >= table.rows) continue;  // as in push()
      const std::byte* const image = protocol::record_values(message.payload, slot_bytes_, i);
      rows.put(key, base::load_once<SlotHeader>(image).epoch(), protocol::slot_values(image));
    }
    return absl::OkStatus();
  }
  if (header.kind == protocol::BulkKind::kLeft) {
    RETURN_IF_ERROR(protocol::check_keys(message, {0, table.rows}));
    for (std::uint32_t i = 0; i < header.count; ++i) {
      const Key key = protocol::record_key(message.payload, 0, i);
      if (key < table.rows) rows.drop(key);
    }
    return absl::OkStatus();
  }
  if (header.kind != protocol::BulkKind::kBlank ||
      message.payload.size() != header.count * sizeof(KeyRange)) {
    return absl::InvalidArgumentError(fmt::format("sent {} bytes as images of kind {}",
                                                  message.payload.size(),
                                                  static_cast<std::uint32_t>(header.kind)));
  }
  for (std::uint32_t i = 0; i < header.count; ++i) {
    const auto range = base::load_once<KeyRange>(message.payload.data() + i * sizeof(KeyRange));
    if (range.first > range.last || range.last > table.rows) {
      return absl::InvalidArgumentError(
          fmt::format("sent images of keys {} to below {}, of {} rows", range.first, range.last, table.rows));
    }
    for (Key key = range.first; key < range.last; ++key) rows.put_blank(key);
  }
  return absl::OkStatus();
}

std::uint64_t MovingShard::images(std::uint32_t of) const {
  const auto images = images_.find(of);
  return images == images_.end() ? 0 : images->second.count();
}

/// Nobody but the keeper of a node's images is asked for them: the next server that is left.
std::optional<MovingShard::Image> MovingShard::image(Key key) const {
  std::optional<Image> newest;
  for (const auto& [of, images] : images_) {
    if (heirs_ == nullptr || !heirs_->is_gone(of) || heirs_->of(of) != server_) continue;
    const std::optional<std::uint64_t> epoch = images.epoch(key);
    if (epoch && (!newest || *epoch > newest->epoch)) newest = {of, *epoch};
  }
  return newest;
}

bool MovingShard::restore(Key key, std::uint64_t epoch) {
  const std::optional<Image> image = this->image(key);
  const protocol::Slot at = slot(key);
  if (!image || image->epoch + protocol::kRestoredAhead != epoch || protocol::load_header(at).is_owned())
    return false;
  RowImages& images = images_.find(image->of)->second;
  base::copy_words(reinterpret_cast<std::uint64_t*>(protocol::slot_values(at)),
                   reinterpret_cast<const std::uint64_t*>(images.values(key)),
                   stride_bytes_ / sizeof(std::uint64_t));
  protocol::store_header(at, SlotHeader::moved(epoch));
  images.drop(key);
  return true;
}

MovingShard::Missed MovingShard::missed(const Homes& homes, Key key) {
  const std::uint32_t node = homes.node_of(key);
  if (heirs_ == nullptr || !heirs_->is_gone(node)) return {};
  const InheritedKeys* const of_another = home_keys_.contains(key) ? nullptr : inherited(key);
  return {.may_come_back = of_another == nullptr || of_another->may_come_back(), .keeper = heirs_->of(node)};
}

/// No worker uses a node that is gone any more, and nobody moves rows that it had.
absl::Status MovingShard::settle_missed(Homes::Answers& answers) {
  absl::Status status;
  // One that is wrong must not take those of others with it.
  for (const InheritedKeys::Request& request : std::exchange(unsettled_, {}))
    status.Update(on_request(homes_of(request.row.key), request, answers));
  return status;
}

// ---- workers that die

void MovingShard::on_lost(const Homes::Worker& worker, Homes::Answers& answers) {
  dead_.insert(worker.rank + 1);
  lost_.push_back(worker);
  std::erase_if(unsettled_,
                [&](const InheritedKeys::Request& request) { return request.worker.rank == worker.rank; });
  // Nobody would come for a row that was handed over to the dead worker. Its pushes are still applied.
  std::erase_if(put_off_, [&](const PutOff& request) {
    const auto* const hand_over = std::get_if<HandOver>(&request);
    return hand_over != nullptr && hand_over->worker == worker.rank;
  });
  if (worker.node == server_) {
    forgotten_ = 0;
    forget_some_intents();
  }
  const std::size_t first = answers.size();
  homes_.lose(worker, answers);
  for (InheritedKeys& keys : inherited_)
    keys.are_known() ? keys.homes().lose(worker, answers) : keys.forget(worker.rank);
  take_here(answers, first);
}

bool MovingShard::is_given_up(Key key) {
  if (dead_.empty()) return false;
  const SlotHeader header = protocol::load_header(slot(key));
  if (!header.is_owned() || !dead_.contains(header.holder())) return false;
  if (!protocol::change_header(slot(key), header, SlotHeader::moved(header.epoch()))) return false;
  presence_.store(key, Presence());
  note_that_it_leaves(key);
  return true;
}

bool MovingShard::forget_some_intents() {
  if (forgotten_ == table.rows) return false;
  const Key end = std::min<Key>(table.rows, forgotten_ + kKeysForgottenAtOnce);
  for (Key& key = forgotten_; key < end; ++key) {
    for (Presence now = presence_.load(key); now != now.without_intents(); now = presence_.load(key))
      static_cast<void>(presence_.change(key, now, now.without_intents()));
  }
  return true;
}

MovingShard::Handed MovingShard::try_hand_over(Key key, std::uint64_t epoch, bool yields) {
  // Only this server makes a slot cease to own, so the check stays true.
  if (!protocol::load_header(slot(key)).is_owned_at(epoch)) return Handed::kNotOwned;
  if (yields && presence_.want(key)) return Handed::kKept;
  if (protocol::try_hand_over(slot(key), epoch) != LockResult::kLocked) return Handed::kBusy;
  presence_.store(key, Presence());
  note_that_it_leaves(key);
  return Handed::kTaken;
}

void MovingShard::take_here(Homes::Answers& answers, std::size_t first) {
  for (std::size_t i = first; i < answers.size(); ++i) {
    const auto [worker, asked, yields] = answers[i];
    if (asked.kind != KeyAnswers::Kind::kTake || asked.node != server_) continue;
    const Handed result = try_hand_over(asked.key, asked.epoch, yields);
    if (result == Handed::kTaken) {
      answers[i].answer.kind = KeyAnswers::Kind::kTaken;
    } else if (result == Handed::kKept) {
      answers[i].answer.kind = KeyAnswers::Kind::kShared;
      // This worker moves the key, so this cannot fail. Adds answers for those in line.
      static_cast<void>(homes_of(asked.key).kept(asked.key, worker, asked.epoch, answers));
    }
  }
}

bool MovingShard::hand_over(const HandOver& request, Homes::Answers& answers) {
  const auto [key, epoch] = request.row;
  const Handed result = try_hand_over(key, epoch, request.yields);
  if (result == Handed::kBusy && !is_given_up(key)) return false;
  const KeyAnswers::Kind kind = result == Handed::kTaken  ? KeyAnswers::Kind::kTaken
                                : result == Handed::kKept ? KeyAnswers::Kind::kKept
                                                          : KeyAnswers::Kind::kRefused;
  answers.push_back({request.worker, {.key = key, .kind = kind, .node = server_, .epoch = epoch}});
  return true;
}

absl::Status MovingShard::on_push(const Homes::Worker& worker, const protocol::BulkMessage& message,
                                  InboxMessage& inbox, MessageAnswers& answers) {
  protocol::BulkMessage records = message;
  const absl::StatusOr<protocol::Tag> tag = protocol::take_tag(records);
  if (!tag.ok()) return tag.status();
  RETURN_IF_ERROR(protocol::check_records(records, stride_bytes_, {0, table.rows}));
  const std::uint32_t count = message.header.count;
  if (count == 0 || count > protocol::kMaxPushRecords) {
    return absl::InvalidArgumentError(
        fmt::format("a push of {} records, expected 1 to {}", count, protocol::kMaxPushRecords));
  }
  Push request{.worker = worker.rank,
               .records = records.payload,
               .answer = {.table = table.table, .tag = *tag, .records = count, .moved = {}},
               .inbox = &inbox};
  inbox.users = 1;
  if (push(request, answers)) {
    inbox.users = 0;
  } else {
    put_off_.emplace_back(std::move(request));
  }
  return absl::OkStatus();
}

bool MovingShard::push(Push& request, MessageAnswers& answers) {
  for (std::uint32_t& i = request.next; i < request.answer.records; ++i) {
    const Key key = protocol::record_key(request.records, stride_bytes_, i);
    // The key was checked when it came, but the worker can still write there: the key that is used must be
    // the one that is checked here.
    if (key >= table.rows) [[unlikely]]
      continue;
    SlotHeader owned;
    LockResult result = protocol::try_lock(slot(key), SlotHeader::kServer, owned);
    if (result == LockResult::kBusy && is_given_up(key)) result = LockResult::kNotOwned;
    if (result == LockResult::kBusy) return false;
    if (result == LockResult::kNotOwned) {
      request.answer.moved.push_back(i);
      continue;
    }
    rule_.apply(protocol::slot_values(slot(key)), nullptr,
                protocol::record_values(request.records, stride_bytes_, i));
    protocol::store_header(slot(key), owned);
  }
  answers.push_back({request.worker, std::move(request.answer)});
  return true;
}

absl::Status MovingShard::on_install(const Homes::Worker& worker, const protocol::BulkMessage& message,
                                     MessageAnswers& answers) {
  protocol::BulkMessage records = message;
  const absl::StatusOr<protocol::Tag> tag = protocol::take_tag(records);
  if (!tag.ok()) return tag.status();
  RETURN_IF_ERROR(protocol::check_records(records, slot_bytes_, {0, table.rows}));
  if (worker.node != server_) {
    return absl::InvalidArgumentError(
        fmt::format("installs rows on server {}, its node is {}", server_, worker.node));
  }
  for (std::uint32_t i = 0; i < message.header.count; ++i) {
    const Key key = protocol::record_key(records.payload, slot_bytes_, i);
    if (key >= table.rows) continue;  // as in push()
    const std::byte* const taken = protocol::record_values(records.payload, slot_bytes_, i);
    const std::uint64_t epoch = base::load_once<SlotHeader>(taken).epoch();
    if (protocol::load_header(slot(key)).is_owned() || epoch == 0) {
      return absl::InvalidArgumentError(
          fmt::format("installs key {} at epoch {}, which is owned here already", key, epoch));
    }
    base::copy_words(reinterpret_cast<std::uint64_t*>(protocol::slot_values(slot(key))),
                     reinterpret_cast<const std::uint64_t*>(protocol::slot_values(taken)),
                     stride_bytes_ / sizeof(std::uint64_t));
    own(key, epoch);
  }
  answers.push_back({worker.rank, protocol::InstallAnswer{.table = table.table, .tag = *tag}});
  return absl::OkStatus();
}

bool MovingShard::try_again(Homes::Answers& answers, MessageAnswers& message_answers) {
  const bool has_forgotten = forget_some_intents();
  const bool has_missed = are_at_rest_ && !unsettled_.empty();
  // They were checked when they came: whoever misses a row moves it still.
  if (has_missed) static_cast<void>(settle_missed(answers));
  const auto is_done = [&](PutOff& request) {
    if (const auto* const hand_over_of = std::get_if<HandOver>(&request))
      return hand_over(*hand_over_of, answers);
    Push& put_off = std::get<Push>(request);
    if (!push(put_off, message_answers)) return false;
    // Release: pairs with the receiver's acquire, as a lane's does.
    put_off.inbox->users.store(0, std::memory_order_release);
    return true;
  };
  return std::erase_if(put_off_, is_done) > 0 || has_forgotten || has_missed;
}

void MovingShard::forget_put_off() {
  for (const PutOff& request : put_off_) {
    if (const auto* const push = std::get_if<Push>(&request))
      push->inbox->users.store(0, std::memory_order_release);
  }
  put_off_.clear();
  unsettled_.clear();
  forgotten_ = table.rows;
}

}  // namespace verbena::server
