# SPDX-License-Identifier: Apache-2.0
# The assembler of the scripts: the only place where a verb and the parts it names become one text.
#   cmake -D LUA=<the folder lua> -D VERBS=<files> -D OUT=<folder> -P embed_lua.cmake
# A line "-- include parts/<name>.lua", without indentation, is replaced by that file; a part may include other parts.
# Comment lines are left out of the result. A verb in another folder than `single` has that folder's name in front of
# its own. Writes OUT/<verb>.lua, which is exactly what the server runs, and
# OUT/scripts_data.{h,cc} with all of them and their SHA-1.
cmake_policy(VERSION 3.25)

function(assemble file result)
  file(READ ${file} text)
  while(text MATCHES "(^|\n)(-- include (parts/[a-z_]+\\.lua)\n)")
    set(directive "${CMAKE_MATCH_2}")
    set(part "${CMAKE_MATCH_3}")
    if(NOT EXISTS ${LUA}/${part})
      message(FATAL_ERROR "${file} includes ${part}: there is no such file")
    endif()
    math(EXPR count "${count} + 1")
    if(count GREATER 50)
      message(FATAL_ERROR "${file}: its parts include each other without end (${part})")
    endif()
    file(READ ${LUA}/${part} part_text)
    string(REPLACE "${directive}" "${part_text}" text "${text}")
  endwhile()
  if(text MATCHES "\n *-- include[^\n]*")
    message(FATAL_ERROR "${file}: not a directive, write '-- include parts/<name>.lua':${CMAKE_MATCH_0}")
  endif()
  string(REGEX REPLACE "\n *--[^\n]*" "" text "\n${text}")
  string(REGEX REPLACE "\n\n+" "\n" text "${text}")
  string(REGEX REPLACE "^\n" "" text "${text}")
  string(FIND "${text}" ")lua\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file}: )lua\" would end the C++ literal it is embedded in")
  endif()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# acquire_all -> kAcquireAll
function(constant_name verb result)
  string(REPLACE "_" ";" words ${verb})
  set(name k)
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND name ${first}${rest})
  endforeach()
  set(${result} ${name} PARENT_SCOPE)
endfunction()

set(declarations)
set(definitions)
foreach(file IN LISTS VERBS)
  get_filename_component(verb ${file} NAME_WE)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  if(NOT folder STREQUAL "single")
    set(verb ${folder}_${verb})
  endif()
  assemble(${file} body)
  constant_name(${verb} constant)
  string(SHA1 sha1 "${body}")
  file(WRITE ${OUT}/${verb}.lua "${body}")
  string(APPEND declarations "extern const ScriptSource ${constant};\n")
  string(APPEND definitions "const ScriptSource ${constant}{\"${verb}\", R\"lua(${body})lua\",\n    \"${sha1}\"};\n")
endforeach()

file(WRITE ${OUT}/scripts_data.h "// SPDX-License-Identifier: Apache-2.0
// Generated from lua/. Constants: usable from any thread, at any time.
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
file(WRITE ${OUT}/scripts_data.cc "// SPDX-License-Identifier: Apache-2.0
#include \"lua/scripts_data.h\"

namespace distlock::lua {

${definitions}
}  // namespace distlock::lua
")
