// What the layers of verbena.torch compute: bags of indices, the sums of their rows, and the sums of the
// gradients of these rows.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "python/bindings/table.hpp"
#include <verbena/keys.hpp>

namespace verbena::python {

namespace py = pybind11;

/// How indices are divided into bags, and which of them count.
struct BagOptions {
  py::object offsets = py::none();  ///< where bags begin; none: each has `length` indices
  std::size_t length = 1;
  bool has_end = false;                 ///< the last offset is where the last bag ends
  bool is_mean = false;                 ///< of the rows, instead of their sum
  py::object weights = py::none();      ///< factors of the rows of a sum, one for each index
  std::optional<std::int64_t> padding;  ///< an index that counts as if it were not there
  std::uint64_t limit = 0;              ///< indices are smaller; 0: any
};

/// The bags of one call of a layer: each row is pulled once and pushed once, however often its index occurs.
/// Throws InvalidArgumentError for an index, an offset or a shape that cannot be.
class Bags {
 public:
  Bags(PythonTable table, const py::object& indices, const BagOptions& options);

  [[nodiscard]] std::size_t size() const { return starts_.size() - 1; }
  /// Each once, in the order in which they come.
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }
  /// What the bags come to, [size(), width].
  py::array pull();
  /// Pushes for each row the sum of `factor` times the gradients of the bags that it is in. `gradients`: of
  /// what pull() has returned.
  void push(const py::object& gradients, double factor) const;
  /// Those of the weights. REQUIRES: there are weights, and pull() was called.
  [[nodiscard]] py::array gradients_of_weights(const py::object& gradients) const;

 private:
  void divide(const BagOptions& options);
  void number(const Keys& indices, const BagOptions& options);
  [[nodiscard]] py::array bag_gradients(const py::object& given) const;
  template <class Value>
  void pool(const Value* rows, Value* pooled) const;
  template <class Value>
  void spread(const Value* gradients, double factor, Value* sums) const;
  template <class Value>
  void multiply(const Value* rows, const Value* gradients, Value* products) const;

  PythonTable table_;
  std::vector<Key> keys_;
  std::vector<std::uint32_t> numbers_;  ///< for each index the place of its key in keys_, or kLeftOut
  std::vector<std::size_t> starts_;     ///< of the bags in numbers_, and where the last one ends
  std::vector<double> factors_;         ///< for each bag: 1 or, of a mean, one over how many rows it has
  std::vector<double> weights_;         ///< for each index, or none
  std::unique_ptr<std::byte[]> rows_;   ///< of keys_, once pulled, if there are weights
};

}  // namespace verbena::python
