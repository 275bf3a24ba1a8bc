// Keys and rows in arrays of numpy's. Arrays of the right kind are used where they lie.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <verbena/keys.hpp>
#include <verbena/value_type.hpp>

namespace verbena::python {

namespace py = pybind11;

/// The keys of a call, and what they lie in. Made of a range of Python's with step 1, which stays a range; a
/// contiguous array of int64 or uint64, used where it lies, bit for bit; or whatever numpy makes a
/// one-dimensional array of whole numbers of, which is copied. Throws InvalidArgumentError for all else.
class GivenKeys {
 public:
  explicit GivenKeys(const py::handle& given);
  [[nodiscard]] const Keys& keys() const { return keys_; }
  [[nodiscard]] std::size_t size() const { return keys_.size(); }

 private:
  py::object owner_;
  Keys keys_{KeyRange{}};
};

/// What is expected of an array of rows.
struct RowShape {
  std::size_t rows = 0;
  std::uint32_t width = 0;
  ValueType type = ValueType::kFloat;
};

/// A new array [rows, width] whose values are not set.
py::array new_rows(const RowShape& shape);
/// `given` itself. InvalidArgumentError if it is not a writable, contiguous array [rows, width] of the type
/// (where the width is 1: or [rows]).
py::array rows_to_fill(const py::object& given, const RowShape& shape);
/// `given` as a contiguous array [rows, width] of the type (where the width is 1: or [rows]): itself, if it
/// is one, or a copy. InvalidArgumentError if values would lose more than precision, since the type has no
/// fractions or none so large, or for another shape.
py::array rows_to_read(const py::object& given, const RowShape& shape);

std::span<std::byte> writable_bytes(py::array& rows);
std::span<const std::byte> bytes_of(const py::array& rows);

/// numpy's type of such values.
py::dtype dtype_of(ValueType type);
/// Of what numpy takes for a dtype. InvalidArgumentError if no table holds it.
ValueType value_type_of_dtype(const py::object& given);

/// A new array with copies of them.
py::array copy_of(std::span<const Key> keys);
py::array copy_of(std::span<const double> numbers);
/// Numbers as numpy makes an array of doubles of them.
std::vector<double> numbers_of(const py::object& given, std::string_view name);
/// A range of Python's with step 1. InvalidArgumentError for all else.
KeyRange range_of(const py::handle& given);

}  // namespace verbena::python
