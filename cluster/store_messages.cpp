#include "cluster/store_messages.hpp"

#include <concepts>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "base/printable.hpp"

namespace verbena::cluster {
namespace {

/// With what each greeting begins; counted up when a message changes.
constexpr std::string_view kMagic = "verbena store 1\n";

enum class ClientKind : std::uint8_t { kGet, kTransaction, kGrant, kKeep, kRevoke, kBeginWatch, kEndWatch };
enum class ServerKind : std::uint8_t {
  kSnapshot,
  kTransactionResult,
  kLease,
  kRevoked,
  kError,
  kEvents,
  kWatchEnded
};

class Writer {
 public:
  template <std::unsigned_integral Number>
  Writer& number(Number value) {
    for (std::size_t i = 0; i < sizeof value; ++i)
      bytes_ += static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * i & 0xff);
    return *this;
  }
  template <class Enum>
  requires std::is_enum_v<Enum> Writer& kind(Enum value) { return number(static_cast<std::uint8_t>(value)); }
  Writer& text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  Writer& raw(std::span<const std::byte> value) {
    bytes_.append(reinterpret_cast<const char*>(value.data()), value.size());
    return *this;
  }
  template <class List, class Each>
  Writer& list(const List& values, const Each& each) {
    number(static_cast<std::uint32_t>(values.size()));
    for (const auto& value : values) each(value);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// What cannot be read makes all that follows zero or empty, and the whole message bad.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <std::unsigned_integral Number>
  Number number() {
    Number value = 0;
    const std::string_view bytes = raw(sizeof value);
    for (std::size_t i = bytes.size(); i-- > 0;) {
      value =
          static_cast<Number>(static_cast<std::uint64_t>(value) << 8 | static_cast<unsigned char>(bytes[i]));
    }
    return value;
  }
  bool flag() {
    const auto value = number<std::uint8_t>();
    if (value > 1) fail();
    return value == 1;
  }
  std::string text() { return std::string(raw(number<std::uint32_t>())); }
  template <std::size_t count>
  void fill(std::array<std::byte, count>& to) {
    const std::string_view bytes = raw(count);
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  }
  /// Stops at the first element that cannot be read, whatever count is announced.
  template <class Each>
  void list(const Each& each) {
    for (auto count = number<std::uint32_t>(); count > 0 && good_; --count) each();
  }
  std::string_view raw(std::size_t count) {
    if (count > left_.size()) {
      fail();
      return {};
    }
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }
  void fail() {
    good_ = false;
    left_ = {};
  }
  /// All has been read, and nothing is left.
  [[nodiscard]] bool is_whole() const { return good_ && left_.empty(); }

 private:
  std::string_view left_;
  bool good_ = true;
};

void write(Writer& writer, std::uint64_t id, const KeyRange& range) {
  writer.kind(ClientKind::kGet).number(id).text(range.key).number(std::uint8_t{range.is_prefix});
}
void write(Writer& writer, std::uint64_t id, const Transaction& transaction) {
  writer.kind(ClientKind::kTransaction).number(id);
  writer.list(transaction.conditions,
              [&](const Condition& each) { writer.text(each.key).kind(each.of).number(each.is); });
  writer.list(transaction.puts,
              [&](const Put& each) { writer.text(each.key).text(each.value).number(each.lease); });
  writer.list(transaction.deletes, [&](const std::string& each) { writer.text(each); });
}
void write(Writer& writer, std::uint64_t id, const GrantLease& grant) {
  writer.kind(ClientKind::kGrant).number(id).number(static_cast<std::uint64_t>(grant.ttl.count()));
}
void write(Writer& writer, std::uint64_t id, const KeepLease& keep) {
  writer.kind(ClientKind::kKeep).number(id).number(keep.id);
}
void write(Writer& writer, std::uint64_t id, const RevokeLease& revoke) {
  writer.kind(ClientKind::kRevoke).number(id).number(revoke.id);
}

void write(Writer& writer, const Ask& ask) {
  std::visit([&](const auto& each) { write(writer, ask.request, each); }, ask.what);
}
void write(Writer& writer, const BeginWatch& begin) {
  writer.kind(ClientKind::kBeginWatch).number(begin.watch).text(begin.prefix).number(begin.from);
}
void write(Writer& writer, const EndWatch& end) {
  writer.kind(ClientKind::kEndWatch).number(end.watch);
}

void write(Writer& writer, const Entry& entry) {
  writer.text(entry.key).text(entry.value).number(entry.created).number(entry.modified).number(entry.lease);
}
void write(Writer& writer, std::uint64_t id, const Snapshot& snapshot) {
  writer.kind(ServerKind::kSnapshot).number(id).number(snapshot.revision);
  writer.list(snapshot.entries, [&](const Entry& each) { write(writer, each); });
}
void write(Writer& writer, std::uint64_t id, const TransactionResult& result) {
  writer.kind(ServerKind::kTransactionResult).number(id);
  writer.number(std::uint8_t{result.succeeded}).number(result.revision);
}
void write(Writer& writer, std::uint64_t id, const Lease& lease) {
  writer.kind(ServerKind::kLease).number(id).number(lease.id);
  writer.number(static_cast<std::uint64_t>(lease.ttl.count()));
}
void write(Writer& writer, std::uint64_t id, const Revoked& /*revoked*/) {
  writer.kind(ServerKind::kRevoked).number(id);
}
void write(Writer& writer, const absl::Status& status) {
  writer.number(static_cast<std::uint8_t>(status.code())).text(std::string(status.message()));
}

void write(Writer& writer, const Answered& answered) {
  if (answered.answer.ok()) {
    std::visit([&](const auto& each) { write(writer, answered.request, each); }, *answered.answer);
  } else {
    writer.kind(ServerKind::kError).number(answered.request);
    write(writer, answered.answer.status());
  }
}
void write(Writer& writer, const Happened& happened) {
  if (happened.events.ok()) {
    writer.kind(ServerKind::kEvents).number(happened.watch);
    writer.list(*happened.events, [&](const Event& each) {
      writer.number(std::uint8_t{each.is_delete});
      write(writer, each.entry);
    });
  } else {
    writer.kind(ServerKind::kWatchEnded).number(happened.watch);
    write(writer, happened.events.status());
  }
}

Entry read_entry(Reader& reader) {
  // In the order in which they stand.
  return {.key = reader.text(),
          .value = reader.text(),
          .created = reader.number<Revision>(),
          .modified = reader.number<Revision>(),
          .lease = reader.number<LeaseId>()};
}

Duration read_ttl(Reader& reader) {
  const auto ns = reader.number<std::uint64_t>();
  if (!std::in_range<Duration::rep>(ns)) reader.fail();
  return Duration(static_cast<Duration::rep>(ns));
}

/// Never OK.
absl::Status read_status(Reader& reader) {
  const auto code = reader.number<std::uint8_t>();
  const std::string message = reader.text();
  if (code == 0 || code > static_cast<std::uint8_t>(absl::StatusCode::kUnauthenticated)) reader.fail();
  return {code == 0 ? absl::StatusCode::kUnknown : static_cast<absl::StatusCode>(code),
          base::printable(message)};
}

Transaction read_transaction(Reader& reader) {
  Transaction transaction;
  reader.list([&] {
    Condition& condition = transaction.conditions.emplace_back();
    condition.key = reader.text();
    condition.of = reader.flag() ? Condition::Of::kModified : Condition::Of::kCreated;
    condition.is = reader.number<Revision>();
  });
  reader.list([&] {
    Put& put = transaction.puts.emplace_back();
    put.key = reader.text();
    put.value = reader.text();
    put.lease = reader.number<LeaseId>();
  });
  reader.list([&] { transaction.deletes.push_back(reader.text()); });
  return transaction;
}
static_assert(static_cast<int>(Condition::Of::kCreated) == 0 &&
              static_cast<int>(Condition::Of::kModified) == 1);

}  // namespace

std::string encode(const Greeting& greeting) {
  return Writer().raw(std::as_bytes(std::span(kMagic))).raw(greeting.nonce).take();
}

std::optional<Greeting> decode_greeting(std::string_view bytes) {
  Reader reader(bytes);
  Greeting greeting;
  if (reader.raw(kMagic.size()) != kMagic) return std::nullopt;
  reader.fill(greeting.nonce);
  return reader.is_whole() ? std::optional(greeting) : std::nullopt;
}

std::string encode(const Challenge& challenge) {
  return Writer().raw(challenge.nonce).raw(challenge.proof).take();
}

std::optional<Challenge> decode_challenge(std::string_view bytes) {
  Reader reader(bytes);
  Challenge challenge;
  reader.fill(challenge.nonce);
  reader.fill(challenge.proof);
  return reader.is_whole() ? std::optional(challenge) : std::nullopt;
}

std::string encode(const transport::Proof& proof) {
  return Writer().raw(proof).take();
}

std::optional<transport::Proof> decode_proof(std::string_view bytes) {
  Reader reader(bytes);
  transport::Proof proof{};
  reader.fill(proof);
  return reader.is_whole() ? std::optional(proof) : std::nullopt;
}

std::string encode(const ClientMessage& message) {
  Writer writer;
  std::visit([&](const auto& each) { write(writer, each); }, message);
  return writer.take();
}

std::optional<ClientMessage> decode_client_message(std::string_view bytes) {
  Reader reader(bytes);
  const auto kind = reader.number<std::uint8_t>();
  const auto id = reader.number<std::uint64_t>();
  ClientMessage message;
  switch (static_cast<ClientKind>(kind)) {
    case ClientKind::kGet: {
      std::string key = reader.text();
      message = Ask{id, KeyRange{.key = std::move(key), .is_prefix = reader.flag()}};
      break;
    }
    case ClientKind::kTransaction:
      message = Ask{id, read_transaction(reader)};
      break;
    case ClientKind::kGrant:
      message = Ask{id, GrantLease{read_ttl(reader)}};
      break;
    case ClientKind::kKeep:
      message = Ask{id, KeepLease{reader.number<LeaseId>()}};
      break;
    case ClientKind::kRevoke:
      message = Ask{id, RevokeLease{reader.number<LeaseId>()}};
      break;
    case ClientKind::kBeginWatch: {
      std::string prefix = reader.text();
      message = BeginWatch{.watch = id, .prefix = std::move(prefix), .from = reader.number<Revision>()};
      break;
    }
    case ClientKind::kEndWatch:
      message = EndWatch{id};
      break;
    default:
      return std::nullopt;
  }
  if (!reader.is_whole()) return std::nullopt;
  return message;
}

std::string encode(const ServerMessage& message) {
  Writer writer;
  std::visit([&](const auto& each) { write(writer, each); }, message);
  return writer.take();
}

std::optional<ServerMessage> decode_server_message(std::string_view bytes) {
  Reader reader(bytes);
  const auto kind = reader.number<std::uint8_t>();
  const auto id = reader.number<std::uint64_t>();
  ServerMessage message;
  switch (static_cast<ServerKind>(kind)) {
    case ServerKind::kSnapshot: {
      Snapshot snapshot{.revision = reader.number<Revision>(), .entries = {}};
      reader.list([&] { snapshot.entries.push_back(read_entry(reader)); });
      message = Answered{id, Answer(std::move(snapshot))};
      break;
    }
    case ServerKind::kTransactionResult: {
      const bool succeeded = reader.flag();
      message = Answered{
          id, Answer(TransactionResult{.succeeded = succeeded, .revision = reader.number<Revision>()})};
      break;
    }
    case ServerKind::kLease: {
      const auto lease = reader.number<LeaseId>();
      message = Answered{id, Answer(Lease{.id = lease, .ttl = read_ttl(reader)})};
      break;
    }
    case ServerKind::kRevoked:
      message = Answered{id, Answer(Revoked{})};
      break;
    case ServerKind::kError:
      message = Answered{id, read_status(reader)};
      break;
    case ServerKind::kEvents: {
      std::vector<Event> events;
      reader.list([&] {
        const bool is_delete = reader.flag();
        events.push_back({.is_delete = is_delete, .entry = read_entry(reader)});
      });
      message = Happened{id, std::move(events)};
      break;
    }
    case ServerKind::kWatchEnded:
      message = Happened{id, read_status(reader)};
      break;
    default:
      return std::nullopt;
  }
  if (!reader.is_whole()) return std::nullopt;
  return message;
}

}  // namespace verbena::cluster
