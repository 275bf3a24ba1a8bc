#include "python/bindings/bags.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "python/bindings/arrays.hpp"
#include "python/bindings/definitions.hpp"
#include "python/bindings/errors.hpp"

namespace verbena::python {
namespace {

constexpr std::uint32_t kLeftOut = UINT32_MAX;

/// Numbers keys in the order in which they come for the first time. A hash table of what is little enough to
/// stay in the processor's nearest cache: numbers, with the keys beside it.
class KeyNumbers {
 public:
  /// For at most so many keys; appends each to `keys` when it comes for the first time.
  KeyNumbers(std::size_t most, std::vector<Key>& keys)
      : keys_(keys),
        numbers_(std::bit_ceil(std::max<std::size_t>(2 * most, 2)), kLeftOut),
        shift_(64 - std::countr_zero(numbers_.size())) {
    keys_.reserve(most);
  }

  std::uint32_t number_of(Key key) {
    constexpr std::uint64_t kGoldenRatio = 0x9E37'79B9'7F4A'7C15;
    for (std::size_t place = (key * kGoldenRatio) >> shift_;; place = (place + 1) & (numbers_.size() - 1)) {
      std::uint32_t& number = numbers_[place];
      if (number == kLeftOut) {
        number = static_cast<std::uint32_t>(keys_.size());
        keys_.push_back(key);
        return number;
      }
      if (keys_[number] == key) return number;
    }
  }

 private:
  std::vector<Key>& keys_;
  std::vector<std::uint32_t> numbers_;  ///< kLeftOut: free
  int shift_;
};

/// So many values of a row at a time: their sum stays in registers.
constexpr std::size_t kBlock = 16;

/// Calls use(first, count) for the blocks of a row, with a count that the compiler knows where it is kBlock.
template <class Use>
void for_blocks(std::size_t width, Use&& use) {
  std::size_t first = 0;
  for (; first + kBlock <= width; first += kBlock) use(first, std::integral_constant<std::size_t, kBlock>());
  if (first < width) use(first, width - first);
}

/// Calls use(a pointer of the table's type of values); the layers' tables hold no whole numbers.
template <class Use>
void with_value_type(ValueType type, Use&& use) {
  if (type == ValueType::kFloat) return use(static_cast<float*>(nullptr));
  if (type == ValueType::kDouble) return use(static_cast<double*>(nullptr));
  refuse("layers are over tables of float32 or float64 values");
}

}  // namespace

Bags::Bags(PythonTable table, const py::object& indices, const BagOptions& options)
    : table_(std::move(table)) {
  check_open(table_);
  const GivenKeys given(indices);
  if (given.size() >= kLeftOut) refuse("indices: at most 2**32 - 2 are expected in one call");
  numbers_.resize(given.size());
  divide(options);
  if (!options.weights.is_none()) {
    if (options.is_mean) refuse("per_sample_weights: they are for mode=\"sum\"");
    weights_ = numbers_of(options.weights, "per_sample_weights");
    if (weights_.size() != given.size()) {
      refuse("per_sample_weights: " + std::to_string(given.size()) +
             " numbers are expected, one for each index; there are " + std::to_string(weights_.size()));
    }
  }
  number(given.keys(), options);
}

void Bags::divide(const BagOptions& options) {
  const std::size_t indices = numbers_.size();
  if (options.offsets.is_none()) {
    if (options.length == 0) refuse("length: 1 index or more is expected in a bag");
    if (indices % options.length != 0) {
      refuse("length: " + std::to_string(indices) + " indices are no bags of " +
             std::to_string(options.length));
    }
    for (std::size_t start = 0; start <= indices; start += options.length) starts_.push_back(start);
    return;
  }
  const GivenKeys offsets(options.offsets);
  const auto refuse_offset = [&](std::size_t i, const std::string& expected) {
    refuse("offsets[" + std::to_string(i) + "] is " +
           std::to_string(static_cast<std::int64_t>(offsets.keys()[i])) + ": " + expected + " is expected");
  };
  const std::size_t count = offsets.size();
  if (count == 0 && (options.has_end || indices != 0)) refuse("offsets: the first one, 0, is expected");
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t offset = offsets.keys()[i];
    if (i == 0 && offset != 0) refuse_offset(i, "0");
    if (offset > indices) refuse_offset(i, "0 to " + std::to_string(indices) + ", the number of indices,");
    if (i > 0 && offset < starts_.back()) refuse_offset(i, "no less than the one before");
    starts_.push_back(offset);
  }
  if (!options.has_end) {
    starts_.push_back(indices);
  } else if (starts_.back() != indices) {
    refuse_offset(count - 1, std::to_string(indices) + ", the number of indices,");
  }
}

void Bags::number(const Keys& indices, const BagOptions& options) {
  const Key limit = options.limit != 0 ? options.limit : UINT64_MAX;
  const bool has_padding = options.padding.has_value();
  const Key padding = has_padding ? static_cast<Key>(*options.padding) : 0;
  std::size_t first_wrong = indices.size();
  {
    const Unlocked unlocked;
    KeyNumbers numbers(indices.size(), keys_);
    factors_.resize(size());
    for (std::size_t bag = 0; bag < size(); ++bag) {
      std::size_t count = 0;
      for (std::size_t i = starts_[bag]; i < starts_[bag + 1]; ++i) {
        const Key key = indices[i];
        if (has_padding && key == padding) {
          numbers_[i] = kLeftOut;
          continue;
        }
        if (key >= limit) first_wrong = std::min(first_wrong, i);
        numbers_[i] = numbers.number_of(key);
        ++count;
      }
      factors_[bag] = options.is_mean && count > 1 ? 1.0 / static_cast<double>(count) : 1.0;
    }
  }
  if (first_wrong == indices.size()) return;
  if (options.limit == 0) refuse("index -1, that is 2**64 - 1: no row of a sparse table has it");
  refuse("index " + std::to_string(static_cast<std::int64_t>(indices[first_wrong])) + ", the one at place " +
         std::to_string(first_wrong) + ": 0 to " + std::to_string(options.limit - 1) +
         " is expected, since the layer \"" + table_.name + "\" has " + std::to_string(options.limit) +
         " embeddings");
}

template <class Value>
void Bags::pool(const Value* rows, Value* pooled) const {
  const std::size_t width = table_.table.width();
  for_blocks(width, [&](std::size_t first, auto count) {
    std::array<Value, kBlock> sum;
    for (std::size_t bag = 0; bag < size(); ++bag) {
      for (std::size_t j = 0; j < count; ++j) sum[j] = 0;
      for (std::size_t i = starts_[bag]; i < starts_[bag + 1]; ++i) {
        if (numbers_[i] == kLeftOut) continue;
        const Value* const row = rows + numbers_[i] * width + first;
        if (weights_.empty()) {
          for (std::size_t j = 0; j < count; ++j) sum[j] += row[j];
        } else {
          const auto weight = static_cast<Value>(weights_[i]);
          for (std::size_t j = 0; j < count; ++j) sum[j] += weight * row[j];
        }
      }
      const auto factor = static_cast<Value>(factors_[bag]);
      for (std::size_t j = 0; j < count; ++j) pooled[bag * width + first + j] = sum[j] * factor;
    }
  });
}

template <class Value>
void Bags::spread(const Value* gradients, double factor, Value* sums) const {
  const std::size_t width = table_.table.width();
  for_blocks(width, [&](std::size_t first, auto count) {
    std::array<Value, kBlock> part;
    // How many keys have been seen: since they are numbered as they come, the number of the next new one.
    std::size_t seen = 0;
    for (std::size_t bag = 0; bag < size(); ++bag) {
      const Value* const gradient = gradients + bag * width + first;
      const auto multiply = [&](double by) {
        for (std::size_t j = 0; j < count; ++j) part[j] = static_cast<Value>(by) * gradient[j];
      };
      multiply(factor * factors_[bag]);
      for (std::size_t i = starts_[bag]; i < starts_[bag + 1]; ++i) {
        if (numbers_[i] == kLeftOut) continue;
        if (!weights_.empty()) multiply(factor * weights_[i]);
        Value* const sum = sums + numbers_[i] * width + first;
        if (numbers_[i] == seen) {
          ++seen;
          for (std::size_t j = 0; j < count; ++j) sum[j] = part[j];
        } else {
          for (std::size_t j = 0; j < count; ++j) sum[j] += part[j];
        }
      }
    }
  });
}

template <class Value>
void Bags::multiply(const Value* rows, const Value* gradients, Value* products) const {
  const std::size_t width = table_.table.width();
  for (std::size_t bag = 0; bag < size(); ++bag) {
    const Value* const gradient = gradients + bag * width;
    for (std::size_t i = starts_[bag]; i < starts_[bag + 1]; ++i) {
      products[i] = 0;
      if (numbers_[i] == kLeftOut) continue;
      const Value* const row = rows + numbers_[i] * width;
      for (std::size_t j = 0; j < width; ++j) products[i] += row[j] * gradient[j];
    }
  }
}

py::array Bags::pull() {
  check_open(table_);
  py::array pooled = new_rows(shape_of(table_, size()));
  std::byte* const sums = writable_bytes(pooled).data();
  with_value_type(table_.table.value_type(), [&]<class Value>(Value*) {
    const std::size_t bytes = keys_.size() * table_.table.width() * sizeof(Value);
    auto rows = std::make_unique_for_overwrite<std::byte[]>(bytes);
    check(table_.session->use(
        [&](Session&) {
          absl::Status status = table_.table.pull(keys_, {rows.get(), bytes});
          if (status.ok()) pool(reinterpret_cast<const Value*>(rows.get()), reinterpret_cast<Value*>(sums));
          return status;
        },
        OpenSession::Place::kNested));
    if (!weights_.empty()) rows_ = std::move(rows);
  });
  return pooled;
}

py::array Bags::bag_gradients(const py::object& given) const {
  return rows_to_read(given, shape_of(table_, size()));
}

void Bags::push(const py::object& gradients, double factor) const {
  check_open(table_);
  const py::array given = bag_gradients(gradients);
  const std::byte* const values = bytes_of(given).data();
  with_value_type(table_.table.value_type(), [&]<class Value>(Value*) {
    check(table_.session->use([&](Session&) {
      const std::size_t count = keys_.size() * table_.table.width();
      const auto sums = std::make_unique_for_overwrite<Value[]>(count);
      spread(reinterpret_cast<const Value*>(values), factor, sums.get());
      return table_.table.push(keys_, std::as_bytes(std::span<const Value>(sums.get(), count)));
    }));
  });
}

py::array Bags::gradients_of_weights(const py::object& gradients) const {
  check_open(table_);
  if (!rows_) refuse("gradients_of_weights(): bags with weights, and pull() before, are expected");
  const py::array given = bag_gradients(gradients);
  const std::array shape{static_cast<py::ssize_t>(numbers_.size())};
  py::array products(dtype_of(table_.table.value_type()), shape);
  const std::byte* const values = bytes_of(given).data();
  std::byte* const filled = writable_bytes(products).data();
  with_value_type(table_.table.value_type(), [&]<class Value>(Value*) {
    const Unlocked unlocked;
    multiply(reinterpret_cast<const Value*>(rows_.get()), reinterpret_cast<const Value*>(values),
             reinterpret_cast<Value*>(filled));
  });
  return products;
}

void define_bags(py::module_& module) {
  py::class_<Bags>(module, "Bags", "Bags of indices, for the layers of verbena.torch.")
      .def(py::init([](const PythonTable& table, const py::object& indices, const py::object& offsets,
                       std::size_t length, bool has_end, bool is_mean, const py::object& weights,
                       std::optional<std::int64_t> padding, std::uint64_t limit) {
             return std::make_unique<Bags>(table, indices,
                                           BagOptions{.offsets = offsets,
                                                      .length = length,
                                                      .has_end = has_end,
                                                      .is_mean = is_mean,
                                                      .weights = weights,
                                                      .padding = padding,
                                                      .limit = limit});
           }),
           py::arg("table"), py::arg("indices"), py::arg("offsets") = py::none(), py::arg("length") = 1,
           py::arg("has_end") = false, py::arg("is_mean") = false, py::arg("weights") = py::none(),
           py::arg("padding") = py::none(), py::arg("limit") = 0)
      .def("__len__", &Bags::size)
      .def_property_readonly("keys", [](const Bags& bags) { return copy_of(bags.keys()); })
      .def("pull", &Bags::pull, "Returns what the bags come to, [bags, width].")
      .def("push", &Bags::push, py::arg("gradients"), py::arg("factor") = 1.0,
           "Pushes for each row the sum of its bags' gradients, times the factor.")
      .def("gradients_of_weights", &Bags::gradients_of_weights, py::arg("gradients"));
}

}  // namespace verbena::python
