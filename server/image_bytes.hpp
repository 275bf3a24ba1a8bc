// The bytes of an image (image.hpp): numbers and lists as they lie in memory, since both ends are processes
// of one program on one kind of host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace verbena::server {

class ImageWriter {
 public:
  template <class Value>
  void put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  /// How many there are, then the items.
  template <class Value>
  void put_all(std::span<const Value> values) {
    static_assert(std::is_trivially_copyable_v<Value>);
    put(std::uint64_t{values.size()});
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  template <class Value>
  void put_all(const std::vector<Value>& values) {
    put_all(std::span(values));
  }
  void put_text(std::string_view text) { put_all(std::span(text)); }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads past the end give zeros and are remembered, so one check at the end suffices. The bytes must outlive
/// it.
class ImageReader {
 public:
  explicit ImageReader(std::string_view bytes) : bytes_(bytes) {}

  template <class Value>
  Value get() {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value{};
    if (!has(sizeof value)) return value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  template <class Value>
  std::vector<Value> get_all() {
    const std::string_view found = take_items(sizeof(Value));
    std::vector<Value> values(found.size() / sizeof(Value));
    if (!values.empty()) std::memcpy(values.data(), found.data(), found.size());
    return values;
  }
  std::string_view get_text() { return take_items(1); }
  /// How many of something follow, each of `least_bytes` at least.
  std::uint64_t get_count(std::size_t least_bytes) {
    const auto count = get<std::uint64_t>();
    if (count > bytes_.size() / least_bytes) is_good_ = false;
    return is_good_ ? count : 0;
  }

  /// All of it was read, and nothing more.
  [[nodiscard]] bool ends_well() const { return is_good_ && bytes_.empty(); }
  [[nodiscard]] bool is_good() const { return is_good_; }

 private:
  [[nodiscard]] bool has(std::size_t size) {
    is_good_ = is_good_ && bytes_.size() >= size;
    return is_good_;
  }
  std::string_view take_items(std::size_t item_bytes) {
    const std::uint64_t count = get_count(item_bytes);
    const std::string_view found = bytes_.substr(0, count * item_bytes);
    bytes_.remove_prefix(found.size());
    return found;
  }

  std::string_view bytes_;
  bool is_good_ = true;
};

}  // namespace verbena::server
