// User-item ratings, for matrix factorization.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/data/corpus.hpp"

namespace verbena::apps {

struct Rating {
  std::uint32_t user = 0;  ///< dense ids, in the order of first appearance in the file
  std::uint32_t item = 0;
  float value = 0;
};

/// One part of a rating file with the id maps and the statistics of the whole.
struct Ratings {
  std::vector<Rating> train;            ///< of this part, in file order
  std::vector<Rating> test;             ///< held out, of this part
  std::vector<std::string> user_names;  ///< of all parts: the ids as the file spells them
  std::vector<std::string> item_names;
  std::uint64_t total_train = 0;
  std::uint64_t total_test = 0;
  std::vector<std::uint64_t> user_train;  ///< training ratings of each user, over all parts
  std::vector<std::uint64_t> item_train;  ///< training ratings of each item, over all parts
  double train_mean = 0;                  ///< over all parts, summed in file order
  double train_deviation = 0;             ///< standard deviation, over all parts
  std::string format;                     ///< how the files were read, for people
};

struct RatingsOptions {
  std::string path;            ///< a table or a matrix (docs/data.md); gzip of any
  std::string test_path;       ///< of ratings that are held out; empty: some of `path`
  double test_fraction = 0.1;  ///< of `path` alone; chosen by hashing (seed, line): the same for any parts
  std::uint64_t seed = 1;
  /// This part: ratings of the users u with u mod parts == part. part == parts keeps none, only the ids and
  /// the statistics.
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
};

/// Streams the file, keeping only this part's ratings. The same file and options give the same ids in every
/// process. Errors: NOT_FOUND; INVALID_ARGUMENT "file:line: what was expected, what was found".
absl::StatusOr<Ratings> read_ratings(const RatingsOptions& options, const ReadProgress& progress = {});

}  // namespace verbena::apps
