// Files that users give: they must become sound data, or an error of one line that says where and what was
// expected.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/data/corpus.hpp"
#include "apps/data/examples.hpp"
#include "apps/data/feature_keys.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/ratings.hpp"
#include "apps/data/stop_words.hpp"
#include "apps/data/tokenizer.hpp"
#include "apps/data/triples.hpp"
#include "apps/kge/model.hpp"
#include "apps/lda/model.hpp"
#include "apps/mf/saved_model.hpp"
#include "apps/word2vec/vectors.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/temporary_folder.hpp"
#include "transport/secret.hpp"

namespace verbena::fuzz {
namespace {

/// A file in memory, since thousands a second are written.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0 && ::fchmod(descriptor_, 0600) == 0, "no memory file");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(std::string_view bytes) const {
    require(::ftruncate(descriptor_, 0) == 0, "cannot be emptied");
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), 0);
    require(written == static_cast<ssize_t>(bytes.size()), "cannot be written");
  }
  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  const int descriptor_;
};

/// A folder of memory files, for readers that open several by name.
class MemoryFolder {
 public:
  explicit MemoryFolder(const std::vector<std::string>& names) : files_(names.size()) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::filesystem::create_symlink(files_[i].path(), folder_.path(names[i]));
    }
  }
  [[nodiscard]] std::string path(std::string_view name) const { return folder_.path(name); }
  [[nodiscard]] std::string path() const { return folder_.path().string(); }
  /// Writes the part before the first FF byte to the first file, the next part to the second…
  void write(std::string_view bytes) const {
    for (const MemoryFile& file : files_) {
      const std::size_t end = std::min(bytes.find('\xff'), bytes.size());
      file.write(bytes.substr(0, end));
      bytes.remove_prefix(std::min(end + 1, bytes.size()));
    }
  }

 private:
  std::vector<MemoryFile> files_;
  verbena::testing::TemporaryFolder folder_;
};

/// Requires an error of one line that says what was expected.
void require_expectation(const absl::Status& status, const char* file = __builtin_FILE(),
                         int line = __builtin_LINE()) {
  require_refusal(status, "expected ", file, line);
  require(status.message().find('\n') == absl::string_view::npos, "more than a line", file, line);
}

/// The lines of a text, without byte order mark and line ends.
std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (lines.empty() && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    lines.push_back(line);
  }
  return lines;
}

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1F\x8B");
}

/// Whether the file may give a count of millions of words: a few bytes, for which it would be right to fill
/// the memory.
bool may_count_millions(std::string_view bytes) {
  constexpr int kMostDigits = 5;
  int digits = 0;
  return is_gzip(bytes) || std::ranges::any_of(bytes, [&](char c) {
           digits = c >= '0' && c <= '9' ? digits + 1 : 0;
           return digits > kMostDigits;
         });
}

/// `part`: the one that was asked for; 0: the whole corpus.
void require_sound(const apps::Corpus& corpus, std::uint32_t part) {
  require(corpus.begin.size() == corpus.documents.size() + 1, "begin");
  require(corpus.titles.size() == corpus.documents.size(), "titles");
  require(std::is_sorted(corpus.begin.begin(), corpus.begin.end()), "order of documents");
  require(corpus.begin.front() == 0 && corpus.begin.back() == corpus.tokens.size(), "ends of documents");
  require(corpus.tokens.size() == (part == 0 ? corpus.total_tokens : 0), "tokens");
  for (const std::uint64_t document : corpus.documents)
    require(document < corpus.total_documents, "document");
  for (const std::uint32_t token : corpus.tokens) require(token < corpus.vocabulary.size(), "token");
}

void lines(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  absl::StatusOr<apps::LineReader> reader = apps::LineReader::open(file.path());
  require(reader.ok(), "cannot be opened");
  const bool plain = !is_gzip(bytes);
  const std::vector<std::string_view> expected = split_lines(bytes);
  std::string_view line;
  for (std::uint64_t number = 1;; ++number) {
    const absl::StatusOr<bool> more = reader->next(line);
    if (!more.ok()) {
      require(!plain, "plain text is refused");
      return require_expectation(more.status());
    }
    if (!*more) return require(!plain || number == expected.size() + 1, "too few lines");
    require(reader->line_number() == number, "number of a line");
    require(line.find('\n') == std::string_view::npos, "two lines in one");
    if (plain) require(number <= expected.size() && line == expected[number - 1], "another line");
  }
}

void words(std::string_view bytes) {
  for (const apps::Tokens tokens : {apps::Tokens::kWords, apps::Tokens::kWhitespace}) {
    apps::Tokenizer tokenizer(tokens);
    const bool whole = tokenizer.for_each_word(bytes, [&](std::string_view word) {
      require(!word.empty() && word.find(' ') == std::string_view::npos, "a word");
    });
    if (!whole) require(tokenizer.damaged() >= 0x80, "damaged");
    static_cast<void>(tokenizer.vocabulary_form(bytes));
  }
}

/// The last byte chooses the options. Even: words, odd: all that is between white space. If it is 7 modulo 8,
/// the order of the words is wanted, too.
void corpus(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  const unsigned choice = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.back());
  const std::uint32_t part = may_count_millions(bytes) ? 1 : 0;
  const absl::StatusOr<apps::Corpus> found =
      apps::read_corpus({.path = file.path(),
                         .tokens = choice % 2 == 0 ? apps::Tokens::kWords : apps::Tokens::kWhitespace,
                         .needs_order = choice % 8 == 7,
                         .part = part});
  if (!found.ok()) return require_expectation(found.status());
  require_sound(*found, part);
}

/// The input is the vocabulary, then the bag of words.
void vocabulary(std::string_view bytes) {
  static const MemoryFolder folder({"vocab", "bag"});
  folder.write(bytes);
  const bool has_gzip = bytes.find("\x1F\x8B") != std::string_view::npos;
  const std::uint32_t part = may_count_millions(bytes) || has_gzip ? 1 : 0;
  const absl::StatusOr<apps::Corpus> found =
      apps::read_corpus({.path = folder.path("bag"), .vocabulary = folder.path("vocab"), .part = part});
  if (!found.ok()) return require_expectation(found.status());
  require_sound(*found, part);
  const std::string_view vocabulary = bytes.substr(0, bytes.find('\xff'));
  if (is_gzip(vocabulary)) return;
  for (const std::string& word : found->vocabulary) {
    require(vocabulary.find(word) != std::string_view::npos, "a word that is not in the vocabulary");
  }
}

void stop_words(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  const auto found = apps::read_stop_words(file.path());
  if (!found.ok()) return require_expectation(found.status());
  for (const std::string& word : *found) require(!word.empty(), "an empty word");
  require(is_gzip(bytes) || found->size() <= split_lines(bytes).size(), "two words in a line");
}

/// What follows the first FF byte is a file of held-out ratings.
void ratings(std::string_view bytes) {
  static const MemoryFolder folder({"train", "test"});
  folder.write(bytes);
  const bool has_test = bytes.find('\xff') != std::string_view::npos;
  const auto found = apps::read_ratings(
      {.path = folder.path("train"), .test_path = has_test ? folder.path("test") : "", .test_fraction = 0.5});
  if (!found.ok()) return require_expectation(found.status());
  require(found->total_train == found->train.size() && found->total_test == found->test.size(), "totals");
  require(found->item_train.size() == found->item_names.size(), "items");
  require(std::isfinite(found->train_mean) && std::isfinite(found->train_deviation), "statistics");
  for (const std::vector<apps::Rating>* part : {&found->train, &found->test}) {
    for (const apps::Rating& rating : *part) {
      require(rating.user < found->user_names.size() && rating.item < found->item_names.size(), "an id");
      require(std::isfinite(rating.value), "a value");
    }
  }
}

void triples_in(const MemoryFolder& folder) {
  const auto found = apps::read_triples(folder.path());
  if (!found.ok()) return require_expectation(found.status());
  for (const auto* names : {&found->entity_names, &found->relation_names}) {
    for (const std::string& name : *names) require(!name.empty(), "an empty name");
  }
  for (const auto* part : {&found->train, &found->valid, &found->test}) {
    for (const apps::Triple& triple : *part) {
      require(triple.head < found->entity_names.size() && triple.tail < found->entity_names.size(),
              "an entity");
      require(triple.relation < found->relation_names.size(), "a relation");
    }
  }
}

void triples(std::string_view bytes) {
  static const MemoryFolder folder({"train.txt", "valid.txt", "test.txt"});
  folder.write(bytes);
  triples_in(folder);
}

void openke_triples(std::string_view bytes) {
  static const MemoryFolder folder(
      {"train2id.txt", "valid2id.txt", "test2id.txt", "entity2id.txt", "relation2id.txt"});
  folder.write(bytes);
  triples_in(folder);
}

void dgl_ke_triples(std::string_view bytes) {
  static const MemoryFolder folder({"train.txt", "valid.txt", "test.txt", "entities.dict", "relations.tsv"});
  folder.write(bytes);
  triples_in(folder);
}

struct LabelledFeatures {
  bool is_positive = false;
  std::vector<apps::Feature> features;
};

bool are_equal(const std::vector<LabelledFeatures>& one, const std::vector<LabelledFeatures>& other) {
  return std::ranges::equal(one, other, [](const LabelledFeatures& a, const LabelledFeatures& b) {
    return a.is_positive == b.is_positive &&
           std::ranges::equal(a.features, b.features, [](const apps::Feature& f, const apps::Feature& g) {
             return f.key == g.key && f.value == g.value;
           });
  });
}

void require_sound(const apps::Example& example) {
  require(std::isfinite(example.weight) && example.weight >= 0, "a weight");
  for (std::size_t i = 0; i < example.features.size(); ++i) {
    const auto [key, value] = example.features[i];
    require(key < apps::kBeyondFeatures, "a key");
    require(std::isfinite(value) && value != 0, "a value");
    require(i == 0 || example.features[i - 1].key < key, "the order of the features");
  }
}

/// Requires "PATH:LINE: ", of one of the files.
void require_place(const absl::Status& status, const std::vector<std::string>& paths) {
  const std::string message(status.message());
  require(std::ranges::any_of(paths,
                              [&](const std::string& path) {
                                if (!message.starts_with(path + ":")) return false;
                                const std::size_t line = path.size() + 1;
                                const std::size_t end = message.find_first_not_of("0123456789", line);
                                return end != line && message[line] != '0' &&
                                       message.substr(end).starts_with(": ");
                              }),
          message);
}

/// Reads examples of that format, which must be sound, or an error with a place.
absl::StatusOr<apps::ExamplesRead> read_examples(const std::vector<std::string>& paths,
                                                 apps::ExampleFormat format,
                                                 std::vector<LabelledFeatures>& examples) {
  examples.clear();
  std::uint64_t positives = 0;
  std::uint64_t features = 0;
  const auto read =
      apps::read_examples({.paths = paths, .format = format}, [&](const apps::Example& example) {
        require(example.number == examples.size(), "the number of an example");
        require_sound(example);
        positives += example.is_positive ? 1 : 0;
        features += example.features.size();
        examples.push_back({example.is_positive, {example.features.begin(), example.features.end()}});
        return absl::OkStatus();
      });
  if (!read.ok()) {
    require_expectation(read.status());
    require_place(read.status(), paths);
    return read;
  }
  require(!examples.empty() && read->examples == examples.size(), "how many examples");
  require(read->positives == positives && read->features == features, "totals");
  return read;
}

/// LIBFFM can say all but weights.
std::string as_libffm(const std::vector<LabelledFeatures>& examples) {
  std::string text;
  for (const LabelledFeatures& example : examples) {
    text += example.is_positive ? "1" : "-1";
    for (const auto& [key, value] : example.features)
      text += fmt::format(" {}:{}", apps::feature_name(key), value);
    text += '\n';
  }
  return text;
}

/// What follows the first FF byte is a second file. It is read as each format, and as what it seems to be.
void examples(std::string_view bytes) {
  using Format = apps::ExampleFormat;
  static const MemoryFolder folder({"first", "second"});
  static const MemoryFile written;
  folder.write(bytes);
  std::vector<std::string> paths = {folder.path("first")};
  if (bytes.find('\xff') != std::string_view::npos) paths.push_back(folder.path("second"));
  std::vector<LabelledFeatures> guessed;
  const auto by_guess = read_examples(paths, Format::kAuto, guessed);
  bool is_confirmed = false;
  for (const Format format : {Format::kLibsvm, Format::kLibffm, Format::kCriteo, Format::kAvazu,
                              Format::kVowpalWabbit, Format::kRatings}) {
    std::vector<LabelledFeatures> named;
    const auto by_name = read_examples(paths, format, named);
    if (!by_name.ok()) continue;
    if (by_guess.ok() && by_guess->format == by_name->format) {
      require(are_equal(named, guessed), "read otherwise if the format is named");
      is_confirmed = true;
    }
    written.write(as_libffm(named));
    std::vector<LabelledFeatures> again;
    const auto read_again = read_examples({written.path()}, Format::kLibffm, again);
    require(read_again.ok() && are_equal(again, named), "read otherwise when written again");
  }
  require(!by_guess.ok() || is_confirmed, "a format that is refused if it is named");
}

void kge_model(std::string_view bytes) {
  static const MemoryFolder folder({"model.entities.tsv", "model.relations.tsv"});
  static const std::vector<std::string> entities = {"a", "b", "c"};
  static const std::vector<std::string> relations = {"isa"};
  folder.write(bytes);
  const auto found = apps::kge::load(
      folder.path("model"), {.model = apps::kge::Model::kComplEx, .dimension = 2}, {entities, relations});
  if (!found.ok()) return require_expectation(found.status());
  for (std::size_t id = 0; id < entities.size(); ++id) {
    require(std::isfinite(found->entity(id)[0]) && std::isfinite(found->entity(id)[1]), "a value");
  }
}

/// Whole embeddings, of whatever model and names the files say.
void kge_embeddings(std::string_view bytes) {
  static const MemoryFolder folder({"model.entities.tsv", "model.relations.tsv"});
  folder.write(bytes);
  const auto found = apps::kge::load(folder.path("model"));
  if (!found.ok()) return require_expectation(found.status());
  require(found->embeddings.entities() == found->entity_names.size() && !found->entity_names.empty(),
          "entities");
  require(found->embeddings.relations() == found->relation_names.size(), "relations");
  for (std::size_t id = 0; id < found->entity_names.size(); ++id)
    require(std::isfinite(found->embeddings.entity(id)[0]), "a value");
}

void lda_model(std::string_view bytes) {
  static const MemoryFile file;
  // A few bytes may ask for rows of 65,535 topics, for which it would be right to fill the memory.
  constexpr std::size_t kMostBytes = 1000;
  if (bytes.size() > kMostBytes || is_gzip(bytes)) return;
  file.write(bytes);
  auto found = apps::lda::load_model(file.path());
  if (!found.ok()) return require_expectation(found.status());
  std::uint64_t tokens = 0;
  for (const std::int32_t total : found->counts.totals()) tokens += static_cast<std::uint64_t>(total);
  require(tokens == found->header.tokens && found->counts.topics() == found->header.topics, "totals");
  for (const std::string& word : found->words) require(!word.empty(), "an empty word");
}

/// The input is the users, then the items.
void mf_model(std::string_view bytes) {
  static const MemoryFolder folder({"model.users.tsv", "model.items.tsv"});
  folder.write(bytes);
  const auto found = apps::mf::SavedModel::load(folder.path("model"));
  if (!found.ok()) return require_expectation(found.status());
  require(!found->users().empty() && !found->items().empty() && found->rank() > 0, "nothing");
  for (const apps::mf::Recommendation& one : found->recommend(0, {}, 3))
    require(one.item < found->items().size() && std::isfinite(one.rating), "a recommendation");
}

void vectors(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  const auto found = apps::word2vec::load(file.path());
  if (!found.ok()) return require_expectation(found.status());
  require(!found->words().empty(), "no words");
  for (std::size_t id = 0; id < found->words().size(); ++id) {
    require(!found->words()[id].empty(), "an empty word");
    for (std::size_t k = 0; k < found->dimension(); ++k) require(std::isfinite(found->row(id)[k]), "a value");
  }
}

void secret_file(std::string_view bytes) {
  static const MemoryFile file;
  file.write(bytes);
  const auto found = transport::Secret::read_file(file.path());
  if (!found.ok()) return require_expectation(found.status());
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  const auto first = std::ranges::find_if_not(bytes, is_space);
  const auto last = std::find_if_not(bytes.rbegin(), bytes.rend(), is_space).base();
  require(last - first >= std::ptrdiff_t{transport::Secret::kFewestFileBytes}, "too short a secret");
  const auto again = transport::Secret::from_hex((*found)->to_hex());
  require(again.ok() && std::ranges::equal((*again)->bytes(), (*found)->bytes()), "said otherwise");
}

}  // namespace

std::span<const Target> file_targets() {
  static constexpr auto kTargets = std::to_array<Target>({
      {"checkpoint", checkpoint_files},
      {"checkpoint-manifest", checkpoint_manifest},
      {"corpus", corpus},
      {"dgl-ke-triples", dgl_ke_triples},
      {"examples", examples},
      {"kge-embeddings", kge_embeddings},
      {"kge-model", kge_model},
      {"lda-model", lda_model},
      {"lines", lines},
      {"mf-model", mf_model},
      {"openke-triples", openke_triples},
      {"ratings", ratings},
      {"saved-state", saved_state},
      {"secret-file", secret_file},
      {"stop-words", stop_words},
      {"triples", triples},
      {"vectors", vectors},
      {"vocabulary", vocabulary},
      {"words", words},
  });
  return kTargets;
}

}  // namespace verbena::fuzz
