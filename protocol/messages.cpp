#include "protocol/messages.hpp"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>

#include "base/return_if_error.hpp"

namespace verbena::protocol {

namespace {

enum class ControlKind : std::uint32_t {
  kHello = 1,
  kWelcome,
  kOpenTable,
  kTableOpened,
  kGoodbye,
  kFailed,
  kEndIteration,
  kKeyRequests,
  kKeyAnswers,
  kPushAnswer,
  kInstallAnswer,
  kRegionAdded,
  kObserve,
  kObserved,
  kDescribe,
  kInspect,
  kInspected,
  kSaveRows,
  kPartSaved,
  kFollow,
  kFollowed,
  kAdopted,
  kServerGone,
  kMovesEnded,
  kCensus,
  kServerAt,
  kBackUp,
  kBackedUp
};

constexpr std::size_t words_of(std::uint32_t bits) {
  return (std::size_t{bits} + 63) / 64;
}

class Writer {
 public:
  explicit Writer(ControlKind kind) {
    u32(kMagic);
    u32(kVersion);
    u32(static_cast<std::uint32_t>(kind));
    u32(0);
  }
  void u32(std::uint32_t value) { raw(&value, sizeof value); }
  void u64(std::uint64_t value) { raw(&value, sizeof value); }
  void descriptor(const Descriptor& value) {
    u64(value.address);
    u64(value.length_bytes);
    u64(value.key);
  }
  /// Writes how many runs there are, then for each run its first item, as it lies in memory, and its length.
  template <class Item>
  void runs(const std::vector<Item>& items) {
    const std::size_t at = bytes_.size();
    u32(0);
    std::uint32_t runs = 0;
    for (std::size_t next = 0; next < items.size(); ++runs) {
      const std::size_t first = next++;
      while (next < items.size() && items[next].goes_on_from(items[next - 1])) ++next;
      raw(&items[first], sizeof(Item));
      u64(next - first);
    }
    std::memcpy(bytes_.data() + at, &runs, sizeof runs);
  }
  /// Writes how many words there are, then the words; the bits at `numbers` are 1. `numbers` are ascending
  /// and below `limit`. There are no words if there are no numbers.
  void set(const std::vector<std::uint32_t>& numbers, std::uint32_t limit) {
    std::vector<std::uint64_t> words(numbers.empty() ? 0 : words_of(limit));
    for (const std::uint32_t number : numbers) words[number / 64] |= std::uint64_t{1} << (number % 64);
    u32(static_cast<std::uint32_t>(words.size()));
    for (const std::uint64_t word : words) u64(word);
  }
  /// Writes how many words there are, then the words.
  void words(const std::vector<std::uint64_t>& values) {
    u32(static_cast<std::uint32_t>(values.size()));
    raw(values.data(), values.size() * sizeof(std::uint64_t));
  }
  void text(std::string_view value) {
    u32(static_cast<std::uint32_t>(value.size()));
    raw(value.data(), value.size());
  }
  template <class Value>
  void attribute(const Value& value) {
    if constexpr (std::is_enum_v<Value>) {
      u32(static_cast<std::uint32_t>(value));
    } else if constexpr (std::is_same_v<Value, std::string>) {
      text(value);
    } else {
      raw(&value, sizeof value);
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  void raw(const void* data, std::size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::string bytes_;
};

/// Reads past the end give zeros and are remembered, so one check at the end suffices.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }
  bool flag() {
    const std::uint32_t value = u32();
    ok_ &= value <= 1;
    return value == 1;
  }
  Descriptor descriptor() {
    Descriptor value;
    value.address = u64();
    value.length_bytes = u64();
    value.key = u64();
    return value;
  }
  std::string text(std::size_t max_bytes) {
    const std::size_t size = u32();
    if (size > max_bytes || size > bytes_.size()) {
      ok_ = false;
      return {};
    }
    std::string value(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }
  template <class Value>
  void attribute(Value& value) {
    if constexpr (std::is_enum_v<Value>) {
      value = static_cast<Value>(u32());
    } else if constexpr (std::is_same_v<Value, std::string>) {
      value = text(kMaxNameBytes);
    } else {
      value = number<Value>();
    }
  }
  /// Reads runs as Writer writes them.
  template <class Item>
  std::vector<Item> runs() {
    constexpr std::size_t kMostItems = MessageRoom<Item>::kMaxItems;
    const std::size_t count = u32();
    std::vector<Item> items;
    ok_ &= count > 0 && count <= MessageRoom<Item>::kMaxRuns;
    for (std::size_t run = 0; run < count && ok_; ++run) {
      Item item = number<Item>();
      const std::uint64_t length = u64();
      ok_ &= length > 0 && length <= kMostItems - items.size() &&
             (items.empty() || !item.goes_on_from(items.back()));
      for (std::uint64_t i = 0; i < length && ok_; ++i, ++item.key) items.push_back(item);
    }
    return items;
  }
  /// Reads words as Writer writes them.
  std::vector<std::uint64_t> words(std::size_t most) {
    const std::size_t count = u32();
    std::vector<std::uint64_t> values;
    ok_ &= count <= most && count * sizeof(std::uint64_t) <= bytes_.size();
    for (std::size_t i = 0; i < count && ok_; ++i) values.push_back(u64());
    return values;
  }
  /// Reads a set as Writer writes it.
  std::vector<std::uint32_t> set(std::uint32_t limit) {
    const std::size_t words = u32();
    std::vector<std::uint32_t> numbers;
    ok_ &= words == 0 || words == words_of(limit);
    for (std::uint32_t word = 0; word < words && ok_; ++word) {
      for (std::uint64_t left = u64(); left != 0; left &= left - 1)
        numbers.push_back(word * 64 + static_cast<std::uint32_t>(std::countr_zero(left)));
    }
    ok_ &= numbers.empty() == (words == 0) && (numbers.empty() || numbers.back() < limit);
    return numbers;
  }
  /// Everything was there and nothing is left.
  [[nodiscard]] bool complete() const { return ok_ && bytes_.empty(); }

 private:
  template <class Number>
  Number number() {
    Number value{};
    if (bytes_.size() < sizeof value) {
      ok_ = false;
      bytes_ = {};
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

struct Encoder {
  std::string operator()(const Hello& hello) const {
    Writer out(ControlKind::kHello);
    for (const std::uint32_t value :
         {hello.worker, hello.workers, hello.pid, hello.server, hello.servers, hello.node}) {
      out.u32(value);
    }
    out.u64(hello.configuration);
    out.u32(hello.is_back ? 1 : 0);
    out.u32(hello.incarnation);
    out.u64(hello.inbox_bytes);
    out.descriptor(hello.push_ring);
    out.descriptor(hello.inbox_credit);
    out.descriptor(hello.heartbeat);
    return out.take();
  }
  std::string operator()(const Welcome& welcome) const {
    Writer out(ControlKind::kWelcome);
    out.u32(welcome.pid);
    out.u32(welcome.lanes);
    out.descriptor(welcome.inbox);
    out.descriptor(welcome.push_credit);
    out.descriptor(welcome.heartbeat);
    out.descriptor(welcome.clock_board);
    out.u32(welcome.reads_in_place ? 1 : 0);
    out.u32(welcome.restores_rows ? 1 : 0);
    out.u64(welcome.messages);
    out.u64(static_cast<std::uint64_t>(welcome.clock));
    return out.take();
  }
  std::string operator()(const Follow& follow) const {
    Writer out(ControlKind::kFollow);
    for (const std::uint32_t value :
         {follow.pid, follow.server, follow.servers, follow.workers, follow.lanes}) {
      out.u32(value);
    }
    out.u64(follow.configuration);
    out.u64(follow.records);
    out.u32(follow.has_image ? 1 : 0);
    out.descriptor(follow.log_ring);
    out.descriptor(follow.heartbeat);
    return out.take();
  }
  std::string operator()(const Followed& followed) const {
    Writer out(ControlKind::kFollowed);
    out.u32(followed.pid);
    out.descriptor(followed.log_credit);
    return out.take();
  }
  std::string operator()(const Adopted& adopted) const {
    Writer out(ControlKind::kAdopted);
    out.u64(adopted.configuration);
    return out.take();
  }
  std::string operator()(const OpenTable& open) const {
    Writer out(ControlKind::kOpenTable);
    out.u32(open.table);
    visit_attributes([&](auto, auto attribute, auto, auto) { out.attribute(open.*attribute); });
    out.text(open.checkpoint);
    return out.take();
  }
  std::string operator()(const TableOpened& opened) const {
    Writer out(ControlKind::kTableOpened);
    out.u32(opened.table);
    out.descriptor(opened.shard);
    return out.take();
  }
  std::string operator()(const RegionAdded& added) const {
    Writer out(ControlKind::kRegionAdded);
    out.u32(added.table);
    out.u32(added.lane);
    out.u32(static_cast<std::uint32_t>(added.kind));
    out.u32(added.number);
    out.u64(added.items);
    out.descriptor(added.memory);
    return out.take();
  }
  std::string operator()(const Goodbye&) const { return Writer(ControlKind::kGoodbye).take(); }
  std::string operator()(const Failed& failed) const {
    Writer out(ControlKind::kFailed);
    out.u32(failed.code);
    out.text(std::string_view(failed.reason).substr(0, kMaxReasonBytes));
    return out.take();
  }
  std::string operator()(const EndIteration& end) const {
    Writer out(ControlKind::kEndIteration);
    out.u64(static_cast<std::uint64_t>(end.clock));
    return out.take();
  }
  std::string operator()(const SaveRows& save) const {
    Writer out(ControlKind::kSaveRows);
    out.u64(static_cast<std::uint64_t>(save.clock));
    out.u64(static_cast<std::uint64_t>(save.since));
    out.u32(save.is_base ? 1 : 0);
    out.text(save.folder);
    return out.take();
  }
  std::string operator()(const PartSaved& saved) const {
    Writer out(ControlKind::kPartSaved);
    out.u64(static_cast<std::uint64_t>(saved.clock));
    out.u32(static_cast<std::uint32_t>(saved.stage));
    out.u32(saved.is_worker ? 1 : 0);
    out.u32(saved.rank);
    out.u32(saved.code);
    out.text(std::string_view(saved.reason).substr(0, kMaxReasonBytes));
    return out.take();
  }
  std::string operator()(const KeyRequests& requests) const {
    Writer out(ControlKind::kKeyRequests);
    out.u32(static_cast<std::uint32_t>(requests.kind));
    out.u32(requests.table);
    out.runs(requests.rows);
    return out.take();
  }
  std::string operator()(const KeyAnswers& answers) const {
    Writer out(ControlKind::kKeyAnswers);
    out.u32(answers.table);
    out.runs(answers.answers);
    return out.take();
  }
  std::string operator()(const PushAnswer& answer) const {
    Writer out(ControlKind::kPushAnswer);
    out.u32(answer.table);
    out.u32(answer.records);
    out.u64(answer.tag);
    out.set(answer.moved, answer.records);
    return out.take();
  }
  std::string operator()(const InstallAnswer& answer) const {
    Writer out(ControlKind::kInstallAnswer);
    out.u32(answer.table);
    out.u64(answer.tag);
    return out.take();
  }
  std::string operator()(const ServerGone& gone) const {
    Writer out(ControlKind::kServerGone);
    out.u32(gone.server);
    return out.take();
  }
  std::string operator()(const MovesEnded& ended) const {
    Writer out(ControlKind::kMovesEnded);
    out.u32(ended.gone);
    return out.take();
  }
  std::string operator()(const Census& census) const {
    Writer out(ControlKind::kCensus);
    out.u32(census.table);
    out.u32(census.server);
    out.u32(census.gone);
    return out.take();
  }
  std::string operator()(const ServerAt& at) const {
    Writer out(ControlKind::kServerAt);
    out.u32(at.server);
    out.text(at.address);
    return out.take();
  }
  std::string operator()(const BackUp& up) const {
    Writer out(ControlKind::kBackUp);
    for (const std::uint32_t value : {up.pid, up.server, up.servers, up.of}) out.u32(value);
    out.descriptor(up.ring);
    return out.take();
  }
  std::string operator()(const BackedUp& up) const {
    Writer out(ControlKind::kBackedUp);
    out.descriptor(up.credit);
    return out.take();
  }
  std::string operator()(const Observe&) const { return Writer(ControlKind::kObserve).take(); }
  std::string operator()(const Observed& observed) const {
    Writer out(ControlKind::kObserved);
    for (const std::uint32_t value : {observed.server, observed.servers, observed.workers, observed.left,
                                      observed.lanes, observed.tables}) {
      out.u32(value);
    }
    out.u64(static_cast<std::uint64_t>(observed.clock));
    return out.take();
  }
  std::string operator()(const Describe& describe) const {
    Writer out(ControlKind::kDescribe);
    out.u32(describe.table);
    return out.take();
  }
  std::string operator()(const Inspect& inspect) const {
    Writer out(ControlKind::kInspect);
    out.u32(inspect.table);
    out.u32(inspect.lane);
    out.u64(inspect.first_row);
    out.u64(inspect.most_rows);
    out.text(inspect.text);
    out.words(inspect.keys);
    return out.take();
  }
  std::string operator()(const Inspected& inspected) const {
    Writer out(ControlKind::kInspected);
    out.u64(inspected.rows);
    out.u64(inspected.words_left);
    out.words(inspected.words);
    return out.take();
  }
};

Hello read_hello(Reader& in) {
  Hello hello;
  hello.worker = in.u32();
  hello.workers = in.u32();
  hello.pid = in.u32();
  hello.server = in.u32();
  hello.servers = in.u32();
  hello.node = in.u32();
  hello.configuration = in.u64();
  hello.is_back = in.flag();
  hello.incarnation = in.u32();
  hello.inbox_bytes = in.u64();
  hello.push_ring = in.descriptor();
  hello.inbox_credit = in.descriptor();
  hello.heartbeat = in.descriptor();
  return hello;
}

Welcome read_welcome(Reader& in) {
  Welcome welcome;
  welcome.pid = in.u32();
  welcome.lanes = in.u32();
  welcome.inbox = in.descriptor();
  welcome.push_credit = in.descriptor();
  welcome.heartbeat = in.descriptor();
  welcome.clock_board = in.descriptor();
  welcome.reads_in_place = in.flag();
  welcome.restores_rows = in.flag();
  welcome.messages = in.u64();
  welcome.clock = static_cast<std::int64_t>(in.u64());
  return welcome;
}

Follow read_follow(Reader& in) {
  Follow follow;
  follow.pid = in.u32();
  follow.server = in.u32();
  follow.servers = in.u32();
  follow.workers = in.u32();
  follow.lanes = in.u32();
  follow.configuration = in.u64();
  follow.records = in.u64();
  follow.has_image = in.flag();
  follow.log_ring = in.descriptor();
  follow.heartbeat = in.descriptor();
  return follow;
}

Followed read_followed(Reader& in) {
  Followed followed;
  followed.pid = in.u32();
  followed.log_credit = in.descriptor();
  return followed;
}

OpenTable read_open_table(Reader& in) {
  OpenTable open;
  open.table = in.u32();
  visit_attributes([&](auto, auto attribute, auto, auto) { in.attribute(open.*attribute); });
  open.checkpoint = in.text(kMaxPathBytes);
  return open;
}

TableOpened read_table_opened(Reader& in) {
  TableOpened opened;
  opened.table = in.u32();
  opened.shard = in.descriptor();
  return opened;
}

RegionAdded read_region_added(Reader& in) {
  RegionAdded added;
  added.table = in.u32();
  added.lane = in.u32();
  added.kind = static_cast<RegionKind>(in.u32());
  added.number = in.u32();
  added.items = in.u64();
  added.memory = in.descriptor();
  return added;
}

Failed read_failed(Reader& in) {
  Failed failed;
  failed.code = in.u32();
  failed.reason = in.text(kMaxReasonBytes);
  return failed;
}

SaveRows read_save_rows(Reader& in) {
  SaveRows save;
  save.clock = static_cast<std::int64_t>(in.u64());
  save.since = static_cast<std::int64_t>(in.u64());
  save.is_base = in.flag();
  save.folder = in.text(kMaxPathBytes);
  return save;
}

PartSaved read_part_saved(Reader& in) {
  PartSaved saved;
  saved.clock = static_cast<std::int64_t>(in.u64());
  saved.stage = static_cast<PartSaved::Stage>(in.u32());
  saved.is_worker = in.flag();
  saved.rank = in.u32();
  saved.code = in.u32();
  saved.reason = in.text(kMaxReasonBytes);
  return saved;
}

KeyRequests read_key_requests(Reader& in) {
  KeyRequests requests;
  requests.kind = static_cast<KeyRequests::Kind>(in.u32());
  requests.table = in.u32();
  requests.rows = in.runs<KeyRequests::Row>();
  return requests;
}

KeyAnswers read_key_answers(Reader& in) {
  KeyAnswers answers;
  answers.table = in.u32();
  answers.answers = in.runs<KeyAnswers::Answer>();
  return answers;
}

PushAnswer read_push_answer(Reader& in) {
  PushAnswer answer;
  answer.table = in.u32();
  answer.records = in.u32();
  answer.tag = in.u64();
  if (answer.records <= kMaxPushRecords) answer.moved = in.set(answer.records);
  return answer;
}

InstallAnswer read_install_answer(Reader& in) {
  InstallAnswer answer;
  answer.table = in.u32();
  answer.tag = in.u64();
  return answer;
}

Census read_census(Reader& in) {
  Census census;
  census.table = in.u32();
  census.server = in.u32();
  census.gone = in.u32();
  return census;
}

ServerAt read_server_at(Reader& in) {
  ServerAt at;
  at.server = in.u32();
  at.address = in.text(kMaxPathBytes);
  return at;
}

BackUp read_back_up(Reader& in) {
  BackUp up;
  up.pid = in.u32();
  up.server = in.u32();
  up.servers = in.u32();
  up.of = in.u32();
  up.ring = in.descriptor();
  return up;
}

Observed read_observed(Reader& in) {
  Observed observed;
  observed.server = in.u32();
  observed.servers = in.u32();
  observed.workers = in.u32();
  observed.left = in.u32();
  observed.lanes = in.u32();
  observed.tables = in.u32();
  observed.clock = static_cast<std::int64_t>(in.u64());
  return observed;
}

Inspect read_inspect(Reader& in) {
  Inspect inspect;
  inspect.table = in.u32();
  inspect.lane = in.u32();
  inspect.first_row = in.u64();
  inspect.most_rows = in.u64();
  inspect.text = in.text(kMaxNameBytes);
  inspect.keys = in.words(kMaxInspectedKeys);
  return inspect;
}

Inspected read_inspected(Reader& in) {
  Inspected inspected;
  inspected.rows = in.u64();
  inspected.words_left = in.u64();
  inspected.words = in.words(kMaxInspectedWords);
  return inspected;
}

absl::StatusOr<ControlMessage> read_body(ControlKind kind, Reader& in) {
  switch (kind) {
    case ControlKind::kHello:
      return read_hello(in);
    case ControlKind::kWelcome:
      return read_welcome(in);
    case ControlKind::kOpenTable:
      return read_open_table(in);
    case ControlKind::kTableOpened:
      return read_table_opened(in);
    case ControlKind::kGoodbye:
      return Goodbye{};
    case ControlKind::kFailed:
      return read_failed(in);
    case ControlKind::kEndIteration:
      return EndIteration{static_cast<std::int64_t>(in.u64())};
    case ControlKind::kKeyRequests:
      return read_key_requests(in);
    case ControlKind::kKeyAnswers:
      return read_key_answers(in);
    case ControlKind::kPushAnswer:
      return read_push_answer(in);
    case ControlKind::kInstallAnswer:
      return read_install_answer(in);
    case ControlKind::kRegionAdded:
      return read_region_added(in);
    case ControlKind::kObserve:
      return Observe{};
    case ControlKind::kObserved:
      return read_observed(in);
    case ControlKind::kDescribe:
      return Describe{in.u32()};
    case ControlKind::kInspect:
      return read_inspect(in);
    case ControlKind::kInspected:
      return read_inspected(in);
    case ControlKind::kSaveRows:
      return read_save_rows(in);
    case ControlKind::kPartSaved:
      return read_part_saved(in);
    case ControlKind::kFollow:
      return read_follow(in);
    case ControlKind::kFollowed:
      return read_followed(in);
    case ControlKind::kAdopted:
      return Adopted{in.u64()};
    case ControlKind::kServerGone:
      return ServerGone{in.u32()};
    case ControlKind::kMovesEnded:
      return MovesEnded{in.u32()};
    case ControlKind::kCensus:
      return read_census(in);
    case ControlKind::kServerAt:
      return read_server_at(in);
    case ControlKind::kBackUp:
      return read_back_up(in);
    case ControlKind::kBackedUp:
      return BackedUp{in.descriptor()};
  }
  return absl::InvalidArgumentError(
      fmt::format("control message of unknown kind {}", static_cast<std::uint32_t>(kind)));
}

absl::Status check(const KeyRequests& requests) {
  if (requests.kind < KeyRequests::Kind::kLocate || requests.kind > KeyRequests::Kind::kRestore) {
    return absl::InvalidArgumentError(
        fmt::format("a request of unknown kind {}", static_cast<std::uint32_t>(requests.kind)));
  }
  for (const KeyRequests::Row& row : requests.rows) {
    if (row.epoch > SlotHeader::kMaxEpoch)
      return absl::InvalidArgumentError(fmt::format("a request about epoch {}", row.epoch));
  }
  return absl::OkStatus();
}

absl::Status check(const KeyAnswers& answers) {
  for (const KeyAnswers::Answer& answer : answers.answers) {
    if (answer.kind < KeyAnswers::Kind::kOwned || answer.kind > KeyAnswers::Kind::kHasImage ||
        answer.epoch > SlotHeader::kMaxEpoch) {
      return absl::InvalidArgumentError(fmt::format("an answer of kind {} about epoch {}",
                                                    static_cast<std::uint32_t>(answer.kind), answer.epoch));
    }
  }
  return absl::OkStatus();
}

absl::Status check(const OpenTable& open) {
  std::string wrong;
  visit_attributes([&](auto, auto attribute, auto is_valid, auto shown) {
    if (!is_valid(open.*attribute)) wrong += fmt::format(" \"{}\"", shown(open.*attribute));
  });
  if (open.checkpoint.find('\0') != std::string::npos) wrong += " a checkpoint in such a folder";
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("table \"{}\" cannot have{}", open.name, wrong));
}

/// Rejects what no honest peer sends, whatever the job.
absl::Status check(const ControlMessage& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (hello->workers == 0 || hello->workers > kMaxWorkers || hello->worker >= hello->workers ||
        hello->server >= hello->servers || hello->node >= hello->servers) {
      return absl::InvalidArgumentError(
          fmt::format("hello of worker {} of {} to server {} of {}, its node being {}", hello->worker,
                      hello->workers, hello->server, hello->servers, hello->node));
    }
  } else if (const auto* follow = std::get_if<Follow>(&message)) {
    if (follow->server >= follow->servers) {
      return absl::InvalidArgumentError(
          fmt::format("a copy of server {} of {}", follow->server, follow->servers));
    }
  } else if (const auto* up = std::get_if<BackUp>(&message)) {
    if (up->server >= up->servers || up->of >= up->servers || up->server == up->of) {
      return absl::InvalidArgumentError(
          fmt::format("server {} of {} keeps images of server {}", up->server, up->servers, up->of));
    }
  } else if (const auto* at = std::get_if<ServerAt>(&message)) {
    if (at->address.empty() || at->address.find('\0') != std::string::npos)
      return absl::InvalidArgumentError(fmt::format("server {} listens nowhere", at->server));
  } else if (const auto* welcome = std::get_if<Welcome>(&message)) {
    if (welcome->lanes == 0 || welcome->lanes > kMaxLanes) {
      return absl::InvalidArgumentError(fmt::format("welcome with {} lanes", welcome->lanes));
    }
    if (welcome->clock < 0)
      return absl::InvalidArgumentError(fmt::format("welcome at clock {}", welcome->clock));
  } else if (const auto* observed = std::get_if<Observed>(&message)) {
    if (observed->lanes == 0 || observed->lanes > kMaxLanes || observed->server >= observed->servers) {
      return absl::InvalidArgumentError(
          fmt::format("server {} of {} with {} lanes", observed->server, observed->servers, observed->lanes));
    }
  } else if (const auto* open = std::get_if<OpenTable>(&message)) {
    return check(*open);
  } else if (const auto* failed = std::get_if<Failed>(&message)) {
    if (failed->code == 0) return absl::InvalidArgumentError("failure with the code of OK");
  } else if (const auto* end = std::get_if<EndIteration>(&message)) {
    if (end->clock < 0) return absl::InvalidArgumentError(fmt::format("end of clock {}", end->clock));
  } else if (const auto* save = std::get_if<SaveRows>(&message)) {
    if (save->since < 0 || save->since >= std::max<std::int64_t>(save->clock, 1))
      return absl::InvalidArgumentError(
          fmt::format("a checkpoint of clock {} since clock {}", save->clock, save->since));
    if (save->clock < 1 || save->folder.empty() || save->folder.find('\0') != std::string::npos)
      return absl::InvalidArgumentError(fmt::format("a checkpoint of clock {} in no folder", save->clock));
  } else if (const auto* saved = std::get_if<PartSaved>(&message)) {
    if (saved->stage > PartSaved::Stage::kWritten || saved->rank >= kMaxWorkers)
      return absl::InvalidArgumentError(fmt::format("part {} of a checkpoint", saved->rank));
  } else if (const auto* requests = std::get_if<KeyRequests>(&message)) {
    return check(*requests);
  } else if (const auto* answers = std::get_if<KeyAnswers>(&message)) {
    return check(*answers);
  } else if (const auto* added = std::get_if<RegionAdded>(&message)) {
    // So that a reader may compute with these numbers.
    if (static_cast<std::uint32_t>(added->kind) >= kRegionKinds || !std::has_single_bit(added->items) ||
        added->items > kMaxRows || added->number > kMaxRegionNumber) {
      return absl::InvalidArgumentError(fmt::format("region {} of kind {} with {} items", added->number,
                                                    static_cast<std::uint32_t>(added->kind), added->items));
    }
  } else if (const auto* answer = std::get_if<PushAnswer>(&message)) {
    if (answer->records == 0 || answer->records > kMaxPushRecords)
      return absl::InvalidArgumentError(fmt::format("an answer to a push of {} records", answer->records));
  }
  return absl::OkStatus();
}

}  // namespace

std::string encode(const ControlMessage& message) {
  return std::visit(Encoder{}, message);
}

absl::StatusOr<ControlMessage> decode_control(std::span<const std::byte> bytes) {
  Reader in(bytes);
  if (in.u32() != kMagic)
    return absl::InvalidArgumentError("control message without the magic number: not Verbena");
  if (const std::uint32_t version = in.u32(); version != kVersion) {
    return absl::InvalidArgumentError(fmt::format(
        "the peer speaks protocol version {}, this is version {}: its Verbena is {} than this one; "
        "all processes of a job need the same version, on all hosts",
        version, kVersion, version < kVersion ? "older" : "newer"));
  }
  const auto kind = static_cast<ControlKind>(in.u32());
  in.u32();  // padding
  absl::StatusOr<ControlMessage> message = read_body(kind, in);
  if (!message.ok()) return message;
  if (!in.complete()) {
    return absl::InvalidArgumentError(fmt::format("control message of kind {} has a wrong length, {}",
                                                  static_cast<std::uint32_t>(kind), bytes.size()));
  }
  RETURN_IF_ERROR(check(*message));
  return message;
}

absl::StatusOr<BulkMessage> decode_bulk(std::span<const std::byte> bytes) {
  BulkMessage message;
  if (bytes.size() < sizeof message.header) {
    return absl::InvalidArgumentError(fmt::format("bulk message of {} bytes has no header", bytes.size()));
  }
  message.header = base::load_once<BulkHeader>(bytes.data());
  message.payload = bytes.subspan(sizeof message.header);
  const auto kind = static_cast<std::uint32_t>(message.header.kind);
  if (kind < static_cast<std::uint32_t>(BulkKind::kUpdates) ||
      kind > static_cast<std::uint32_t>(BulkKind::kAllSent)) {
    return absl::InvalidArgumentError(fmt::format("bulk message of unknown kind {}", kind));
  }
  return message;
}

absl::StatusOr<Descriptor> decode_elsewhere(const BulkMessage& message) {
  if (message.payload.size() != sizeof(Descriptor)) {
    return absl::InvalidArgumentError(
        fmt::format("expected where a message is, found {} bytes", message.payload.size()));
  }
  return base::load_once<Descriptor>(message.payload.data());
}

absl::StatusOr<Tag> take_tag(BulkMessage& message) {
  if (message.payload.size() < sizeof(Tag)) {
    return absl::InvalidArgumentError(fmt::format("expected a tag, found {} bytes", message.payload.size()));
  }
  const Tag tag = base::load_once<Tag>(message.payload.data());
  message.payload = message.payload.subspan(sizeof tag);
  return tag;
}

absl::Status check_record_count(const BulkMessage& message, std::size_t stride_bytes) {
  const std::size_t bytes = message.header.count * record_bytes(stride_bytes);
  if (message.payload.size() != bytes) {
    return absl::InvalidArgumentError(fmt::format("expected {} records in {} bytes, found {}",
                                                  message.header.count, bytes, message.payload.size()));
  }
  return absl::OkStatus();
}

absl::Status wrong_record(Key key, KeyRange range) {
  return absl::InvalidArgumentError(
      fmt::format("record of key {}, expected {} to below {}", key, range.first, range.last));
}

absl::Status wrong_record(Key key, const HashedKeys& keys) {
  return absl::InvalidArgumentError(
      fmt::format("record of key {}, whose hash is of part {}, expected {} to below {}", key,
                  KeyHash(key).part(), keys.parts().first, keys.parts().last));
}

absl::Status check_records(const BulkMessage& message, std::size_t stride_bytes, KeyRange range) {
  RETURN_IF_ERROR(check_record_count(message, stride_bytes));
  for (std::size_t i = 0; i < message.header.count; ++i) {
    const Key key = record_key(message.payload, stride_bytes, i);
    if (key - range.first >= range.size()) return wrong_record(key, range);
  }
  return absl::OkStatus();
}

static absl::Status check_key_count(const BulkMessage& message) {
  if (message.payload.size() == message.header.count * sizeof(Key)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("expected {} keys, found {} bytes", message.header.count, message.payload.size()));
}

absl::Status check_keys(const BulkMessage& message, KeyRange range) {
  RETURN_IF_ERROR(check_key_count(message));
  for (std::size_t i = 0; i < message.header.count; ++i) {
    const Key key = record_key(message.payload, 0, i);
    if (key - range.first >= range.size()) {
      return absl::InvalidArgumentError(
          fmt::format("key {}, expected {} to below {}", key, range.first, range.last));
    }
  }
  return absl::OkStatus();
}

absl::Status check_keys(const BulkMessage& message, const HashedKeys& keys) {
  RETURN_IF_ERROR(check_key_count(message));
  for (std::size_t i = 0; i < message.header.count; ++i) {
    const Key key = record_key(message.payload, 0, i);
    if (!keys.has(key)) return wrong_record(key, keys);
  }
  return absl::OkStatus();
}

absl::StatusOr<ExampleCounts> decode_example_counts(const BulkMessage& message) {
  ExampleCounts counts;
  if (message.header.count > 1 || message.payload.size() != message.header.count * sizeof counts) {
    return absl::InvalidArgumentError(fmt::format("a clock with {} times example counts in {} bytes",
                                                  message.header.count, message.payload.size()));
  }
  if (message.header.count == 0) return counts;
  counts = base::load_once<ExampleCounts>(message.payload.data());
  if (counts.processed > counts.planned || counts.planned > kMaxExamples) {
    return absl::InvalidArgumentError(
        fmt::format("{} of {} examples processed", counts.processed, counts.planned));
  }
  return counts;
}

}  // namespace verbena::protocol
