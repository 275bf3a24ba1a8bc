// Programs by others that do what an application of ours does, for `verbena experiment cost`: how each wants
// its data and its options, and what it prints.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::apps {

/// What a peer is to train, and with how many threads.
struct PeerTask {
  std::int64_t iterations = 1;
  std::uint32_t threads = 1;
  std::int64_t rank = 0;  ///< factors of matrix factorization; topics
  double tolerance = 0;   ///< how near to the best it ends, in its own measure; 0: it has none
};

/// What the peer has done since it was started or since its last iteration.
struct PeerIteration {
  std::int64_t iteration = 0;
  double items = 0;  ///< 0: it cannot be told
  double seconds = 0;
  std::optional<double> objective;
};

class Peer {
 public:
  virtual ~Peer() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// What it is called where it is installed.
  [[nodiscard]] virtual std::string_view program() const = 0;
  [[nodiscard]] virtual std::string_view application() const = 0;
  /// The objective that its iterations have, as the application calls it.
  [[nodiscard]] virtual std::string_view objective() const = 0;
  [[nodiscard]] virtual bool has_threads() const { return true; }
  /// The files that prepare() and the program write in `folder`.
  [[nodiscard]] virtual std::vector<std::string> files(const std::string& folder) const = 0;
  /// Writes `data`, the application's input, into `folder`, as this program wants it. `seed`: chooses what is
  /// held out, as for the application. Errors: those of reading the data and of writing files.
  virtual absl::Status prepare(const std::string& data, std::uint64_t seed, const std::string& folder) = 0;
  /// With which arguments the program itself makes, of what prepare() has written, the file that it trains
  /// from.
  struct Import {
    std::vector<std::string> arguments;
    std::string file;
  };
  /// nullopt: it trains from what prepare() has written. REQUIRES: prepare().
  [[nodiscard]] virtual std::optional<Import> to_import() const { return std::nullopt; }
  /// Its arguments. REQUIRES: prepare().
  [[nodiscard]] virtual std::vector<std::string> arguments(const PeerTask& task) const = 0;
  /// The same to read the data and report an iteration without having trained, by which the time that reading
  /// takes is known and can be left out; empty: there are none. REQUIRES: prepare().
  [[nodiscard]] virtual std::vector<std::string> reading_arguments() const { return {}; }
  /// An iteration that a line of its output reports, `seconds` after the one before. REQUIRES: prepare().
  [[nodiscard]] virtual std::optional<PeerIteration> read(std::string_view line, const PeerTask& task,
                                                          double seconds) const = 0;
  /// The objective of the model that the program has written when it has ended well; nullopt: its output says
  /// what there is to know. Errors: of reading that model. REQUIRES: prepare().
  [[nodiscard]] virtual absl::StatusOr<std::optional<double>> objective_of_model() const {
    return std::nullopt;
  }
};

/// LIBMF (Chin et al., 2016): matrix factorization with threads on one host.
std::unique_ptr<Peer> make_libmf();
/// fastText (Bojanowski et al., 2017), without subwords (character n-grams): skip-gram as our word2vec has
/// it.
std::unique_ptr<Peer> make_fasttext();
/// liblinear (Fan et al., 2008): logistic regression with L1, the objective of ctr's --solver block with
/// --l1 1.
std::unique_ptr<Peer> make_liblinear();

/// MALLET (McCallum, 2002; Yao, Mimno and McCallum, 2009): topics of documents by Gibbs sampling, with the
/// English stop words left out.
std::unique_ptr<Peer> make_mallet();

/// All that are known.
std::vector<std::shared_ptr<Peer>> make_peers();

/// Runs `program`, a path or a name in PATH, and calls `on_iteration` for what it says. If no run since
/// prepare() has imported the data, this one does first, which counts for nothing. Errors: NOT_FOUND if
/// it cannot be run, UNKNOWN if it fails or says nothing that can be read; those of its model.
absl::Status run_peer(const Peer& peer, const std::string& program, const PeerTask& task,
                      absl::FunctionRef<void(const PeerIteration&)> on_iteration);

}  // namespace verbena::apps
