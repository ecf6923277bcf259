// SPDX-License-Identifier: Apache-2.0
//
// Whether this gRPC names a connection that it was given as a descriptor by the number of that descriptor, and keeps it
// open while a call of the connection lives. Only then does the number tell who has made a call. gRPC 1.51 does both;
// versions that do not are known. Any thread.
#pragma once

namespace distlock::rpc {

// Tries it out, the first time: about 50 ms.
bool NamesByDescriptorHold();

}  // namespace distlock::rpc
