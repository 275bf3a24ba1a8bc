#include "server/region_desk.hpp"

#include <utility>

namespace verbena::server {

namespace {

/// Release: who sees it sees the result.
void finish(RegionDesk::Order& order) {
  order.is_done.store(true, std::memory_order_release);
  order.is_done.notify_one();
}

void cancel(RegionDesk::Order& order) {
  order.status = absl::CancelledError("the server ends");
  finish(order);
}

}  // namespace

void RegionDesk::place(Order& order) {
  order.is_done.store(false, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) {
      orders_.push_back(&order);
      has_orders_.store(true, std::memory_order_release);
    }
    if (is_closed_) cancel(order);
  }
  if (has_threads_.load(std::memory_order_acquire)) wake_();
}

void RegionDesk::wait_for(Order& order) {
  if (!has_threads_.load(std::memory_order_acquire)) {
    serve();
  } else if (pause_) {
    while (!order.is_done.load(std::memory_order_acquire)) pause_();
  } else {
    order.is_done.wait(false, std::memory_order_acquire);
  }
}

void RegionDesk::withdraw(const Order& order) {
  const std::lock_guard lock(mutex_);
  std::erase(orders_, &order);
}

bool RegionDesk::serve() {
  if (!has_orders_.load(std::memory_order_acquire)) return false;
  std::vector<Order*> orders;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(orders_);
    has_orders_.store(false, std::memory_order_relaxed);
  }
  for (Order* const order : orders) {
    carry_out_(*order);
    finish(*order);
  }
  return !orders.empty();
}

void RegionDesk::close() {
  std::vector<Order*> orders;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    orders.swap(orders_);
  }
  for (Order* const order : orders) cancel(*order);
}

}  // namespace verbena::server
