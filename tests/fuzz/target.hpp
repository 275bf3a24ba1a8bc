// What a fuzzer tries: one function for each kind of input. libFuzzer drives them, guided by what is executed
// (fuzzer.cpp); corpus_test.cpp tries what is kept in corpus/files and corpus/peers in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "transport/secret.hpp"

namespace verbena::fuzz {

struct Target {
  std::string_view kind;  ///< and the name of its folder
  /// Anyone may have written `bytes`. Ends the process where something does not hold.
  void (*attempt)(std::string_view bytes);
};
/// What users give. A program of their own: libFuzzer looks at each counter of a program for each input.
std::span<const Target> file_targets();
/// What other processes say.
std::span<const Target> peer_targets();
/// nullptr if there is none of that kind.
const Target* find_target(std::span<const Target> targets, std::string_view kind);

/// Ends the process unless `holds`: so fuzzers learn of it.
void require(bool holds, std::string_view what, const char* file = __builtin_FILE(),
             int line = __builtin_LINE());
/// A refusal: INVALID_ARGUMENT, and so many words in it.
void require_refusal(const absl::Status& status, std::string_view says, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE());

/// One that the inputs' writers have where a target says so.
const std::shared_ptr<const transport::Secret>& known_secret();

/// Takes an input apart, for targets that need more than text. What is not there is zero.
class Input {
 public:
  explicit Input(std::string_view bytes) : left_(bytes) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }
  template <class Number>
  requires std::is_trivially_copyable_v<Number> Number take() {
    Number number{};
    const std::string_view bytes = take_bytes(sizeof number);
    std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }
  /// 0 … bound − 1
  std::uint32_t below(std::uint32_t bound) { return take<std::uint8_t>() % bound; }
  /// At most so many.
  std::string_view take_bytes(std::size_t count) {
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  std::string_view left_;
};

// Messages
void control_message(std::string_view bytes);
void bulk_message(std::string_view bytes);
void bench_message(std::string_view bytes);
void bench_orders(std::string_view bytes);
void child_line(std::string_view bytes);
void consistency_name(std::string_view bytes);
void verbs_address(std::string_view bytes);
void rendezvous(std::string_view bytes);
void leader(std::string_view bytes);
void leader_link(std::string_view bytes);
// Transports
void shm_channel(std::string_view bytes);
void shm_control(std::string_view bytes);
void shm_answer(std::string_view bytes);
void verbs_hello(std::string_view bytes);
void verbs_answer(std::string_view bytes);
void verbs_neighbour(std::string_view bytes);
// The server
void server(std::string_view bytes);
/// The same: whether the server has finished, and well.
bool server_finishes_well(std::string_view bytes);

}  // namespace verbena::fuzz
