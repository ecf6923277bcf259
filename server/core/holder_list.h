// SPDX-License-Identifier: Apache-2.0
//
// Holders that are shown to many: copies share one list, which nobody changes.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "core/types.h"

namespace distlock::core {

class HolderList {
 public:
  HolderList() = default;
  HolderList(std::vector<HolderView> holders)  // NOLINT(google-explicit-constructor): a list is what it holds
      : holders_(holders.empty() ? nullptr : std::make_shared<const std::vector<HolderView>>(std::move(holders))) {}
  HolderList(std::initializer_list<HolderView> holders) : HolderList(std::vector<HolderView>(holders)) {}

  bool empty() const { return size() == 0; }
  size_t size() const { return holders_ == nullptr ? 0 : holders_->size(); }
  const HolderView* begin() const { return holders_ == nullptr ? nullptr : holders_->data(); }
  const HolderView* end() const { return begin() + size(); }
  const HolderView& front() const { return *begin(); }
  const HolderView& operator[](size_t i) const { return begin()[i]; }

 private:
  std::shared_ptr<const std::vector<HolderView>> holders_;
};

}  // namespace distlock::core
