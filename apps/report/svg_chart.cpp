#include "apps/report/svg_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "apps/report/format.hpp"
#include "base/printable.hpp"

namespace verbena::apps {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 300;
constexpr double kMargin = 8;
constexpr double kTop = 16;
constexpr double kBottom = 46;
constexpr std::size_t kMostDots = 120;  // more would hide the line
constexpr double kBarHeight = 18;
constexpr double kBarStep = 26;

std::string number_text(double value) {
  return fmt::format("{:.6g}", value);
}

/// The width at the size in the page's style sheet, in a wide font.
double text_width(std::string_view text) {
  constexpr double kColumn = 7.8;
  return kColumn * static_cast<double>(columns_of(text));
}

double widest(const std::vector<std::string>& texts) {
  double most = 0;
  for (const std::string& text : texts) most = std::max(most, text_width(text));
  return most;
}

/// A text at its position on an axis.
struct Tick {
  double value;
  std::string text;
};

std::vector<Tick> number_ticks(const std::vector<double>& values) {
  std::vector<Tick> ticks;
  ticks.reserve(values.size());
  for (const double value : values) ticks.push_back({value, number_text(value)});
  return ticks;
}

/// Where the curves are; leaves room for the labels beside them.
struct Frame {
  double left = 0;
  double right = 0;
};

Frame frame_beside(const std::vector<Tick>& x_ticks, const std::vector<Tick>& y_ticks) {
  double label = 0;
  for (const Tick& tick : y_ticks) label = std::max(label, text_width(tick.text));
  double half = 0;  // half of the widest text that may stand below a corner
  for (const Tick& tick : x_ticks) half = std::max(half, text_width(tick.text) / 2);
  return {std::max(label + 2 * kMargin, half), kWidth - std::max(half, kMargin)};
}

std::string svg_begin(double height, std::string_view title) {
  return fmt::format(
      R"(<svg viewBox="0 0 {:g} {:g}" role="img" xmlns="http://www.w3.org/2000/svg"><title>{}</title>)"
      "\n",
      kWidth, height, escape_markup(title));
}

/// Maps values to positions: [low, high] to [begin, end].
struct Scale {
  double low = 0;
  double high = 1;
  double begin = 0;
  double end = 1;
  [[nodiscard]] double operator()(double value) const {
    return begin + (value - low) / (high - low) * (end - begin);
  }
};

/// Draws the lines, and the labels of both axes; on the lower axis only the labels that have room. `x` takes
/// values in the units of its ticks.
std::string grid(const std::string& x_label, const std::vector<Tick>& x_ticks,
                 const std::vector<Tick>& y_ticks, const Frame& frame, const Scale& x, const Scale& y) {
  std::string out = "<g class=\"grid\">\n";
  for (const Tick& tick : y_ticks) {
    out += fmt::format("<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n", frame.left,
                       frame.right, y(tick.value));
  }
  out += "</g>\n<g class=\"axis\">\n";
  for (const Tick& tick : y_ticks) {
    out += fmt::format("<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", frame.left - kMargin,
                       y(tick.value) + 4, escape_markup(tick.text));
  }
  double free_from = 0;
  for (const Tick& tick : x_ticks) {
    const double half = text_width(tick.text) / 2;
    const double place = x(tick.value);
    if (tick.value < x.low || tick.value > x.high || place - half < free_from) continue;
    free_from = place + half + kMargin;
    out += fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{:g}\">{}</text>\n", place,
                       kHeight - kBottom + 18, escape_markup(tick.text));
  }
  out += fmt::format("<text class=\"label middle\" x=\"{:.1f}\" y=\"{:g}\">{}</text>\n",
                     (frame.left + frame.right) / 2, kHeight - 8, escape_markup(x_label));
  return out + "</g>\n";
}

/// The names of the curves below the frame, in as many rows as they need.
struct Legend {
  std::string markup;
  double height = 0;
};

Legend legend_of(const std::vector<Series>& series) {
  constexpr double kRowHeight = 22;
  Legend legend{.height = kRowHeight};
  double left = kMargin;
  for (std::size_t index = 0; index < series.size(); ++index) {
    const double width = 42 + text_width(series[index].label);
    if (left > kMargin && left + width > kWidth) {
      left = kMargin;
      legend.height += kRowHeight;
    }
    const double middle = kHeight + legend.height - kRowHeight / 2;
    legend.markup += fmt::format(
        "<line class=\"series s{}{}\" x1=\"{:g}\" x2=\"{:g}\" y1=\"{:g}\" y2=\"{:g}\"/>\n",
        index % kSeriesColours, series[index].dashed ? " dashed" : "", left, left + 20, middle, middle);
    legend.markup += fmt::format("<text x=\"{:g}\" y=\"{:g}\">{}</text>\n", left + 25, middle + 4,
                                 escape_markup(series[index].label));
    left += width;
  }
  return legend;
}

std::vector<std::pair<double, double>> finite(const std::vector<std::pair<double, double>>& points) {
  std::vector<std::pair<double, double>> left;
  for (const auto& [x, y] : points) {
    if (std::isfinite(x) && std::isfinite(y)) left.emplace_back(x, y);
  }
  return left;
}

std::string nothing_to_draw(std::string_view why) {
  return fmt::format("<text class=\"middle\" x=\"{:g}\" y=\"{:g}\">{}</text>\n</svg>\n", kWidth / 2,
                     kHeight / 2, why);
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char letter : base::printable(text)) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += letter;
    }
  }
  return out;
}

std::vector<double> axis_ticks(double low, double high, std::size_t wanted) {
  if (!(high > low)) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    high = low + room;
    low -= room;
  }
  const double rough = (high - low) / static_cast<double>(std::max<std::size_t>(wanted, 1));
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  // Multiples of the step, not sums of steps: 0.3 and not 0.30000000000000004.
  for (double index = first; index <= last; ++index) ticks.push_back(index * step + 0.0);
  return ticks;
}

std::string to_svg(const LineChart& chart) {
  const std::vector<std::pair<double, double>> points = finite(chart.points);
  std::string out = svg_begin(kHeight, fmt::format("{} by {}", chart.y_label, chart.x_label));
  if (points.empty()) return out + nothing_to_draw("not evaluated");
  const auto [least, most] =
      std::minmax_element(points.begin(), points.end(),
                          [](const auto& left, const auto& right) { return left.second < right.second; });
  const std::vector<Tick> y_ticks = number_ticks(axis_ticks(least->second, most->second, 5));
  const std::vector<Tick> x_ticks = number_ticks(axis_ticks(0, points.back().first, 8));
  const Frame frame = frame_beside(x_ticks, y_ticks);
  const Scale x{0, points.back().first > 0 ? points.back().first : 1, frame.left, frame.right};
  const Scale y{y_ticks.front().value, y_ticks.back().value, kHeight - kBottom, kTop};
  out += grid(chart.x_label, x_ticks, y_ticks, frame, x, y);
  out += "<polyline class=\"curve\" points=\"";
  for (const auto& [at, value] : points) out += fmt::format("{:.1f},{:.1f} ", x(at), y(value));
  out += "\"/>\n<g class=\"dots\">\n";
  const std::size_t every = (points.size() + kMostDots - 1) / kMostDots;
  for (std::size_t index = 0; index < points.size(); ++index) {
    if (index % every != 0 && index + 1 != points.size()) continue;
    const auto& [at, value] = points[index];
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} {}: {} {}</title></circle>\n",
                       x(at), y(value), escape_markup(chart.x_label), number_text(at),
                       escape_markup(chart.y_label), number_text(value));
  }
  return out + "</g>\n</svg>\n";
}

std::string to_svg(const CurveChart& chart, const std::vector<ChartMark>& marks) {
  constexpr std::size_t kMostDotsOfAll = 400;
  std::vector<std::vector<std::pair<double, double>>> curves;
  std::size_t all_points = 0;
  double x_least = std::numeric_limits<double>::infinity();
  double x_most = -x_least;
  double y_least = x_least;
  double y_most = x_most;
  for (const Series& series : chart.series) {
    curves.push_back(finite(series.points));
    all_points += curves.back().size();
    for (const auto& [at, value] : curves.back()) {
      x_least = std::min(x_least, at);
      x_most = std::max(x_most, at);
      y_least = std::min(y_least, value);
      y_most = std::max(y_most, value);
    }
  }
  const Legend legend = legend_of(chart.series);
  std::string out = svg_begin(kHeight + legend.height, fmt::format("{} by {}", chart.y_label, chart.x_label));
  if (all_points == 0) return out + nothing_to_draw("not measured");
  const std::vector<Tick> x_ticks = number_ticks(axis_ticks(x_least, x_most, 8));
  const std::vector<Tick> y_ticks = number_ticks(axis_ticks(y_least, y_most, 5));
  const Frame frame = frame_beside(x_ticks, y_ticks);
  const bool point = x_least == x_most;
  const Scale x{point ? x_ticks.front().value : x_least, point ? x_ticks.back().value : x_most, frame.left,
                frame.right};
  const Scale y{y_ticks.front().value, y_ticks.back().value, kHeight - kBottom, kTop};
  out += grid(chart.x_label, x_ticks, y_ticks, frame, x, y);
  out += "<g class=\"events\">\n";
  for (const ChartMark& mark : marks) {
    if (!(mark.x >= x.low && mark.x <= x.high)) continue;
    out += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:g}\" y2=\"{2:g}\"><title>{3}</title></line>\n",
        x(mark.x), kTop, kHeight - kBottom, escape_markup(mark.what));
  }
  out += "</g>\n";
  const std::size_t every = (all_points + kMostDotsOfAll - 1) / kMostDotsOfAll;
  for (std::size_t index = 0; index < curves.size(); ++index) {
    const std::size_t colour = index % kSeriesColours;
    out += fmt::format("<polyline class=\"series s{}{}\" points=\"", colour,
                       chart.series[index].dashed ? " dashed" : "");
    for (const auto& [at, value] : curves[index]) out += fmt::format("{:.1f},{:.1f} ", x(at), y(value));
    out += "\"/>\n<g class=\"marks\">\n";
    for (std::size_t i = 0; i < curves[index].size(); i += every) {
      const auto& [at, value] = curves[index][i];
      out += fmt::format(
          "<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>{}, {} {}: "
          "{}</title></circle>\n",
          colour, x(at), y(value), escape_markup(chart.series[index].label), escape_markup(chart.x_label),
          number_text(at), number_text(value));
    }
    out += "</g>\n";
  }
  return out + legend.markup + "</svg>\n";
}

namespace {

/// The logarithms of the points that can be shown.
std::vector<std::pair<double, double>> logarithms(const LogChart::Series& series) {
  std::vector<std::pair<double, double>> points;
  for (const auto& [x, y] : series.points) {
    if (x > 0 && y > 0 && std::isfinite(x) && std::isfinite(y))
      points.emplace_back(std::log10(x), std::log10(y));
  }
  return points;
}

}  // namespace

std::string to_svg(const LogChart& chart) {
  std::set<double> x_values;
  double y_least = std::numeric_limits<double>::infinity();
  double y_most = -y_least;
  for (const LogChart::Series& series : chart.series) {
    for (const auto& [log_x, log_y] : logarithms(series)) {
      y_least = std::min(y_least, log_y);
      y_most = std::max(y_most, log_y);
    }
    for (const auto& [x, y] : series.points) {
      if (x > 0) x_values.insert(x);
    }
  }
  const Legend legend = legend_of(chart.series);
  std::string out = svg_begin(kHeight + legend.height, fmt::format("{} by {}", chart.y_label, chart.x_label));
  if (y_least > y_most) return out + nothing_to_draw("not measured");
  std::vector<Tick> x_ticks;
  x_ticks.reserve(x_values.size());
  for (const double value : x_values) x_ticks.push_back({std::log10(value), chart.x_text(value)});
  const double y_low = std::floor(y_least);
  const double y_high = std::max(std::ceil(y_most), y_low + 1);
  std::vector<Tick> y_ticks;
  for (double power = y_low; power <= y_high + 1e-9; ++power) {
    y_ticks.push_back({power, chart.y_text(std::pow(10, power))});
  }
  const Frame frame = frame_beside(x_ticks, y_ticks);
  const double x_low = x_ticks.front().value;
  const double x_high = x_ticks.back().value;
  const Scale x{x_low, x_high > x_low ? x_high : x_low + 1, frame.left, frame.right};
  const Scale y{y_low, y_high, kHeight - kBottom, kTop};
  out += grid(chart.x_label, x_ticks, y_ticks, frame, x, y);
  for (std::size_t index = 0; index < chart.series.size(); ++index) {
    const LogChart::Series& series = chart.series[index];
    const std::size_t colour = index % kSeriesColours;
    const char* dashed = series.dashed ? " dashed" : "";
    out += fmt::format("<polyline class=\"series s{}{}\" points=\"", colour, dashed);
    const auto points = logarithms(series);
    for (const auto& [log_x, log_y] : points) out += fmt::format("{:.1f},{:.1f} ", x(log_x), y(log_y));
    out += "\"/>\n<g class=\"marks\">\n";
    for (const auto& [log_x, log_y] : points) {
      out += fmt::format(
          "<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}, {}: {}</title></circle>\n",
          colour, x(log_x), y(log_y), escape_markup(series.label),
          escape_markup(chart.x_text(std::pow(10, log_x))), escape_markup(chart.y_text(std::pow(10, log_y))));
    }
    out += "</g>\n";
  }
  return out + legend.markup + "</svg>\n";
}

std::string to_svg(const BarChart& chart) {
  double most = chart.whole;
  std::vector<std::string> labels;
  std::vector<std::string> texts;
  for (const BarChart::Bar& bar : chart.bars) {
    most = std::max(most, bar.value);
    labels.push_back(bar.label);
    texts.push_back(bar.text);
  }
  const bool has_whole = chart.whole > 0;
  const double left = widest(labels) + 2 * kMargin;
  const double right = std::max(kWidth - widest(texts) - 2 * kMargin, left + 1);
  const Scale x{0, most > 0 ? most : 1, 0, right - left};
  const double bars_height = kBarStep * static_cast<double>(chart.bars.size()) + 8;
  std::string out = svg_begin(bars_height + (has_whole ? kBarStep : 0), chart.title);
  double top = 4;
  for (const BarChart::Bar& bar : chart.bars) {
    const double width = std::max(x(bar.value), 1.0);
    const double middle = top + kBarHeight / 2 + 4;
    out += fmt::format("<g><title>{}: {}</title><text class=\"end\" x=\"{:.1f}\" y=\"{:g}\">{}</text>",
                       escape_markup(bar.label), escape_markup(bar.text), left - kMargin, middle,
                       escape_markup(bar.label));
    constexpr const char* kRectangle =
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:g}\" width=\"{:.1f}\" height=\"{:g}\" rx=\"3\"/>";
    if (has_whole) {
      out += fmt::format(fmt::runtime(kRectangle), "track", left, top, x(chart.whole), kBarHeight);
    }
    out += fmt::format(fmt::runtime(kRectangle), "bar", left, top, width, kBarHeight);
    // Beside the bar, or beside the track that stands for the whole.
    const double end = has_whole ? std::max(x(chart.whole), width) : width;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:g}\">{}</text></g>\n", left + end + kMargin, middle,
                       escape_markup(bar.text));
    top += kBarStep;
  }
  if (has_whole) {
    out += fmt::format(
        "<g class=\"axis\"><text x=\"{0:.1f}\" y=\"{2:g}\">0</text><text class=\"end\" x=\"{1:.1f}\" "
        "y=\"{2:g}\">{3}</text></g>\n",
        left, left + x(chart.whole), bars_height + 12, escape_markup(chart.whole_text));
  }
  return out + "</svg>\n";
}

}  // namespace verbena::apps
