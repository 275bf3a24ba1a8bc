// Manifests and parts as text: JSON in one line.
//
// The text of a manifest is an object whose last field is the checksum of all that comes before this field:
//
//   {"clock":20,"format":1,…,"tables":[…],"checksum":"0123456789abcdef"}⏎
//
// The last 32 bytes, from the comma on, are written exactly so, with XXH3-64 of the bytes before them in
// lower-case hexadecimal digits. This and "format" stay in all later formats, so that a program can name a
// format that it does not know. Fields:
//
//   format   1                     clock     of the checkpoint
//   run      who has written it    since     of an increment: the clock of what it builds upon
//   written  the time              program   version of the program that has written it
//   options  of the caller         tables    [{number, name, description}, …]
//   parts    [{name,
//              files: [{name, bytes, checksum, chunks: [{kind, number, first, last, rows, offset, bytes,
//                                                        checksum}, …]}, …],
//              blobs: [{name, bytes}, …]}, …]
//
// They mean what they mean in checkpoint/manifest.hpp; kinds are "rows", "scattered", "removed" and "blob".
// Fields that this program does not know it ignores.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "checkpoint/manifest.hpp"

namespace verbena::checkpoint {

constexpr std::uint32_t kManifestFormat = 1;  ///< this program reads no other one
/// Of a file that holds such a text. More chunks than any file system has room for.
constexpr std::uint64_t kMostManifestBytes = std::uint64_t{1} << 30;

/// INVALID_ARGUMENT: a text of the caller's is not UTF-8.
absl::StatusOr<std::string> encode(const Manifest& manifest);
/// DATA_LOSS: it is not what encode() has written. UNIMPLEMENTED: it is of another format. INVALID_ARGUMENT:
/// it says what cannot be, also by check(). Nothing that the text may hold uses more memory than its length
/// would explain, or more stack.
absl::StatusOr<Manifest> decode_manifest(std::string_view text);

/// What a process tells the one that writes the manifest. REQUIRES: check(part).
std::string encode(const Part& part);
/// With what each of these texts begins.
inline constexpr std::string_view kPartTextBegin = "{\"blobs\":";
/// INVALID_ARGUMENT: anything that encode() does not write of a part for which check() holds.
absl::StatusOr<Part> decode_part(std::string_view text);

}  // namespace verbena::checkpoint
