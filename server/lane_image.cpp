// What a lane writes for a copy that joins, and how it becomes as the lane that has written it (image.hpp).
//
// Left out is what concerns the connections of this copy (who was told what, subscriptions, rows to be sent),
// calls that only look, and the checkpoint that is being made.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "server/fixed_shard.hpp"
#include "server/function_run.hpp"
#include "server/image_bytes.hpp"
#include "server/lane.hpp"

namespace verbena::server {

void Lane::write_image(ImageWriter& out) {
  assert(changing_ == nullptr && load_ == nullptr);
  // Of calls that look, the copies have those that cannot be (their workers wait for the reason).
  for (std::size_t i = 0; i < looking_.size();) {
    if (!looking_[i]->is_logged()) {
      ++i;
      continue;
    }
    end_call(std::move(looking_[i]));
    looking_.erase(looking_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const Worker& worker : workers_) out.put(clocks_.clock(worker.rank));
  for (const std::uint32_t number : evicting_) out.put(tables_[number].next_sweep);
  gone_.write_image(out);
  for (const Worker& worker : workers_) write_image(worker, out);
}

void Lane::read_image(ImageReader& in) {
  clocks_ = consistency::VectorClock(static_cast<std::uint32_t>(workers_.size()));
  for (const Worker& worker : workers_) {
    const auto clock = in.get<consistency::Clock>();
    if (clock > 0) clocks_.advance(worker.rank, clock);
  }
  for (const std::uint32_t number : evicting_) tables_[number].next_sweep = in.get<consistency::Clock>();
  gone_.read_image(in);
  gone_told_ = gone_.end();
  for (Worker& worker : workers_) read_image(worker, in);
}

void Lane::write_image(const Worker& worker, ImageWriter& out) const {
  out.put(worker.held_of_former);
  out.put(std::uint64_t(
      std::ranges::count_if(worker.held_calls, [](const auto& call) { return call->is_of_nobody(); })));
  out.put(worker.applied);
  out.put(worker.applied_held);
  out.put(std::uint64_t{worker.held.size()});
  for (const HeldUpdates& held : worker.held) {
    out.put(held.header);
    out.put_all(held.bytes);
  }
  out.put(std::uint64_t{worker.examples.size()});
  for (const FinishedExamples& examples : worker.examples) out.put(examples);
  out.put(std::uint64_t{worker.held_calls.size()});
  for (const std::shared_ptr<FunctionRun>& call : worker.held_calls) call->write_call(out);
  // A copy keeps as many as the worker may wait for, since it does not know which of them were told.
  std::vector<const FunctionRun*> results;
  for (const auto* const some : {&worker.told_results, &worker.results}) {
    for (const std::shared_ptr<FunctionRun>& run : *some) {
      if (run->is_logged()) results.push_back(run.get());
    }
  }
  const std::size_t most = protocol::kMaxOpenCalls;
  const std::size_t first = results.size() - std::min(results.size(), most);
  out.put(std::uint64_t{results.size() - first});
  for (std::size_t i = first; i < results.size(); ++i) results[i]->write_result(out);
}

void Lane::read_image(Worker& worker, ImageReader& in) {
  worker.held_of_former = in.get<std::uint64_t>();
  auto calls_of_nobody = in.get<std::uint64_t>();
  worker.applied = in.get<std::uint64_t>();
  worker.applied_held = in.get<std::uint64_t>();
  for (std::uint64_t left = in.get_count(sizeof(protocol::BulkHeader)); left > 0; --left) {
    HeldUpdates held;
    held.header = in.get<protocol::BulkHeader>();
    held.bytes = in.get_all<std::byte>();
    worker.held.push_back(std::move(held));
  }
  for (std::uint64_t left = in.get_count(sizeof(FinishedExamples)); left > 0; --left)
    worker.examples.push_back(in.get<FinishedExamples>());
  for (std::uint64_t left = in.get_count(1); left > 0 && in.is_good(); --left) {
    const FunctionRun::Call call = FunctionRun::read_call(in);
    if (!in.is_good() || call.table >= tables_.size()) break;
    const FixedShard& shard = *tables_[call.table].shard;
    const auto function = shard.find_function(call.message.text, call.message.numbers_a_key);
    worker.held_calls.push_back(std::make_shared<FunctionRun>(worker.rank, call.table, call.clock,
                                                              call.message, function,
                                                              /*is_logged=*/true));
    if (calls_of_nobody > 0) {
      --calls_of_nobody;
      worker.held_calls.back()->has_lost_its_caller();
    }
  }
  for (std::uint64_t left = in.get_count(1); left > 0 && in.is_good(); --left)
    worker.results.push_back(FunctionRun::read_result(worker.rank, in));
  // Calls that come after the image may be counted already.
  worker.open_calls += static_cast<std::uint32_t>(worker.held_calls.size() + worker.results.size());
}

}  // namespace verbena::server
