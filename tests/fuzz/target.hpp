// The targets of fuzzing: one function for each kind of input. libFuzzer calls them (fuzzer.cpp), guided by
// coverage. corpus_test.cpp calls them in every build, with the inputs in corpus/files and corpus/peers.
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
  std::string_view kind;  ///< also the name of its folder in the corpus
  /// Processes `bytes`, which anyone may have written. Ends the process if a check fails.
  void (*attempt)(std::string_view bytes);
};
/// Targets for files that users give. They are a program of their own, since libFuzzer looks at all coverage
/// counters of a program after each input.
std::span<const Target> file_targets();
/// Targets for what other processes send.
std::span<const Target> peer_targets();
/// nullptr if there is none of that kind.
const Target* find_target(std::span<const Target> targets, std::string_view kind);

/// Ends the process unless `holds`, which a fuzzer notices.
void require(bool holds, std::string_view what, const char* file = __builtin_FILE(),
             int line = __builtin_LINE());
/// Requires that `status` is INVALID_ARGUMENT, with a message that contains `says`.
void require_refusal(const absl::Status& status, std::string_view says, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE());

/// The secret of the job. Whoever has written the input knows it only where a target says so.
const std::shared_ptr<const transport::Secret>& known_secret();

/// Takes an input apart, for targets that need more than text. Beyond its end all bytes are zero.
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
  /// At most `count` bytes.
  std::string_view take_bytes(std::size_t count) {
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  std::string_view left_;
};

// Checkpoints
/// The JSON of a manifest, without its checksum and without its last bracket; or that of a part.
void checkpoint_manifest(std::string_view bytes);
/// How many bytes the manifest has (2 bytes), the manifest as above, and the bytes of the first data file.
/// All checksums are made right.
void checkpoint_files(std::string_view bytes);
/// The same. Returns whether nothing was wrong and all could be read.
bool checkpoint_reads_well(std::string_view bytes);
/// What an application has saved of a worker.
void saved_state(std::string_view bytes);
// Messages
void control_message(std::string_view bytes);
void bulk_message(std::string_view bytes);
void bench_message(std::string_view bytes);
void bench_orders(std::string_view bytes);
void child_line(std::string_view bytes);
void consistency_name(std::string_view bytes);
void http_request(std::string_view bytes);
void verbs_address(std::string_view bytes);
void rendezvous(std::string_view bytes);
void leader(std::string_view bytes);
void leader_link(std::string_view bytes);
void leader_entry(std::string_view bytes);
// Stores
void store_client(std::string_view bytes);
void store_message(std::string_view bytes);
/// Which request (1 byte), the HTTP status (1 byte), and the answer or a line of a watch.
void etcd_answer(std::string_view bytes);
void configuration(std::string_view bytes);
void word(std::string_view bytes);
/// A request, and an answer.
void drain_request(std::string_view bytes);
void log_record(std::string_view bytes);
// Transports
void shm_channel(std::string_view bytes);
void shm_control(std::string_view bytes);
void shm_answer(std::string_view bytes);
/// What a peer that was let in sends, each piece behind a byte that is its length.
void tcp_frames(std::string_view bytes);
void verbs_hello(std::string_view bytes);
void verbs_answer(std::string_view bytes);
void verbs_neighbour(std::string_view bytes);
// The server
void server(std::string_view bytes);
/// The same. Returns whether the server has finished without an error.
bool server_finishes_well(std::string_view bytes);

}  // namespace verbena::fuzz
