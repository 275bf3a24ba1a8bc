#include "apps/resuming/saved_state.hpp"

#include <fmt/format.h>

namespace verbena::apps {

namespace {

constexpr std::size_t kMostDepth = 8;

/// Builds what is read. The library reads what is nested by calling itself: so this stops it in time.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  using json = nlohmann::json;
  explicit Builder(json& root) : root_(root) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(json::number_integer_t value) override { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) override { return add(value); }
  bool number_float(json::number_float_t value, const json::string_t& /*text*/) override {
    return add(value);
  }
  bool string(json::string_t& value) override { return add(std::move(value)); }
  bool binary(json::binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t /*size*/) override { return open(json::object()); }
  bool key(json::string_t& name) override {
    name_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t /*place*/, const std::string& /*token*/,
                   const json::exception& /*error*/) override {
    return false;
  }

 private:
  json& place(json value) {
    if (open_.empty()) return root_ = std::move(value);
    json& parent = *open_.back();
    if (parent.is_object()) return parent[name_] = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json value) {
    open_.push_back(&place(std::move(value)));
    return open_.size() <= kMostDepth;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json& root_;
  std::vector<json*> open_;
  std::string name_;  ///< of the member that comes next
};

}  // namespace

std::vector<std::byte> encode_state(const nlohmann::json& object) {
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(object);
  const auto plain = std::as_bytes(std::span(bytes));
  return {plain.begin(), plain.end()};
}

absl::StatusOr<nlohmann::json> decode_state(std::span<const std::byte> bytes) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  nlohmann::json object;
  Builder builder(object);
  const bool read =
      nlohmann::json::sax_parse(first, first + bytes.size(), &builder, nlohmann::json::input_format_t::cbor);
  if (!read || !object.is_object()) return wrong_state("the bytes are no object");
  return object;
}

nlohmann::json saved_places(std::span<const DataCursor> cursors) {
  std::vector<std::uint64_t> places;
  places.reserve(cursors.size());
  for (const DataCursor& cursor : cursors) places.push_back(cursor.next_example());
  return saved_array(std::span(places));
}

absl::Status wrong_state(std::string_view what) {
  return absl::DataLossError(
      fmt::format("the checkpoint cannot be gone on from: of what a worker has saved, {}", what));
}

absl::StatusOr<const nlohmann::json*> SavedState::member(std::string_view name) const {
  if (state_.is_object()) {
    if (const auto found = state_.find(name); found != state_.end()) return &*found;
  }
  return wrong_state(fmt::format("\"{}\" is missing", name));
}

absl::StatusOr<const nlohmann::json*> SavedState::object(std::string_view name) const {
  const absl::StatusOr<const nlohmann::json*> found = member(name);
  if (found.ok() && !(*found)->is_object()) return wrong_state(fmt::format("\"{}\" is no object", name));
  return found;
}

/// `kind`: completes "is …" where it is no such value.
template <class Value>
absl::StatusOr<Value> SavedState::value(std::string_view name, std::string_view kind) const {
  const absl::StatusOr<const nlohmann::json*> found = member(name);
  if (!found.ok()) return found.status();
  const auto* const value = (*found)->get_ptr<const Value*>();
  if (value == nullptr) return wrong_state(fmt::format("\"{}\" is {}", name, kind));
  return *value;
}

absl::StatusOr<std::uint64_t> SavedState::whole_number(std::string_view name) const {
  return value<nlohmann::json::number_unsigned_t>(name, "no whole number");
}

absl::StatusOr<double> SavedState::number(std::string_view name) const {
  return value<nlohmann::json::number_float_t>(name, "no number");
}

absl::StatusOr<bool> SavedState::flag(std::string_view name) const {
  return value<nlohmann::json::boolean_t>(name, "neither true nor false");
}

absl::StatusOr<std::string> SavedState::text(std::string_view name) const {
  return value<nlohmann::json::string_t>(name, "no text");
}

absl::StatusOr<std::span<const std::uint8_t>> SavedState::bytes(std::string_view name,
                                                                std::size_t number_bytes) const {
  const absl::StatusOr<const nlohmann::json*> found = member(name);
  if (!found.ok()) return found.status();
  const auto* const binary = (*found)->get_ptr<const nlohmann::json::binary_t*>();
  if (binary == nullptr || binary->size() % number_bytes != 0)
    return wrong_state(fmt::format("\"{}\" is no array of numbers of {} bytes", name, number_bytes));
  return std::span<const std::uint8_t>(binary->data(), binary->size());
}

absl::Status SavedState::wrong_size(std::string_view name, std::size_t expected, std::size_t found) {
  return wrong_state(fmt::format("\"{}\" has {} numbers, expected {}", name, found, expected));
}

}  // namespace verbena::apps
