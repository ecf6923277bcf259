// SPDX-License-Identifier: Apache-2.0
//
// The metric label of each value that the shards and the calls report. Pure, any thread.
#pragma once

#include "core/messages.h"
#include "door/visitor.h"
#include "ops/metrics.h"
#include "rpc/server.h"

namespace distlock {

ops::RefusalReason LabelOf(core::RefusalReason value);
ops::LostReason LabelOf(core::LostReason value);
ops::HandoffPath LabelOf(core::HandoffPath value);
ops::StoreVerb LabelOf(core::Verb value);
ops::StoreError LabelOf(core::FailureKind value);
ops::StreamEnd LabelOf(rpc::StreamClose value);
ops::RefuseCause LabelOf(door::RefuseCause value);
ops::CutCause LabelOf(door::CutCause value);

}  // namespace distlock
