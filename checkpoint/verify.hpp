// Whether a checkpoint is whole, byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "checkpoint/file_system.hpp"

namespace verbena::checkpoint {

/// One thing that is wrong with a checkpoint.
struct Damage {
  std::string path;          ///< of the file
  std::uint64_t offset = 0;  ///< where in it
  std::string what;          ///< what was expected there, and what was found
  std::string advice;        ///< what can be done
};
/// In one line.
[[nodiscard]] std::string to_string(const Damage& damage);

/// Reads the whole checkpoint at `path` and compares each checksum and length: every damage, not only the
/// first; none if it is whole. Without a sound manifest that is the only one: nobody knows what else there
/// should be. Of an increment (checkpoint/layers.hpp) also what it builds upon. Memory as for a Reader.
/// `progress` is told again and again how many bytes of data files have been examined until now.
std::vector<Damage> verify(
    FileSystem& files, const std::string& path,
    absl::FunctionRef<void(std::uint64_t bytes)> progress = [](std::uint64_t /*bytes*/) {});

/// The same without reading what an increment builds upon, but for the manifests there.
std::vector<Damage> verify_alone(
    FileSystem& files, const std::string& path,
    absl::FunctionRef<void(std::uint64_t bytes)> progress = [](std::uint64_t /*bytes*/) {});

}  // namespace verbena::checkpoint
