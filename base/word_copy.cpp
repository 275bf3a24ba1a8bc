#include "base/word_copy.hpp"

// Compiled once per instruction set by foreach_target (cmake/Compile.cmake says for which).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/word_copy.cpp"
#include <hwy/foreach_target.h>
// Must come after foreach_target.
#include <hwy/highway.h>

#include <cstdint>
#include <span>

#include "base/row_additions.hpp"

HWY_BEFORE_NAMESPACE();
namespace verbena::base::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Adds as many values as whole vectors hold; returns how many.
template <class Tag, class Value>
HWY_INLINE std::size_t add_vectors(Tag tag, Value* HWY_RESTRICT to, const Value* HWY_RESTRICT update,
                                   std::size_t begin, std::size_t count) {
  const std::size_t lanes = hn::Lanes(tag);
  for (; begin + lanes <= count; begin += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(tag, to + begin), hn::LoadU(tag, update + begin)), tag, to + begin);
  }
  return begin;
}

template <class Value>
HWY_INLINE void add(Value* HWY_RESTRICT to, const Value* HWY_RESTRICT update, std::size_t count) {
  std::size_t done = add_vectors(hn::ScalableTag<Value>(), to, update, 0, count);
  done = add_vectors(hn::CappedTag<Value, 16 / sizeof(Value)>(), to, update, done, count);
  for (; done < count; ++done) to[done] = sum_of(to[done], update[done]);
}

template <class Value>
HWY_INLINE void add_each(std::span<const RowAddition<Value>> additions, std::size_t count) {
  for (const RowAddition<Value>& each : additions) add(each.to, each.update, count);
}

void add_float(float* to, const float* update, std::size_t count) {
  add(to, update, count);
}
void add_double(double* to, const double* update, std::size_t count) {
  add(to, update, count);
}
void add_int32(std::int32_t* to, const std::int32_t* update, std::size_t count) {
  add(to, update, count);
}
void add_int64(std::int64_t* to, const std::int64_t* update, std::size_t count) {
  add(to, update, count);
}

void add_rows_float(std::span<const RowAddition<float>> additions, std::size_t count) {
  add_each(additions, count);
}
void add_rows_double(std::span<const RowAddition<double>> additions, std::size_t count) {
  add_each(additions, count);
}
void add_rows_int32(std::span<const RowAddition<std::int32_t>> additions, std::size_t count) {
  add_each(additions, count);
}
void add_rows_int64(std::span<const RowAddition<std::int64_t>> additions, std::size_t count) {
  add_each(additions, count);
}

}  // namespace verbena::base::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace verbena::base {

HWY_EXPORT(add_float);
HWY_EXPORT(add_double);
HWY_EXPORT(add_int32);
HWY_EXPORT(add_int64);
HWY_EXPORT(add_rows_float);
HWY_EXPORT(add_rows_double);
HWY_EXPORT(add_rows_int32);
HWY_EXPORT(add_rows_int64);

void add_many_words(float* to, const float* update, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(add_float)(to, update, count);
}
void add_many_words(double* to, const double* update, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(add_double)(to, update, count);
}
void add_many_words(std::int32_t* to, const std::int32_t* update, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(add_int32)(to, update, count);
}
void add_many_words(std::int64_t* to, const std::int64_t* update, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(add_int64)(to, update, count);
}

// Under the thread sanitizer others must see that each element is written whole.
#if VERBENA_WORDS_ARE_ATOMIC
namespace {
template <class Value>
void add_each_word(std::span<const RowAddition<Value>> additions, std::size_t count) {
  for (const RowAddition<Value>& each : additions) add_words(each.to, each.update, count);
}
}  // namespace
#define VERBENA_ADD_ROWS(of_type) add_each_word
#else
#define VERBENA_ADD_ROWS(of_type) HWY_DYNAMIC_DISPATCH(of_type)
#endif

void add_rows(std::span<const RowAddition<float>> additions, std::size_t count) {
  VERBENA_ADD_ROWS(add_rows_float)(additions, count);
}
void add_rows(std::span<const RowAddition<double>> additions, std::size_t count) {
  VERBENA_ADD_ROWS(add_rows_double)(additions, count);
}
void add_rows(std::span<const RowAddition<std::int32_t>> additions, std::size_t count) {
  VERBENA_ADD_ROWS(add_rows_int32)(additions, count);
}
void add_rows(std::span<const RowAddition<std::int64_t>> additions, std::size_t count) {
  VERBENA_ADD_ROWS(add_rows_int64)(additions, count);
}

}  // namespace verbena::base
#endif
