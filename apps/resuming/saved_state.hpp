// What an application saves of a worker in a checkpoint, as JSON in which large arrays are bytes. Anyone may
// have written what is read here: where something is missing or of another kind the error is DATA_LOSS with
// its name, and nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <verbena/data_cursor.hpp>

namespace verbena::apps {

/// The numbers' bytes, as SavedState::array() reads them.
template <class Number>
nlohmann::json saved_array(std::span<Number> numbers) {
  static_assert(std::is_trivially_copyable_v<Number>);
  const auto* const first = reinterpret_cast<const std::uint8_t*>(numbers.data());
  return nlohmann::json::binary(std::vector<std::uint8_t>(first, first + numbers.size_bytes()));
}

/// Where the cursors are, as SavedState::places() reads it.
nlohmann::json saved_places(std::span<const DataCursor> cursors);

/// The object as bytes, and back. It is an object of such whose members are nested at most a few levels deep.
std::vector<std::byte> encode_state(const nlohmann::json& object);
absl::StatusOr<nlohmann::json> decode_state(std::span<const std::byte> bytes);

/// DATA_LOSS: what was saved cannot be right.
absl::Status wrong_state(std::string_view what);

/// An object of JSON, whose members are read by name.
class SavedState {
 public:
  /// `state` must outlive it.
  explicit SavedState(const nlohmann::json& state) : state_(state) {}

  [[nodiscard]] absl::StatusOr<const nlohmann::json*> object(std::string_view name) const;
  [[nodiscard]] absl::StatusOr<std::uint64_t> whole_number(std::string_view name) const;
  [[nodiscard]] absl::StatusOr<double> number(std::string_view name) const;
  [[nodiscard]] absl::StatusOr<bool> flag(std::string_view name) const;
  [[nodiscard]] absl::StatusOr<std::string> text(std::string_view name) const;
  /// Exactly so many numbers.
  template <class Number>
  [[nodiscard]] absl::StatusOr<std::vector<Number>> array(std::string_view name, std::size_t size) const {
    absl::StatusOr<std::vector<Number>> numbers = array<Number>(name);
    if (numbers.ok() && numbers->size() != size) return wrong_size(name, size, numbers->size());
    return numbers;
  }
  template <class Number>
  [[nodiscard]] absl::StatusOr<std::vector<Number>> array(std::string_view name) const {
    const absl::StatusOr<std::span<const std::uint8_t>> bytes = this->bytes(name, sizeof(Number));
    if (!bytes.ok()) return bytes.status();
    std::vector<Number> numbers(bytes->size() / sizeof(Number));
    if (!bytes->empty()) std::memcpy(numbers.data(), bytes->data(), bytes->size());
    return numbers;
  }
  /// Where each of so many cursors begins: DataCursor::Options::first.
  [[nodiscard]] absl::StatusOr<std::vector<std::uint64_t>> places(std::string_view name,
                                                                  std::size_t cursors) const {
    return array<std::uint64_t>(name, cursors);
  }

 private:
  [[nodiscard]] absl::StatusOr<const nlohmann::json*> member(std::string_view name) const;
  template <class Value>
  absl::StatusOr<Value> value(std::string_view name, std::string_view kind) const;
  /// Of numbers of so many bytes each.
  [[nodiscard]] absl::StatusOr<std::span<const std::uint8_t>> bytes(std::string_view name,
                                                                    std::size_t number_bytes) const;
  static absl::Status wrong_size(std::string_view name, std::size_t expected, std::size_t found);

  const nlohmann::json& state_;
};

}  // namespace verbena::apps
