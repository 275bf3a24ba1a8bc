#include "apps/lda/kernel.hpp"

// Compiled once per instruction set by foreach_target (cmake/Compile.cmake says for which).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "apps/lda/kernel.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "apps/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace verbena::apps::lda::HWY_NAMESPACE {
using namespace verbena::apps::HWY_NAMESPACE;

using Integers = hn::RebindToSigned<Tag>;
constexpr std::size_t kGroup = 4;             // lanes of a 128-bit block, which every target has
constexpr std::size_t kPrefetchDistance = 4;  // tokens
static_assert(kWidth >= kGroup || kWidth == 1);

struct Pick {
  std::size_t lane;
  float rest;  ///< of the threshold, within the lane
};

/// Sums up to each lane within its group of four: w0, w1 + w0, w2 + (w1 + w0), (w3 + w2) + (w1 + w0). A lane
/// of weight 0 must have exactly the sum of the lane before it: this is how Prefix recognizes that lane. With
/// (w2 + w1) + w0, rounding would sometimes make the two differ, and an entry that does not exist would be
/// drawn.
HWY_INLINE void store_group_sums(const Vector* weights, float* HWY_RESTRICT lanes) {
  const Tag d;
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t v = 0; v < kLanes; ++v) hn::Store(weights[v], d, lanes + v);
  for (float* group = lanes; group < lanes + kLanes; group += kGroup) {
    group[1] += group[0];
    group[3] = (group[3] + group[2]) + group[1];
    group[2] += group[1];
  }
#else
  for (std::size_t v = 0; v < kVectors; ++v) {
    const Vector pairs = hn::OddEven(hn::Add(weights[v], hn::ShiftLeftLanes<1>(d, weights[v])), weights[v]);
    hn::Store(hn::Add(pairs, hn::ShiftLeftLanes<2>(d, hn::DupOdd(pairs))), d, lanes + v * kWidth);
  }
#endif
}

/// Sums up to each lane of 16 weights, by groups of four.
struct Prefix {
  alignas(64) float lanes[kLanes];
  float group_begin[kLanes / kGroup];
  float total;

  HWY_INLINE void set(const Vector* weights) {
    store_group_sums(weights, lanes);
    group_begin[0] = 0;
    group_begin[1] = lanes[3];
    group_begin[2] = group_begin[1] + lanes[7];
    group_begin[3] = group_begin[2] + lanes[11];
    total = group_begin[3] + lanes[15];
  }

  /// The lane where the sums pass the threshold; never one of weight 0.
  HWY_INLINE Pick pick(float threshold) const {
    const std::size_t group = std::size_t{threshold >= group_begin[1]} +
                              std::size_t{threshold >= group_begin[2]} +
                              std::size_t{threshold >= group_begin[3]};
    threshold -= group_begin[group];
    const float* const sums = lanes + kGroup * group;
    const std::size_t in_group = std::size_t{threshold >= sums[0]} + std::size_t{threshold >= sums[1]} +
                                 std::size_t{threshold >= sums[2]};
    const float before = in_group == 0 ? 0.0F : sums[in_group - 1];
    if (HWY_UNLIKELY(sums[in_group] == before)) return last_of_any_weight();
    return {kGroup * group + in_group, threshold - before};
  }

  /// For a threshold that rounding took past the end.
  [[nodiscard]] Pick last_of_any_weight() const {
    std::size_t lane = kLanes;
    while (--lane > 0) {
      const float before = lane % kGroup == 0 ? 0.0F : lanes[lane - 1];
      if (lanes[lane] > before) break;
    }
    return {lane, 0.0F};
  }
};

HWY_INLINE float sum_of(const float* HWY_RESTRICT weights) {
  const Tag d;
  Vector sums[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = hn::Load(d, weights + v * kWidth);
  return sum_virtual_lanes(sums);
}

HWY_INLINE void build_tree(Sampler::State& s, const std::int32_t* HWY_RESTRICT row) {
  float* HWY_RESTRICT q = s.tree[0];
  const float* HWY_RESTRICT inverse = s.inverse_totals;
  const float beta = s.beta;
  for (std::size_t k = 0; k < s.topics; ++k) {
    q[k] = (static_cast<float>(std::max(row[k], 0)) + beta) * inverse[k];
  }
  for (std::size_t level = 0; level + 1 < s.levels; ++level) {
    for (std::size_t i = 0; i < s.sizes[level] / kLanes; ++i) {
      s.tree[level + 1][i] = sum_of(s.tree[level] + i * kLanes);
    }
  }
}

/// After a change of q[topic].
HWY_INLINE void update_tree(Sampler::State& s, std::size_t topic) {
  for (std::size_t level = 0; level + 1 < s.levels; ++level) {
    topic /= kLanes;
    s.tree[level + 1][topic] = sum_of(s.tree[level] + topic * kLanes);
  }
}

HWY_INLINE float tree_total(const Sampler::State& s) {
  return sum_of(s.tree[s.levels - 1]);
}

HWY_INLINE std::size_t find_in_tree(const Sampler::State& s, float threshold) {
  const Tag d;
  std::size_t block = 0;
  for (std::size_t level = s.levels; level-- > 0;) {
    Vector weights[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      weights[v] = hn::Load(d, s.tree[level] + block * kLanes + v * kWidth);
    }
    Prefix prefix;
    prefix.set(weights);
    const Pick pick = prefix.pick(threshold);
    block = block * kLanes + pick.lane;
    threshold = pick.rest;
  }
  return block;
}

constexpr std::size_t kNowhere = ~std::size_t{0};

HWY_INLINE std::int32_t* entry(std::int32_t* chunks, std::size_t position) {
  return chunks + 2 * kLanes * (position / kLanes) + position % kLanes;
}

HWY_INLINE std::size_t find_topic(const std::int32_t* HWY_RESTRICT chunks, std::size_t size,
                                  std::size_t topic) {
  const Integers d;
  const auto wanted = hn::Set(d, static_cast<std::int32_t>(topic));
  for (std::size_t i = 0; i < size; i += kWidth) {
    const std::int32_t* const at = chunks + 2 * kLanes * (i / kLanes) + i % kLanes;
    const std::intptr_t found = hn::FindFirstTrue(d, hn::Eq(hn::Load(d, at), wanted));
    if (found >= 0) return i + static_cast<std::size_t>(found);
  }
  return kNowhere;
}

/// Weights n_dk q_k of the document's topics, without the token itself, and their prefix sums by lane.
HWY_INLINE void weigh_document(Sampler::State& s, const std::int32_t* HWY_RESTRICT chunks, std::size_t size,
                               std::size_t old_topic, float q_without, Prefix& prefix) {
  const Tag d;
  const Integers di;
  const auto old_topics = hn::Set(di, static_cast<std::int32_t>(old_topic));
  const auto one = hn::Set(di, 1);
  const Vector q_old = hn::Set(d, q_without);
  Vector sums[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  float* HWY_RESTRICT weights = s.weights;
  const float* HWY_RESTRICT q = s.tree[0];
  for (std::size_t i = 0; i < size; i += kLanes, chunks += 2 * kLanes, weights += kLanes) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto topics = hn::Load(di, chunks + v * kWidth);
      const auto counts = hn::Load(di, chunks + kLanes + v * kWidth);
      const auto is_old = hn::Eq(topics, old_topics);
      const auto others = hn::Sub(counts, hn::IfThenElseZero(is_old, one));
      const Vector q_k = hn::IfThenElse(hn::RebindMask(d, is_old), q_old, hn::GatherIndex(d, q, topics));
      const Vector weight = hn::Mul(hn::ConvertTo(d, others), q_k);
      hn::Store(weight, d, weights + v * kWidth);
      sums[v] = hn::Add(sums[v], weight);
    }
  }
  prefix.set(sums);
}

/// Where in the document's list the threshold falls.
HWY_INLINE std::size_t find_in_document(const Sampler::State& s, std::size_t size, const Prefix& prefix,
                                        float threshold) {
  const Pick pick = prefix.pick(threshold);
  std::size_t last = pick.lane;  // the last position with any weight
  float rest = pick.rest;
  for (std::size_t position = pick.lane; position < size; position += kLanes) {
    const float weight = s.weights[position];
    if (weight <= 0) continue;
    last = position;
    if (rest < weight) break;
    rest -= weight;
  }
  return last;
}

HWY_INLINE float uniform(std::uint64_t bits) {
  return static_cast<float>(bits & 0xffffffU) * 0x1p-24F;
}

/// Moves one token of a document from the topic at `from` to `topic`, at `to` if that is known.
HWY_INLINE void move_token(std::int32_t* chunks, std::uint32_t& size, std::size_t from, std::size_t to,
                           std::size_t topic, std::int32_t no_topic) {
  if (to == kNowhere) to = find_topic(chunks, size, topic);
  std::int32_t* const old_entry = entry(chunks, from);
  --old_entry[kLanes];
  if (to != kNowhere) {
    ++entry(chunks, to)[kLanes];
  } else {
    const std::size_t free = old_entry[kLanes] == 0 ? from : size++;
    std::int32_t* const added = entry(chunks, free);
    added[0] = static_cast<std::int32_t>(topic);
    added[kLanes] = 1;
  }
  if (old_entry[kLanes] > 0) return;
  std::int32_t* const last = entry(chunks, --size);
  old_entry[0] = last[0];
  old_entry[kLanes] = last[kLanes];
  last[0] = no_topic;
  last[kLanes] = 0;
}

HWY_INLINE void prefetch(const Sampler::Tokens& tokens, std::size_t i, DocumentTopics& documents) {
  if (i >= tokens.documents.size()) return;
  const std::int32_t* const chunks = documents.chunks(tokens.documents[i]);
  hwy::Prefetch(chunks);
  hwy::Prefetch(chunks + kLanes);
}

void sample_tokens(Sampler::State& shared, std::int32_t* HWY_RESTRICT row, const Sampler::Tokens& tokens,
                   DocumentTopics& documents) {
  // A copy on the stack: the compiler then knows that stores of floats do not change it.
  Sampler::State s = shared;
  build_tree(s, row);
  float* HWY_RESTRICT q = s.tree[0];
  float total = tree_total(s);
  for (std::size_t i = 0; i < tokens.documents.size(); ++i) {
    prefetch(tokens, i + kPrefetchDistance, documents);
    const std::size_t document = tokens.documents[i];
    std::int32_t* const chunks = documents.chunks(document);
    std::uint32_t& size = documents.size(document);
    const std::size_t old_topic = tokens.topics[i];

    const float q_with = q[old_topic];
    const float inverse_without =
        1.0F / (static_cast<float>(std::max(s.totals[old_topic] - 1, 0)) + s.vocabulary_beta);
    const float q_without = (static_cast<float>(std::max(row[old_topic] - 1, 0)) + s.beta) * inverse_without;
    Prefix prefix;
    weigh_document(s, chunks, size, old_topic, q_without, prefix);

    // The tree still contains the token. That is cheaper than taking it out and putting it back, because most
    // tokens keep their topic. Draws of the old topic are thinned out instead, unless they dominate.
    bool taken_out = false;
    float rest = total - (q_with - q_without);
    if (HWY_UNLIKELY(rest < 0.5F * total)) {
      q[old_topic] = q_without;
      update_tree(s, old_topic);
      rest = tree_total(s);
      taken_out = true;
    }

    const std::uint64_t bits = s.random();
    const float threshold = uniform(bits >> 40U) * (prefix.total + s.alpha * rest);
    std::size_t position = kNowhere;
    std::size_t topic = old_topic;
    if (threshold < prefix.total) {
      position = find_in_document(s, size, prefix, threshold);
      topic = static_cast<std::size_t>(*entry(chunks, position));
    } else if (taken_out) {
      topic = find_in_tree(s, uniform(bits >> 16U) * rest);
    } else {
      topic = find_in_tree(s, uniform(bits >> 16U) * total);
      while (topic == old_topic && uniform(s.random() >> 40U) * q_with >= q_without) {
        topic = find_in_tree(s, uniform(s.random() >> 40U) * total);
      }
    }

    if (topic == old_topic) {
      if (taken_out) {
        q[old_topic] = q_with;
        update_tree(s, old_topic);
      }
      continue;
    }
    tokens.topics[i] = static_cast<std::uint16_t>(topic);
    move_token(chunks, size, find_topic(chunks, size, old_topic), position, topic, documents.no_topic());
    --row[old_topic];
    --s.totals[old_topic];
    ++row[topic];
    ++s.totals[topic];
    const float inverse_with = 1.0F / (static_cast<float>(std::max(s.totals[topic], 0)) + s.vocabulary_beta);
    s.inverse_totals[old_topic] = inverse_without;
    s.inverse_totals[topic] = inverse_with;
    q[old_topic] = q_without;
    q[topic] = (static_cast<float>(std::max(row[topic], 0)) + s.beta) * inverse_with;
    if (!taken_out) update_tree(s, old_topic);
    update_tree(s, topic);
    total = tree_total(s);
  }
  shared.random = s.random;
}

}  // namespace verbena::apps::lda::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace verbena::apps::lda {

HWY_EXPORT(sample_tokens);

DocumentTopics::DocumentTopics(std::span<const std::uint32_t> lengths, std::size_t topics)
    : topics_(topics), sizes_(lengths.size(), 0) {
  assert(topics <= kMaxTopics);
  std::uint64_t chunks = 0;
  begin_.reserve(lengths.size());
  for (const std::uint32_t length : lengths) {
    begin_.push_back(chunks);
    chunks += padded(std::min<std::size_t>(length, topics)) / kLanes;
  }
  entries_ = hwy::AllocateAligned<std::int32_t>(std::max<std::uint64_t>(2 * kLanes * chunks, 1));
  for (std::uint64_t i = 0; i < chunks; ++i) {
    std::fill_n(entries_.get() + 2 * kLanes * i, kLanes, no_topic());
    std::fill_n(entries_.get() + 2 * kLanes * i + kLanes, kLanes, 0);
  }
}

void DocumentTopics::set(std::size_t document, std::span<const std::int32_t> counts) {
  std::int32_t* const entries = chunks(document);
  std::uint32_t& size = sizes_[document];
  assert(size == 0);
  for (std::size_t topic = 0; topic < counts.size(); ++topic) {
    if (counts[topic] == 0) continue;
    std::int32_t* const entry = entries + 2 * kLanes * (size / kLanes) + size % kLanes;
    entry[0] = static_cast<std::int32_t>(topic);
    entry[kLanes] = counts[topic];
    ++size;
  }
}

void DocumentTopics::set_list(std::size_t document, std::span<const std::uint16_t> topics,
                              std::span<const std::int32_t> counts) {
  std::int32_t* const entries = chunks(document);
  const auto entry = [&](std::size_t i) { return entries + 2 * kLanes * (i / kLanes) + i % kLanes; };
  for (std::size_t i = 0; i < sizes_[document]; ++i) {
    entry(i)[0] = no_topic();
    entry(i)[kLanes] = 0;
  }
  for (std::size_t i = 0; i < topics.size(); ++i) {
    entry(i)[0] = topics[i];
    entry(i)[kLanes] = counts[i];
  }
  sizes_[document] = static_cast<std::uint32_t>(topics.size());
}

Random random_stream(std::uint64_t seed, std::uint64_t stream) {
  return Random(mix(mix(seed) ^ (stream * 0xd1342543de82ef95U)));
}

Sampler::Sampler(std::size_t topics, std::size_t vocabulary, const Priors& priors, const Random& random)
    : state_{.topics = topics,
             .levels = 0,
             .tree = {},
             .sizes = {},
             .inverse_totals = nullptr,
             .weights = nullptr,
             .totals = nullptr,
             .alpha = priors.alpha,
             .beta = priors.beta,
             .vocabulary_beta = static_cast<float>(static_cast<double>(vocabulary) * double{priors.beta}),
             .random = random} {
  assert(topics >= 1 && topics <= kMaxTopics);
  // One more for DocumentTopics::no_topic().
  const std::size_t padded_topics = padded(topics + 1);
  std::size_t floats = 2 * padded_topics;
  std::size_t size = padded_topics;
  do {
    state_.sizes[state_.levels++] = size;
    floats += size;
    size = padded(size / kLanes);
  } while (state_.sizes[state_.levels - 1] > kLanes);
  memory_ = hwy::AllocateAligned<float>(floats);
  std::fill_n(memory_.get(), floats, 0.0F);
  float* next = memory_.get();
  const auto take = [&](std::size_t count) { return std::exchange(next, next + count); };
  state_.inverse_totals = take(padded_topics);
  state_.weights = take(padded_topics);
  for (std::size_t level = 0; level < state_.levels; ++level) {
    state_.tree[level] = take(state_.sizes[level]);
  }
}

void Sampler::set_totals(std::span<std::int32_t> totals) {
  assert(totals.size() == state_.topics);
  state_.totals = totals.data();
  for (std::size_t k = 0; k < totals.size(); ++k) {
    state_.inverse_totals[k] = 1.0F / (static_cast<float>(std::max(totals[k], 0)) + state_.vocabulary_beta);
  }
}

void Sampler::sample(std::int32_t* row, const Tokens& tokens, DocumentTopics& documents) {
  HWY_DYNAMIC_DISPATCH(sample_tokens)(state_, row, tokens, documents);
}

}  // namespace verbena::apps::lda
#endif  // HWY_ONCE
