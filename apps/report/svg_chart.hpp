// Small charts as SVG for the report: no script, colours from the page's style sheet.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/chart.hpp"

namespace verbena::apps {

/// Escapes "<" as "&lt;", and so on, for any text of one line in elements and attributes.
std::string escape_markup(std::string_view text);

/// At least two round numbers (1, 2 or 5 times a power of ten apart) that span [low, high], about `wanted` of
/// them.
std::vector<double> axis_ticks(double low, double high, std::size_t wanted);

/// A line with a dot at each point, if there are few; values that are not finite are left out.
struct LineChart {
  std::string x_label;
  std::string y_label;
  std::vector<std::pair<double, double>> points;  ///< x ascending
};
std::string to_svg(const LineChart& chart);

inline constexpr std::size_t kSeriesColours = 6;  ///< of curves in one frame

/// Where something has happened: a vertical line, and what it was, for whoever points at it.
struct ChartMark {
  double x = 0;
  std::string what;
};
std::string to_svg(const CurveChart& chart, const std::vector<ChartMark>& marks = {});

/// Curves over sizes, both axes logarithmic; values that are not positive are left out.
struct LogChart {
  using Series = apps::Series;
  std::string x_label;
  std::string y_label;
  std::function<std::string(double)> x_text;  ///< the label for a value
  std::function<std::string(double)> y_text;
  std::vector<Series> series;
};
std::string to_svg(const LogChart& chart);

/// Horizontal bars, one below another.
struct BarChart {
  struct Bar {
    std::string label;
    double value = 0;  ///< ≥ 0
    std::string text;  ///< the label for `value`
  };
  std::string title;  ///< for readers who cannot see the chart
  std::vector<Bar> bars;
  double whole = 0;  ///< each bar is drawn as a part of this; 0: the longest bar takes all the room
  std::string whole_text = "";  ///< the label for `whole`
};
std::string to_svg(const BarChart& chart);

}  // namespace verbena::apps
