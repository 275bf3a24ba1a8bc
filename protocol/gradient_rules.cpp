#include "protocol/gradient_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/word_copy.hpp"

namespace verbena::protocol {
namespace {

constexpr double kTiny = 1e-30;          ///< what is divided by must not be 0
constexpr double kBelowOne = 0.9999999;  ///< which no value type rounds to 1
constexpr double kHuge = 1e30;

/// A loop that the compiler makes steps of several numbers of, since it knows that no two arrays overlap.
template <class Value, class Step, class... Kept>
[[gnu::always_inline]] inline void step_some(Value* __restrict to, const Value* __restrict from,
                                             const Value* __restrict gradient, std::uint32_t count,
                                             const Step& step, Kept* __restrict... kept) {
  for (std::uint32_t i = 0; i < count; ++i) to[i] = step(from[i], gradient[i], kept[i]...);
}

/// Calls step(value, gradient, what is kept…) for each number of a row, which becomes what that returns;
/// `kept`: arrays of `width` numbers. The gradients are loaded once, and the row is stored once: others may
/// write and read them meanwhile.
template <class Value, class Step, class... Kept>
void step_each(Value* row, const Value* update, std::uint32_t width, const Step& step, Kept*... kept) {
  constexpr std::uint32_t kPiece = 64;
  std::array<Value, kPiece> gradient;
  std::array<Value, kPiece> value;
  for (std::uint32_t first = 0; first < width; first += kPiece) {
    const std::uint32_t count = std::min(kPiece, width - first);
    base::copy_words(gradient.data(), update + first, count);
    step_some(value.data(), row + first, gradient.data(), count, step, (kept + first)...);
    base::copy_words(row + first, value.data(), count);
  }
}

/// Gradients add up. A worker cannot tell what becomes of its own: there is no predict().
struct OfGradients {
  template <class Value>
  static void combine(Value* update, const Value* later, std::uint32_t width) {
    for (std::uint32_t i = 0; i < width; ++i) update[i] += later[i];
  }
};

/// So many numbers are kept for each number of a row.
template <std::size_t kNumbers>
struct Keeps {
  static std::size_t state_bytes(ValueType type, std::uint32_t width) {
    return kNumbers * value_bytes(type) * width;
  }
};

// The first three parameters of most rules; their first constant is the rate at the clock.
constexpr NamedParameter kRate{.name = "rate", .usual = 0.01, .least = 0, .most = kHuge};
constexpr NamedParameter kDecay{.name = "decay", .usual = 1, .least = kTiny, .most = 1};
constexpr NamedParameter kPower{.name = "power", .usual = 0, .least = 0, .most = 10};

double rate_at(const double* parameters, std::int64_t clock) {
  const auto clocks = static_cast<double>(clock);
  return parameters[0] * std::pow(parameters[1], clocks) / std::pow(1 + clocks, parameters[2]);
}

/// The rate takes the place of the three parameters, and the others follow it.
struct Scheduled : OfGradients {
  static void constants(const double* parameters, std::int64_t clock, double* constants) {
    constants[0] = rate_at(parameters, clock);
    std::copy(parameters + 3, parameters + kMaxNamedParameters, constants + 1);
    constants[kMaxNamedParameters - 2] = constants[kMaxNamedParameters - 1] = 0;
  }
  static bool changes_with_clock(const double* parameters) {
    return parameters[1] != 1 || parameters[2] != 0;
  }
};

struct Sgd : Scheduled {
  static constexpr std::string_view kName = "sgd";
  static constexpr std::array kParameters = {kRate, kDecay, kPower};
  template <class Value>
  static void apply(Value* row, std::byte* /*state*/, const Value* update, std::uint32_t width,
                    const double* constants) {
    const auto rate = static_cast<Value>(constants[0]);
    step_each(row, update, width, [=](Value w, Value g) { return w - rate * g; });
  }
};

struct Momentum : Scheduled, Keeps<1> {
  static constexpr std::string_view kName = "momentum";
  static constexpr std::array kParameters = {
      kRate, kDecay, kPower, NamedParameter{.name = "momentum", .usual = 0.9, .least = 0, .most = kBelowOne}};
  template <class Value>
  static void apply(Value* row, std::byte* state, const Value* update, std::uint32_t width,
                    const double* constants) {
    const auto rate = static_cast<Value>(constants[0]);
    const auto momentum = static_cast<Value>(constants[1]);
    const auto step = [=](Value w, Value g, Value& m) {
      m = momentum * m + g;
      return w - rate * m;
    };
    step_each(row, update, width, step, reinterpret_cast<Value*>(state));
  }
};

struct Adagrad : Scheduled, Keeps<1> {
  static constexpr std::string_view kName = "adagrad";
  static constexpr std::array kParameters = {
      kRate, kDecay, kPower, NamedParameter{.name = "initial", .usual = 0, .least = 0, .most = kHuge},
      NamedParameter{.name = "epsilon", .usual = 1e-10, .least = kTiny, .most = kHuge}};
  template <class Value>
  static void apply(Value* row, std::byte* state, const Value* update, std::uint32_t width,
                    const double* constants) {
    const auto rate = static_cast<Value>(constants[0]);
    const auto initial = static_cast<Value>(constants[1]);
    const auto epsilon = static_cast<Value>(constants[2]);
    const auto step = [=](Value w, Value g, Value& n) {
      n += g * g;
      return w - rate * g / (std::sqrt(initial + n) + epsilon);
    };
    step_each(row, update, width, step, reinterpret_cast<Value*>(state));
  }
};

struct RowwiseAdagrad : Scheduled {
  static constexpr std::string_view kName = "rowwise-adagrad";
  static constexpr std::array kParameters = {
      kRate, kDecay, kPower, NamedParameter{.name = "initial", .usual = 0, .least = 0, .most = kHuge},
      NamedParameter{.name = "epsilon", .usual = 1e-8, .least = kTiny, .most = kHuge}};
  static std::size_t state_bytes(ValueType type, std::uint32_t /*width*/) { return value_bytes(type); }
  template <class Value>
  static void apply(Value* row, std::byte* state, const Value* update, std::uint32_t width,
                    const double* constants) {
    // The gradients are loaded twice here. Who changes them in between gets a step of another length.
    Value squares = 0;
    for (std::uint32_t i = 0; i < width; ++i) {
      const Value g = load_whole(update + i);
      squares += g * g;
    }
    Value& n = *reinterpret_cast<Value*>(state);
    n += squares / static_cast<Value>(width);
    const Value rate = static_cast<Value>(constants[0]) /
                       (std::sqrt(static_cast<Value>(constants[1]) + n) + static_cast<Value>(constants[2]));
    step_each(row, update, width, [=](Value w, Value g) { return w - rate * g; });
  }
};

struct Adam : OfGradients, Keeps<2> {
  static constexpr std::string_view kName = "adam";
  static constexpr std::array kParameters = {
      NamedParameter{.name = "rate", .usual = 0.001, .least = 0, .most = kHuge},
      kDecay,
      kPower,
      NamedParameter{.name = "beta1", .usual = 0.9, .least = 0, .most = kBelowOne},
      NamedParameter{.name = "beta2", .usual = 0.999, .least = 0, .most = kBelowOne},
      NamedParameter{.name = "epsilon", .usual = 1e-8, .least = kTiny, .most = kHuge}};
  /// The rate with both corrections of the bias; beta1, 1 − beta1; beta2, 1 − beta2, which a float would not
  /// have to the last digits; epsilon.
  static void constants(const double* parameters, std::int64_t clock, double* constants) {
    const double step = static_cast<double>(clock) + 1;
    const double beta1 = parameters[3];
    const double beta2 = parameters[4];
    const double rate =
        rate_at(parameters, clock) * std::sqrt(1 - std::pow(beta2, step)) / (1 - std::pow(beta1, step));
    const double all[kMaxNamedParameters] = {rate, beta1, 1 - beta1, beta2, 1 - beta2, parameters[5]};
    std::copy(std::begin(all), std::end(all), constants);
  }
  template <class Value>
  static void apply(Value* row, std::byte* state, const Value* update, std::uint32_t width,
                    const double* constants) {
    const auto rate = static_cast<Value>(constants[0]);
    const auto beta1 = static_cast<Value>(constants[1]);
    const auto rest1 = static_cast<Value>(constants[2]);
    const auto beta2 = static_cast<Value>(constants[3]);
    const auto rest2 = static_cast<Value>(constants[4]);
    const auto epsilon = static_cast<Value>(constants[5]);
    const auto step = [=](Value w, Value g, Value& m, Value& v) {
      m = beta1 * m + rest1 * g;
      v = beta2 * v + rest2 * g * g;
      return w - rate * m / (std::sqrt(v) + epsilon);
    };
    auto* const kept = reinterpret_cast<Value*>(state);
    step_each(row, update, width, step, kept, kept + width);
  }
};

struct Ftrl : OfGradients, Keeps<2> {
  static constexpr std::string_view kName = "ftrl";
  static constexpr std::array kParameters = {
      NamedParameter{.name = "alpha", .usual = 0.1, .least = kTiny, .most = kHuge},
      NamedParameter{.name = "beta", .usual = 1, .least = 0, .most = kHuge},
      NamedParameter{.name = "l1", .usual = 0, .least = 0, .most = kHuge},
      NamedParameter{.name = "l2", .usual = 0, .least = 0, .most = kHuge}};
  template <class Value>
  static void apply(Value* row, std::byte* state, const Value* update, std::uint32_t width,
                    const double* constants) {
    const auto alpha = static_cast<Value>(constants[0]);
    const auto beta = static_cast<Value>(constants[1]);
    const auto l1 = static_cast<Value>(constants[2]);
    const auto l2 = static_cast<Value>(constants[3]);
    const auto step = [=](Value w, Value g, Value& z, Value& n) {
      const Value squares = n + g * g;
      const Value root = std::sqrt(squares);
      z += g - (root - std::sqrt(n)) / alpha * w;
      n = squares;
      const Value by = (beta + root) / alpha + l2;  // 0: gradients whose squares are 0, and no beta
      const Value weight = -(z - std::copysign(l1, z)) / by;
      // The other way round, not a number would become 0.
      return std::abs(z) <= l1 || by == 0 ? Value{0} : weight;
    };
    auto* const kept = reinterpret_cast<Value*>(state);
    step_each(row, update, width, step, kept, kept + width);
  }
  /// The z that gives this w, with n = 0.
  template <class Value>
  static void adopt(const Value* row, std::byte* state, std::uint32_t width, const double* constants) {
    auto* const z = reinterpret_cast<Value*>(state);
    const auto by = static_cast<Value>(constants[1] / constants[0] + constants[3]);
    const auto l1 = static_cast<Value>(constants[2]);
    for (std::uint32_t i = 0; i < width; ++i) {
      z[i] = row[i] == 0 ? Value{0} : -row[i] * by - std::copysign(l1, row[i]);
      z[width + i] = 0;
    }
  }
};

struct Proximal : OfGradients {
  static constexpr std::string_view kName = "proximal";
  static constexpr bool kOneStepAClock = true;
  static constexpr std::uint32_t kWidthMultiple = 2;
  static constexpr std::array kParameters = {
      NamedParameter{.name = "l1", .usual = 0, .least = 0, .most = kHuge},
      NamedParameter{.name = "damping", .usual = 1, .least = kTiny, .most = kHuge}};
  /// Δ − 1 for each w, so that it begins as 1.
  static std::size_t state_bytes(ValueType type, std::uint32_t width) {
    return (value_bytes(type) * (width / 2) + 7) / 8 * 8;
  }
  template <class Value>
  static void apply(Value* row, std::byte* state, const Value* update, std::uint32_t width,
                    const double* constants) {
    const auto l1 = static_cast<Value>(constants[0]);
    const auto damping = static_cast<Value>(constants[1]);
    const std::uint32_t weights = width / 2;
    auto* const kept = reinterpret_cast<Value*>(state);
    for (std::uint32_t i = 0; i < weights; ++i) {
      const Value g = load_whole(update + i);
      const Value u = damping * load_whole(update + weights + i) + static_cast<Value>(1e-10);
      const Value w = row[i];
      const Value most = 1 + kept[i];
      Value d = -w;
      if (g + l1 <= u * w) d = -(g + l1) / u;
      if (g - l1 >= u * w) d = -(g - l1) / u;
      if (!(u > 0)) d = std::numeric_limits<Value>::quiet_NaN();  // a broken bound must not go unnoticed
      // The other way round, not a number would become the bound.
      d = d > most ? most : d < -most ? -most : d;
      kept[i] = std::min<Value>(5, 2 * std::abs(d) + static_cast<Value>(0.1)) - 1;
      store_whole(row + i, w + d);
      store_whole(row + weights + i, g);
    }
  }
};

template <class Rule>
UpdateRuleKind kind_of() {
  return update_rule_kind<Rule>([](ValueType type) {
    if (type == ValueType::kFloat) return update_rule_functions<Rule, float>();
    if (type == ValueType::kDouble) return update_rule_functions<Rule, double>();
    return UpdateRuleFunctions();  // steps are fractions
  });
}

}  // namespace

std::span<const UpdateRuleKind> gradient_rules() {
  static const std::array kKinds = {
      kind_of<Sgd>(),  kind_of<Momentum>(), kind_of<Adagrad>(), kind_of<RowwiseAdagrad>(),
      kind_of<Adam>(), kind_of<Ftrl>(),     kind_of<Proximal>()};
  return kKinds;
}

}  // namespace verbena::protocol
