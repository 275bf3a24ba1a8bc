// Documents that are given as counts: how often each word occurs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/data/corpus_collector.hpp"
#include "apps/data/line_reader.hpp"

namespace verbena::apps {

/// Reads the words of a bag of words, one a line. Errors as LineReader's, and INVALID_ARGUMENT for a line
/// that is not one word of UTF-8, or for a file without words.
absl::StatusOr<std::vector<std::string>> read_vocabulary(const std::string& path);
/// The vocabulary file that belongs to docword.NAME.txt[.gz], if it is there.
std::string vocabulary_beside(const std::string& path);

// Each function reads to the end. `vocabulary` has the words' names, or is empty. INVALID_ARGUMENT
// "file:line: expected …".
// ------------------------------------------------------------------------------------------------------------

/// The numbers of documents, words and entries, one on each line; then lines "document word count", counted
/// from 1.
absl::Status read_uci(LineReader& lines, const std::vector<std::string>& vocabulary,
                      CorpusCollector& collector);
/// A document a line: "pairs id:count …", ids from 0.
absl::Status read_lda_c(LineReader& lines, const std::vector<std::string>& vocabulary,
                        CorpusCollector& collector);
/// Rows are documents, columns are words.
absl::Status read_matrix_market(LineReader& lines, const std::vector<std::string>& vocabulary,
                                CorpusCollector& collector);
/// A document a line: "label id:count …", with "# comment" and "qid:…"; labels are not used. Ids from 1, or
/// from 0 if there is no vocabulary.
absl::Status read_svm_light(LineReader& lines, const std::vector<std::string>& vocabulary,
                            CorpusCollector& collector);
/// A document a line: "label |namespace word:count …"; a word without a count occurs once. Labels and
/// namespaces are not used.
absl::Status read_vowpal_wabbit(LineReader& lines, CorpusCollector& collector);

}  // namespace verbena::apps
