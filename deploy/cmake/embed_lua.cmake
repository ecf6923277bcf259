# SPDX-License-Identifier: Apache-2.0
# cmake -D FOLDER=<of the scripts> -D VERBS=<files> -D OUT=<path without extension> -P embed_lua.cmake
file(READ ${FOLDER}/head.lua opening)
set(parts acquire release inspect prelude queue)  # in the order in which they may name each other
foreach(part IN LISTS parts)
  file(READ ${FOLDER}/${part}.lua text_of_${part})
endforeach()
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
  if(NOT body MATCHES "-- with (acquire|prelude).lua\n")
    set(body "-- with prelude.lua\n${body}")
  endif()
  set(body "${opening}${body}")
  foreach(part IN LISTS parts)
    string(REPLACE "-- with ${part}.lua\n" "${text_of_${part}}" body "${body}")
  endforeach()
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
