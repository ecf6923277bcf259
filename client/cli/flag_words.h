// SPDX-License-Identifier: Apache-2.0
//
// The words of this program in the place of the broker's: people give flags, and do not know the fields of requests.
// Pure, any thread.
#pragma once

#include "failure.h"

namespace distlock::cli {

// Names flags instead of fields: in the message ("set -w to wait"), and as the names of wrong fields, which then also
// make up the message, each once. Fields without a flag keep their name. Nothing else of a message is changed.
void SpeakOfFlags(Failure& failure);

}  // namespace distlock::cli
