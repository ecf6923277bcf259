# SPDX-License-Identifier: Apache-2.0
# Installs all but programs and library, and makes the Debian packages: target `deb`. What only makes sense in /usr is
# left out of `cmake --install`.
if(DISTLOCK_SANITIZE OR NOT TARGET distlockd OR NOT TARGET distlockctl)
  return()
endif()
set(deb ${CMAKE_SOURCE_DIR}/deploy/deb)
set(made ${CMAKE_BINARY_DIR}/package_files)

# A hiredis that is not Debian's goes with the daemon, into a folder of its own.
foreach(library IN LISTS HIREDIS_LINK_LIBRARIES)
  file(REAL_PATH ${library} real)
  if(real MATCHES "hiredis" AND NOT real MATCHES "^/(usr/)?lib/")
    set(private ${CMAKE_INSTALL_LIBDIR}/distlock-server)
    get_filename_component(name ${real} NAME)
    set(there "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${private}/${name}")
    install(FILES ${real} DESTINATION ${private} COMPONENT server)
    install(CODE "execute_process(COMMAND ${CMAKE_STRIP} --strip-unneeded \"${there}\" COMMAND_ERROR_IS_FATAL ANY)"
            COMPONENT server)
    set_target_properties(distlockd PROPERTIES INSTALL_RPATH "$ORIGIN/../${private}")
  endif()
endforeach()

# install_pages(PAGES SECTION COMPONENT): manual pages, compressed once they are installed.
function(install_pages pages section component)
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component})
  foreach(page IN LISTS pages)
    get_filename_component(name ${page} NAME)
    set(there "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man${section}/${name}")
    install(CODE "execute_process(COMMAND gzip -9nf \"${there}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  endforeach()
endfunction()

add_custom_command(OUTPUT ${made}/distlockd.8 ${made}/completion/distlockctl ${made}/completion/_distlockctl
                          ${made}/completion/distlockctl.fish
  COMMAND ${CMAKE_COMMAND} -E make_directory ${made}/completion
  COMMAND ${deb}/distlockd_man.sh $<TARGET_FILE:distlockd> > ${made}/distlockd.8
  COMMAND distlockctl completion bash > ${made}/completion/distlockctl
  COMMAND distlockctl completion zsh > ${made}/completion/_distlockctl
  COMMAND distlockctl completion fish > ${made}/completion/distlockctl.fish
  DEPENDS distlockd distlockctl ${deb}/distlockd_man.sh VERBATIM COMMENT "Making the page of distlockd, and completion")
add_custom_target(distlock_package_files ALL DEPENDS ${made}/distlockd.8)

install_pages("${made}/distlockd.8" 8 server)
foreach(command "" -run -elect -hold -acquire -renew -downgrade -release -show -ls -watch -check-token -status -sessions
        -drain -force-release -quorum-init -store -can-i -reload -token -policy -top -completion -man)
  list(APPEND pages ${CMAKE_BINARY_DIR}/man/distlockctl${command}.1)
endforeach()
install_pages("${pages}" 1 cli)
install(FILES ${made}/completion/distlockctl DESTINATION share/bash-completion/completions COMPONENT cli)
install(FILES ${made}/completion/_distlockctl DESTINATION share/zsh/vendor-completions COMPONENT cli)
install(FILES ${made}/completion/distlockctl.fish DESTINATION share/fish/vendor_completions.d COMPONENT cli)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/proto/distlock DESTINATION share/distlock/proto COMPONENT dev
        FILES_MATCHING PATTERN "*.proto")

set(systemd ${CMAKE_SOURCE_DIR}/deploy/systemd)
install(FILES ${systemd}/distlockd.service ${systemd}/distlockd.socket DESTINATION lib/systemd/system
        COMPONENT server EXCLUDE_FROM_ALL)
install(FILES ${systemd}/sysusers.conf DESTINATION lib/sysusers.d RENAME distlock.conf
        COMPONENT server EXCLUDE_FROM_ALL)
install(FILES ${systemd}/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME distlock.conf
        COMPONENT server EXCLUDE_FROM_ALL)
install(FILES ${systemd}/distlockd.yaml DESTINATION /etc/distlock COMPONENT server EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME distlock)
set(CPACK_PACKAGE_VENDOR "distlock")
# The maker of a package answers for it: the variables are those that Debian's own tools read.
set(contact "unnamed packager <nobody@packager.invalid>")
if(NOT "$ENV{DEBEMAIL}" STREQUAL "")
  set(contact "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(DISTLOCK_PACKAGE_CONTACT "${contact}" CACHE STRING "Maintainer of the Debian packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_CONTACT "${DISTLOCK_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_COMPONENTS_ALL server cli dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${HIREDIS_LIBRARY_DIRS})
if(NOT CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${HIREDIS_LIBDIR})
endif()

set(CPACK_DEBIAN_SERVER_PACKAGE_NAME distlock-server)
set(CPACK_DEBIAN_SERVER_PACKAGE_SECTION net)
set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS
    "systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles")
set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS "distlock, redis-server | valkey-server")
set(CPACK_DEBIAN_SERVER_DESCRIPTION "lock broker: gRPC in front, Redis or Valkey behind
 distlockd holds the connections to Redis or Valkey and runs every acquire,
 renewal and release for its clients, which take locks over streaming gRPC.")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA ${deb}/conffiles ${deb}/postinst ${deb}/prerm ${deb}/postrm)

set(CPACK_DEBIAN_CLI_PACKAGE_NAME distlock)
set(CPACK_DEBIAN_CLI_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_CLI_PACKAGE_SUGGESTS distlock-server)
set(CPACK_DEBIAN_CLI_DESCRIPTION "locks from a shell, by the lock broker distlockd
 distlockctl runs a command under a lock, shows who holds it and who waits,
 and looks after a broker.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libdistlock-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libabsl-dev, libgrpc++-dev, libprotobuf-dev")
set(CPACK_DEBIAN_DEV_DESCRIPTION "C++ client library of the lock broker distlockd
 Headers, static libraries, the package file for CMake, and the .proto files
 of the contract.")

string(TIMESTAMP today "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(CONFIGURE OUTPUT ${made}/changelog CONTENT [[distlock (@PROJECT_VERSION@-1) unstable; urgency=medium

  * Release @PROJECT_VERSION@; CHANGELOG.md of the sources has the changes.

 -- @CPACK_PACKAGE_CONTACT@  @today@
]] @ONLY)
add_custom_command(OUTPUT ${made}/changelog.Debian.gz
  COMMAND gzip -9nc ${made}/changelog > ${made}/changelog.Debian.gz DEPENDS ${made}/changelog VERBATIM)
add_custom_target(distlock_package_changelog ALL DEPENDS ${made}/changelog.Debian.gz)
foreach(component server cli dev)
  string(TOUPPER ${component} upper)
  install(FILES ${deb}/copyright ${made}/changelog.Debian.gz
          DESTINATION share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME} COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

include(CPack)
add_custom_target(deb
  COMMAND ${CMAKE_CPACK_COMMAND} --config ${CMAKE_BINARY_DIR}/CPackConfig.cmake
  DEPENDS distlockd distlockctl distlockctl_man distlock_client distlock_package_files distlock_package_changelog
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM COMMENT "Making the Debian packages")
