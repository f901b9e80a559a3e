#!/usr/bin/env bash
# Installs the C library: headers, libstrandline.so.1 and libstrandline.a, pkg-config and CMake files.
#
#   ffi/c/install.sh PREFIX          builds it (release) and installs it under PREFIX
#
#   DESTDIR              put before PREFIX, for packagers
#   STRANDLINE_ARCHIVE   a libstrandline_c.a that cargo has built already
#   CC, LD, AR, OBJCOPY  the tools
#
# rustc's archive is linked once into one object in which only the symbols of strandline.map are visible; both libraries are made
# of it. So two programs' worth of Rust can be linked statically into one, and a program can hold two versions of this library.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# -eq 1 ] && [ "${1#-}" = "$1" ] || { echo "usage: $0 PREFIX" >&2; exit 2; }
prefix=$1
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
to=${DESTDIR:-}$prefix
cc=${CC:-cc} ld=${LD:-ld} ar=${AR:-ar} objcopy=${OBJCOPY:-objcopy}

archive=${STRANDLINE_ARCHIVE:-}
if [ -z "$archive" ]; then
    cargo build --release --manifest-path "$root/Cargo.toml" -p strandline-c
    archive=${CARGO_TARGET_DIR:-$root/target}/release/libstrandline_c.a
fi
[ -f "$archive" ] || { echo "$0: no archive $archive" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^ *\(strandline_[a-z0-9_]*\);$/\1/p' "$here/strandline.map" >"$work/symbols"
roots=()
while read -r symbol; do roots+=(-u "$symbol"); done <"$work/symbols"
"$ld" -r --force-group-allocation "${roots[@]}" -o "$work/whole.o" "$archive"
"$objcopy" --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd --keep-global-symbols="$work/symbols" "$work/whole.o" "$work/strandline.o"

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
system_libs="-lgcc_s -lm -lpthread -ldl"
mkdir -p "$to/include" "$to/lib/pkgconfig" "$to/lib/cmake/strandline"
# Never unmapped: a callback may come at any time. Its own calls stay its own, whatever else is loaded.
# shellcheck disable=SC2086
"$cc" -shared -o "$work/libstrandline.so.1" "$work/strandline.o" \
    -Wl,-soname,libstrandline.so.1 -Wl,--version-script="$here/strandline.map" \
    -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,relro,-z,now -Wl,-Bsymbolic -Wl,--gc-sections $system_libs -lc
rm -f "$work/libstrandline.a"
"$ar" rcsD "$work/libstrandline.a" "$work/strandline.o"
install -m 755 "$work/libstrandline.so.1" "$to/lib/libstrandline.so.1"
ln -sf libstrandline.so.1 "$to/lib/libstrandline.so"
install -m 644 "$work/libstrandline.a" "$to/lib/libstrandline.a"
install -m 644 "$here/../include/strandline.h" "$here/../include/strandline.hpp" "$to/include/"

cat >"$to/lib/pkgconfig/strandline.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: strandline
Description: embedded GPU-tracing runtime
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lstrandline
Libs.private: $system_libs
END
cat >"$to/lib/cmake/strandline/strandlineConfig.cmake" <<'END'
# strandline::strandline (shared) and strandline::static.
get_filename_component(_strandline_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET strandline::strandline)
  add_library(strandline::strandline SHARED IMPORTED)
  set_target_properties(strandline::strandline PROPERTIES
    IMPORTED_LOCATION "${_strandline_prefix}/lib/libstrandline.so.1"
    IMPORTED_SONAME "libstrandline.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_strandline_prefix}/include")
  add_library(strandline::static STATIC IMPORTED)
  set_target_properties(strandline::static PROPERTIES
    IMPORTED_LOCATION "${_strandline_prefix}/lib/libstrandline.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_strandline_prefix}/include"
    INTERFACE_LINK_LIBRARIES "gcc_s;m;pthread;dl")
endif()
set(strandline_FOUND TRUE)
END
cat >"$to/lib/cmake/strandline/strandlineConfigVersion.cmake" <<END
set(PACKAGE_VERSION "$version")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
END
echo "installed strandline $version under $to"
