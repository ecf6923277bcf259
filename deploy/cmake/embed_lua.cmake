# SPDX-License-Identifier: Apache-2.0
# cmake -D HEAD=<file> -D PRELUDE=<file> -D QUEUE=<file> -D INSPECT=<file> -D VERBS=<files> -D OUT=<path without extension>
#       -P embed_lua.cmake
file(READ ${HEAD} opening)
file(READ ${PRELUDE} prelude)
file(READ ${QUEUE} queue)
file(READ ${INSPECT} inspect)
set(declarations)
set(definitions)

foreach(verb IN LISTS VERBS)
  get_filename_component(name ${verb} NAME_WE)
  string(REPLACE "_" ";" words ${name})
  set(constant k)
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 head)
    string(SUBSTRING ${word} 1 -1 tail)
    string(TOUPPER ${head} head)
    string(APPEND constant ${head}${tail})
  endforeach()

  file(READ ${verb} body)
  string(REPLACE "-- with inspect.lua\n" "${inspect}" body "${body}")
  string(FIND "${body}" "-- with prelude.lua\n" marked)
  if(marked EQUAL -1)
    set(body "-- with prelude.lua\n${body}")
  endif()
  string(REPLACE "-- with prelude.lua\n" "${prelude}" body "${opening}${body}")
  string(REPLACE "-- with queue.lua\n" "${queue}" body "${body}")
  string(FIND "${body}" ")lua\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${verb}: )lua\" would end the C++ literal it is embedded in")
  endif()
  string(SHA1 sha1 "${body}")
  string(APPEND declarations "extern const ScriptSource ${constant};\n")
  string(APPEND definitions
         "const ScriptSource ${constant}{\"${name}\", R\"lua(${body})lua\",\n    \"${sha1}\"};\n")
endforeach()

file(WRITE ${OUT}.h "// SPDX-License-Identifier: Apache-2.0
// Generated from lua/*.lua. Constants: usable from any thread, at any time.
#pragma once

#include <string_view>

namespace distlock::lua {

struct ScriptSource {
  std::string_view name;
  std::string_view body;
  std::string_view sha1;  // of body, as Redis writes it
};

${declarations}
}  // namespace distlock::lua
")
file(WRITE ${OUT}.cc "// SPDX-License-Identifier: Apache-2.0
#include \"lua/scripts_data.h\"

namespace distlock::lua {

${definitions}
}  // namespace distlock::lua
")
