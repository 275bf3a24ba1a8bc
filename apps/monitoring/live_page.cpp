#include "apps/monitoring/live_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/report/html_page.hpp"

namespace verbena::apps {
namespace {

using nlohmann::json;

/// Of a long run so many iterations are shown, the first and the last among them.
constexpr std::size_t kMostShown = 300;

/// Texts come from processes of the run: they are set as text, never as markup.
constexpr std::string_view kBody = R"(<p class="how" id="state">asks the run …</p>
<div class="figures" id="figures"></div>
<div class="cards">
<section><h2 id="objective-name">objective</h2><div id="objective"></div></section>
<section><h2>throughput</h2><div id="throughput"></div></section>
<section class="wide"><h2>workers</h2><div class="scroll"><table id="workers"></table></div></section>
<section><h2>rows read, by how many clocks they were older than the reader's</h2><table id="reads"></table></section>
<section><h2>servers</h2><table id="servers"></table></section>
<section class="wide"><h2>what has happened last</h2><table id="events"></table></section>
</div>
<script>
'use strict';
const kNamespace = 'http://www.w3.org/2000/svg';
const byId = (id) => document.getElementById(id);
function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
function count(value) {
  for (const [size, letter] of [[1e12, ' T'], [1e9, ' G'], [1e6, ' M'], [1e3, ' k']])
    if (value >= size) return (value / size).toPrecision(3) + letter;
  return String(+value.toPrecision(3));
}
const share = (part) => (100 * part).toFixed(1) + ' %';
const known = (value, shown) => value === null || value === undefined ? '' : shown(value);
function rows(table, head, lines, areText = false) {
  const made = [head, ...lines].map((cells, line) => {
    const row = document.createElement('tr');
    row.append(...cells.map((cell, column) => {
      const isFigure = column && !areText;
      const made = element(line && isFigure ? 'td' : 'th', cell);
      if (isFigure) made.style.textAlign = 'right';
      return made;
    }));
    return row;
  });
  byId(table).replaceChildren(...made);
}
function curve(place, points) {
  const [width, height, left, bottom] = [520, 200, 70, 24];
  const drawn = document.createElementNS(kNamespace, 'svg');
  drawn.setAttribute('viewBox', `0 0 ${width} ${height}`);
  if (points.length) {
    const xs = points.map((point) => point[0]), ys = points.map((point) => point[1]);
    const [x0, x1] = [Math.min(...xs), Math.max(...xs)], [y0, y1] = [Math.min(...ys), Math.max(...ys)];
    const x = (value) => left + (width - left - 8) * (x1 > x0 ? (value - x0) / (x1 - x0) : 0.5);
    const y = (value) => 8 + (height - bottom - 16) * (y1 > y0 ? (y1 - value) / (y1 - y0) : 0.5);
    const line = document.createElementNS(kNamespace, 'polyline');
    line.setAttribute('class', 'curve');
    line.setAttribute('points', points.map((point) => x(point[0]) + ',' + y(point[1])).join(' '));
    drawn.append(line);
    const label = (text, at, kind) => {
      const made = document.createElementNS(kNamespace, 'text');
      made.textContent = text;
      made.setAttribute('x', at[0]);
      made.setAttribute('y', at[1]);
      if (kind) made.setAttribute('class', kind);
      drawn.append(made);
    };
    const short = (value) => Math.abs(value) >= 1000 ? count(value) : String(+value.toPrecision(4));
    label(short(y1), [left - 8, y(y1) + 5], 'end');
    if (y1 > y0) label(short(y0), [left - 8, y(y0) + 5], 'end');
    label('iteration ' + x0, [left, height - 4]);
    if (x1 > x0) label(String(x1), [width - 8, height - 4], 'end');
  }
  byId(place).replaceChildren(drawn);
}
function reads(counts) {
  const all = counts.reduce((sum, one) => sum + one, 0);
  const lines = counts.flatMap((one, i) => one ? [[String(i + 1), count(one), share(one / all)]] : []);
  rows('reads', ['clocks', 'rows', 'share'], lines);
}
function show(run) {
  const newest = run.iterations.at(-1);
  const figures = [];
  const figure = (value, label) => {
    const made = element('div', '', 'figure');
    made.append(element('b', value), element('span', label));
    figures.push(made);
  };
  const planned = run.iterations_planned ? ' of ' + run.iterations_planned : '';
  figure((newest ? newest.iteration : 0) + planned, 'iterations that all workers have done');
  for (const [name, value] of Object.entries(run.objectives)) figure(String(+value.toPrecision(6)), name);
  if (newest) figure(count(newest.throughput) + ' ' + run.throughput_unit + '/s', 'throughput');
  figure(share(run.share_waited), 'of the workers\' time waited');
  figure(known(run.mean_clock_differential, (value) => value.toFixed(3)) || '–', 'mean clock differential');
  figure(run.elapsed_seconds.toFixed(0) + ' s', 'since the beginning');
  byId('figures').replaceChildren(...figures);
  const main = run.main_objective || Object.keys(run.objectives)[0] || 'objective';
  byId('objective-name').textContent = main;
  const drawn = run.iterations.filter((one) => one.iteration > 0);
  curve('objective', drawn.flatMap((one) => main in one.objectives ? [[one.iteration, one.objectives[main]]] : []));
  curve('throughput', drawn.map((one) => [one.iteration, one.throughput]));
  rows('workers',
       ['worker', 'pid', 'iteration', 'behind', 'reported', run.throughput_unit + '/s', 'waited',
        'clock differential'],
       run.workers.map((one) => [
         String(one.worker), known(one.pid, String), known(one.iteration, String), String(one.behind),
         one.finished ? 'finished'
                      : one.iteration === null ? 'nothing yet' : one.reported_seconds_ago.toFixed(1) + ' s ago',
         known(one.throughput, count), known(one.share_waited, share),
         known(one.mean_clock_differential, (value) => value.toFixed(3))]));
  reads(run.reads_by_lag);
  rows('servers', ['server', 'copy', 'pid', 'host', ''], run.servers.flatMap((one) => one.copies.length
      ? one.copies.map((copy) => [String(one.server), String(copy.copy), known(copy.pid, String), copy.host || '',
                                  copy.role])
      : [[String(one.server), '', '', '', 'is gone']]));
  rows('events', ['seconds', ''], run.events.map((one) => [one.elapsed_seconds.toFixed(2), one.what]), true);
}
let hasEnded = false;
let began;
async function look() {
  try {
    const answer = await fetch('status.json');
    if (!answer.ok) throw new Error(answer.statusText);
    const run = await answer.json();
    // Another run has the port now: what stands around the figures is its own page's.
    if (began !== undefined && run.began !== began && (await fetch('.')).ok) return location.reload();
    began = run.began;
    show(run);
    hasEnded = false;
    byId('state').textContent = 'as it was at ' + new Date().toLocaleTimeString();
  } catch (error) {
    if (!hasEnded) byId('state').textContent += ': the run has ended since, or does not answer';
    hasEnded = true;
  }
  setTimeout(look, 1000);
}
look();
</script>
)";

json json_of(const IterationRecord& record) {
  return {{"iteration", record.iteration},
          {"elapsed_seconds", record.elapsed_seconds},
          {"throughput", record.seconds > 0 ? record.items / record.seconds : 0},
          {"objectives", record.objectives}};
}

json shown_iterations(const std::vector<IterationRecord>& all) {
  const std::size_t shown = std::min(all.size(), kMostShown);
  json list = json::array();
  for (std::size_t i = 1; i <= shown; ++i) list.push_back(json_of(all[i * all.size() / shown - 1]));
  if (shown > 0) list.front() = json_of(all.front());
  return list;
}

double share_of(const job::StatisticsMessage& counted) {
  return counted.seconds > 0 ? std::min(counted.statistics.waited_seconds / counted.seconds, 1.0) : 0;
}

json differential(const StalenessHistogram& reads) {
  const std::optional<double> mean = mean_clock_differential(reads);
  return mean ? json(*mean) : json();
}

}  // namespace

std::string live_page(const RunSettings& settings) {
  return html_page(fmt::format("{} now", headline(settings)), settings.model, headline(settings),
                   settings.made, kBody);
}

nlohmann::json live_json(const RunSettings& settings, const RunRecord& record, const RunStatus& status) {
  json live = {{"model", settings.model},
               {"throughput_unit", settings.throughput_unit},
               {"main_objective", settings.main_objective},
               {"objectives", record.objectives()},
               {"iterations_planned", settings.iterations},
               {"iterations", shown_iterations(record.iterations())},
               {"servers", json::array()},
               {"workers", json::array()},
               {"events", json::array()}};
  describe(status, live);
  StalenessHistogram reads;
  double shares = 0;
  for (std::size_t i = 0; i < record.workers().size(); ++i) {
    const WorkerRecord& worker = record.workers()[i];
    const job::StatisticsMessage counted = worker.newest_statistics();
    json& one = live["workers"][i];
    one["items"] = worker.items;
    one["throughput"] = worker.throughput();
    one["waited_seconds"] = counted.statistics.waited_seconds;
    one["share_waited"] = share_of(counted);
    one["mean_clock_differential"] = differential(counted.statistics.staleness);
    shares += share_of(counted);
    reads.merge(counted.statistics.staleness);
  }
  live["share_waited"] = shares / static_cast<double>(std::max<std::size_t>(record.workers().size(), 1));
  live["mean_clock_differential"] = differential(reads);
  live["reads_by_lag"] = reads.reads_by_lag;
  return live;
}

}  // namespace verbena::apps
