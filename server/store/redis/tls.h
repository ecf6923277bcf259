// SPDX-License-Identifier: Apache-2.0
//
// TLS towards the server: chain and host name are always verified. Files are read anew for each connection, so that a
// replaced certificate is used by the next one. Any thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/store_url.h"

struct ssl_st;

namespace distlock::store {

struct TlsDeleter {
  void operator()(ssl_st* ssl) const;
};
using TlsPtr = std::unique_ptr<ssl_st, TlsDeleter>;

// A client session not yet tied to a socket. InvalidArgument names the file that cannot be used.
absl::StatusOr<TlsPtr> NewTls(const TlsFiles& files, const std::string& host);

// Why the session failed, from OpenSSL's error queue and the verification's result; "" when they say nothing.
std::string TlsFailure(const ssl_st* ssl);

// The handshake is over.
bool TlsIsOpen(const ssl_st* ssl);

// The session can do nothing more until the peer has sent something.
bool TlsWaitsForPeer(const ssl_st* ssl);
bool TlsHasBuffered(const ssl_st* ssl);

}  // namespace distlock::store
