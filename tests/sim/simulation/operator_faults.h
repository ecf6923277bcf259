// SPDX-License-Identifier: Apache-2.0
//
// Acts of operators and administrators: rows of faults.cc.
#pragma once

namespace distlock::sim {

class Simulation;

// To a store of one server, where nobody holds off: all data are deleted, a key of a lock is, the scripts are.
void EmptyStore(Simulation& simulation);
void DeleteKey(Simulation& simulation);
void FlushScripts(Simulation& simulation);

// Where brokers hold off.
// All brokers are told to have replicas confirm, or not any more, and a length of the hold-off, or none; then a primary
// is lost.
void ChangeGuard(Simulation& simulation);
// FLUSHALL.
void DeleteAllData(Simulation& simulation);
// All brokers are restarted; while none is there, all data are deleted, or the server restarts empty. So to those who
// come it looks as if nobody had ever been there.
void StartAnew(Simulation& simulation);
// appendfsync of a server is everysec from now on; a while later it restarts without its last second, and reads always
// from its file.
void AppendEachSecond(Simulation& simulation);
// A server of a quorum is replaced by a machine that has the data of another one, which has missed some votes.
void ReplaceByCopy(Simulation& simulation);

}  // namespace distlock::sim
