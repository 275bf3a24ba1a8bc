#include "python/bindings/arrays.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "python/bindings/errors.hpp"

namespace verbena::python {
namespace {

/// numpy's function of this name. Never given back: at the interpreter's end it is too late for that.
const py::object& numpy_function(const char* name) {
  static const py::object& asarray = *new py::object(py::module_::import("numpy").attr("asarray"));
  static const py::object& contiguous =
      *new py::object(py::module_::import("numpy").attr("ascontiguousarray"));
  return std::string_view(name) == "asarray" ? asarray : contiguous;
}

std::string text_of(const py::handle& object) {
  return py::str(object).cast<std::string>();
}

std::string type_name(const py::handle& object) {
  return Py_TYPE(object.ptr())->tp_name;
}

bool is_of(const py::array& array, char kind, std::size_t bytes) {
  // Whole numbers of one size are one type, whether the C type is called long or long long.
  const py::dtype type = array.dtype();
  return type.kind() == kind && static_cast<std::size_t>(type.itemsize()) == bytes;
}

char kind_of(ValueType type) {
  return is_whole(type) ? 'i' : 'f';
}

/// Contiguous, aligned, and in this machine's order of bytes.
bool is_plain(const py::array& array) {
  constexpr int kWanted =
      py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  if ((array.flags() & kWanted) != kWanted) return false;
  const char order =
      py::detail::array_descriptor_proxy(py::detail::array_proxy(array.ptr())->descr)->byteorder;
  return order == '=' || order == '|';
}

bool has_shape(const py::array& array, const RowShape& shape) {
  if (array.ndim() == 2) {
    return static_cast<std::size_t>(array.shape(0)) == shape.rows &&
           static_cast<std::size_t>(array.shape(1)) == shape.width;
  }
  return array.ndim() == 1 && shape.width == 1 && static_cast<std::size_t>(array.shape(0)) == shape.rows;
}

std::string shape_text(const RowShape& shape) {
  return "(" + std::to_string(shape.rows) + ", " + std::to_string(shape.width) + ")";
}

std::string shape_text(const py::array& array) {
  return text_of(array.attr("shape"));
}

template <class Narrow, class Wide>
bool holds(Wide value) {
  if constexpr (std::is_integral_v<Narrow>) {
    return std::in_range<Narrow>(value);
  } else {
    return !std::isfinite(value) || std::abs(value) <= Wide{std::numeric_limits<Narrow>::max()};
  }
}

/// Refuses values that Narrow does not hold. Wide: a type of the array's kind that holds them all.
template <class Narrow, class Wide>
void check_values(const py::array& given, const py::dtype& wanted) {
  const auto array = py::reinterpret_steal<py::array>(
      numpy_function("ascontiguousarray")(given, py::dtype::of<Wide>()).release());
  const std::span values(static_cast<const Wide*>(array.data()), static_cast<std::size_t>(array.size()));
  const auto wrong = std::ranges::find_if_not(values, holds<Narrow, Wide>);
  if (wrong == values.end()) return;
  const py::int_ place(wrong - values.begin());
  refuse("updates: numbers that " + text_of(wanted) + " holds are expected; the one at place " +
         text_of(place) + " is " + text_of(array.attr("flat")[place]));
}

template <class Narrow>
void check_whole_numbers(const py::array& given, const py::dtype& wanted) {
  const char kind = given.dtype().kind();
  const auto bytes = static_cast<std::size_t>(given.itemsize());
  if (kind == 'u' && bytes >= sizeof(Narrow)) check_values<Narrow, std::uint64_t>(given, wanted);
  if (kind == 'i' && bytes > sizeof(Narrow)) check_values<Narrow, std::int64_t>(given, wanted);
}

template <class Narrow>
void check_fractions(const py::array& given, const py::dtype& wanted) {
  const auto bytes = static_cast<std::size_t>(given.itemsize());
  if (given.dtype().kind() != 'f' || bytes <= sizeof(Narrow)) return;
  if (bytes == sizeof(double)) return check_values<Narrow, double>(given, wanted);
  check_values<Narrow, long double>(given, wanted);
}

/// Refuses what would become another number, or infinite.
void check_values_of(const py::array& given, ValueType type, const py::dtype& wanted) {
  switch (type) {
    case ValueType::kInt32:
      return check_whole_numbers<std::int32_t>(given, wanted);
    case ValueType::kInt64:
      return check_whole_numbers<std::int64_t>(given, wanted);
    case ValueType::kFloat:
      return check_fractions<float>(given, wanted);
    case ValueType::kDouble:
      return check_fractions<double>(given, wanted);
  }
}

}  // namespace

KeyRange range_of(const py::handle& given) {
  if (!PyRange_Check(given.ptr()))
    refuse("a range of keys is expected, range(first, last), not " + type_name(given));
  if (!py::object(given.attr("step")).equal(py::int_(1)))
    refuse("a range of keys has step 1: " + text_of(given) + " has another one");
  try {
    const auto first = given.attr("start").cast<Key>();
    const auto last = given.attr("stop").cast<Key>();
    return {first, last < first ? first : last};
  } catch (const py::cast_error&) {
    refuse("a range of keys goes from 0 to 2**64 - 1 at most: " + text_of(given));
  }
}

GivenKeys::GivenKeys(const py::handle& given) {
  if (PyRange_Check(given.ptr())) {
    keys_ = Keys(range_of(given));
    return;
  }
  const bool is_array = py::isinstance<py::array>(given);
  auto array = is_array ? py::reinterpret_borrow<py::array>(given)
                        : py::reinterpret_steal<py::array>(numpy_function("asarray")(given).release());
  if (array.ndim() != 1) {
    refuse("keys: one dimension is expected, that is, an array of n keys; this one has shape " +
           shape_text(array));
  }
  const bool is_right = is_of(array, 'u', sizeof(Key)) || is_of(array, 'i', sizeof(Key));
  if (!is_right || !is_plain(array)) {
    const char kind = array.dtype().kind();
    // numpy takes an empty list for one of floating-point numbers.
    if (kind != 'u' && kind != 'i' && !(array.size() == 0 && !is_array)) {
      refuse("keys: whole numbers are expected (uint64 or int64 are used where they lie), not " +
             text_of(array.dtype()));
    }
    array = py::reinterpret_steal<py::array>(
        numpy_function("ascontiguousarray")(array, py::dtype::of<Key>()).release());
  }
  keys_ = Keys(std::span(static_cast<const Key*>(array.data()), static_cast<std::size_t>(array.size())));
  owner_ = std::move(array);
}

py::dtype dtype_of(ValueType type) {
  // Never given back: at the interpreter's end it is too late for that.
  static const auto& all =
      *new std::array<py::dtype, 4>{py::dtype::of<float>(), py::dtype::of<double>(),
                                    py::dtype::of<std::int32_t>(), py::dtype::of<std::int64_t>()};
  return all.at(static_cast<std::size_t>(type) - 1);
}

ValueType value_type_of_dtype(const py::object& given) {
  const py::dtype type = py::dtype::from_args(given);
  for (const ValueType known :
       {ValueType::kFloat, ValueType::kDouble, ValueType::kInt32, ValueType::kInt64}) {
    if (type.kind() == kind_of(known) && static_cast<std::size_t>(type.itemsize()) == value_bytes(known))
      return known;
  }
  refuse("dtype: a table holds float32, float64, int32 or int64, not " + text_of(type));
}

py::array new_rows(const RowShape& shape) {
  return {dtype_of(shape.type),
          {static_cast<py::ssize_t>(shape.rows), static_cast<py::ssize_t>(shape.width)}};
}

py::array rows_to_fill(const py::object& given, const RowShape& shape) {
  const auto expected = [&](const std::string& found) {
    refuse("out: a contiguous, writable numpy array of " + text_of(dtype_of(shape.type)) + " with shape " +
           shape_text(shape) + " is expected; this one " + found);
  };
  if (!py::isinstance<py::array>(given)) expected("is a " + type_name(given));
  auto array = py::reinterpret_borrow<py::array>(given);
  if (!is_of(array, kind_of(shape.type), value_bytes(shape.type))) expected("has " + text_of(array.dtype()));
  if (!has_shape(array, shape)) expected("has shape " + shape_text(array));
  if (!is_plain(array)) expected("is not contiguous");
  if (!array.writeable()) expected("is read-only");
  return array;
}

py::array rows_to_read(const py::object& given, const RowShape& shape) {
  auto array = py::isinstance<py::array>(given)
                   ? py::reinterpret_borrow<py::array>(given)
                   : py::reinterpret_steal<py::array>(numpy_function("asarray")(given).release());
  if (!has_shape(array, shape)) {
    refuse("updates: shape " + shape_text(shape) + " is expected, a row for each key; this one has " +
           shape_text(array));
  }
  if (is_of(array, kind_of(shape.type), value_bytes(shape.type)) && is_plain(array)) return array;
  const py::dtype wanted = dtype_of(shape.type);
  const char kind = array.dtype().kind();
  const bool fits = kind == 'i' || kind == 'u' || kind == 'b' || (kind == 'f' && !is_whole(shape.type)) ||
                    array.size() == 0;
  if (!fits)
    refuse("updates: " + text_of(wanted) + " is expected, or what becomes it; this is " +
           text_of(array.dtype()));
  check_values_of(array, shape.type, wanted);
  return py::reinterpret_steal<py::array>(numpy_function("ascontiguousarray")(array, wanted).release());
}

std::span<std::byte> writable_bytes(py::array& rows) {
  return {static_cast<std::byte*>(rows.mutable_data()), static_cast<std::size_t>(rows.nbytes())};
}

std::span<const std::byte> bytes_of(const py::array& rows) {
  return {static_cast<const std::byte*>(rows.data()), static_cast<std::size_t>(rows.nbytes())};
}

py::array copy_of(std::span<const Key> keys) {
  return py::array_t<Key>(static_cast<py::ssize_t>(keys.size()), keys.data());
}

py::array copy_of(std::span<const double> numbers) {
  return py::array_t<double>(static_cast<py::ssize_t>(numbers.size()), numbers.data());
}

std::vector<double> numbers_of(const py::object& given, std::string_view name) {
  const auto array = py::array_t<double, py::array::c_style | py::array::forcecast>::ensure(given);
  if (!array) {
    PyErr_Clear();
    refuse(std::string(name) + ": numbers are expected, not " + type_name(given));
  }
  return {array.data(), array.data() + array.size()};
}

}  // namespace verbena::python
