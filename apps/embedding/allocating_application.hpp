// What applications with --allocation have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "apps/application.hpp"
#include "apps/embedding/allocation.hpp"

namespace verbena::apps {

class AllocatingApplication : public Application {
 public:
  /// The model that --allocation needs; the default of Application if it works with any.
  [[nodiscard]] std::string default_consistency(bool is_one_node, std::uint32_t workers) const final {
    return allocation_.default_consistency(is_one_node, workers,
                                           Application::default_consistency(is_one_node, workers));
  }
  void set_job_shape(const JobShape& shape) final {
    job_shape_ = shape;
    allocation_.set_consistency(shape.consistency);
  }
  [[nodiscard]] absl::Status check_consistency(const ConsistencyModel& consistency) const override {
    return allocation_.check(consistency);
  }
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const override {
    return allocation_.chosen(option);
  }
  [[nodiscard]] bool leaves_open(std::string_view option) const override {
    return option == "allocation" && allocation_.leaves_open();
  }

 protected:
  /// `fastest`: the model with which its rows move best.
  explicit AllocatingApplication(ConsistencyModel fastest) : AllocatingApplication(fastest, fastest) {}
  /// `of_several`: the fastest model for several workers that share one node.
  AllocatingApplication(ConsistencyModel of_one, ConsistencyModel of_several)
      : allocation_(of_one, of_several) {}

  AllocationOption& allocation() { return allocation_; }
  [[nodiscard]] const AllocationOption& allocation() const { return allocation_; }
  /// nullopt: not decided yet.
  [[nodiscard]] const std::optional<JobShape>& job_shape() const { return job_shape_; }

 private:
  AllocationOption allocation_;
  std::optional<JobShape> job_shape_;
};

}  // namespace verbena::apps
