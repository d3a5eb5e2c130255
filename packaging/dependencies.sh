#!/usr/bin/env bash
# Builds the small libraries as archives of position-independent code, so that a wheel needs none of them at run time: for
# images such as manylinux_2_28, whose own packages are too old or missing. cibuildwheel calls it (pyproject.toml).
#
#   packaging/dependencies.sh PREFIX     then let CMAKE_PREFIX_PATH name PREFIX
#
# Needs curl, patch, CMake, a C++ compiler, autoconf, automake and libtool, all of which manylinux images have.
# The sources are those of Debian 12, whose libraries all tests run with. FLOCKSTEP_MIRROR names another mirror of Debian.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 PREFIX" >&2; exit 2; }
mkdir -p "$1"
prefix="$(cd "$1" && pwd)"
readonly prefix mirror="${FLOCKSTEP_MIRROR:-https://deb.debian.org/debian}/pool/main"
work="$(mktemp -d)"
readonly work
trap 'rm -rf "$work"' EXIT

# fetch PATH SHA256: into the work folder, if it is what it should be.
fetch() {
  local file="$work/${1##*/}"
  curl --fail --silent --show-error --location --retry 3 --max-time 300 --output "$file" "$mirror/$1"
  echo "$2  $file" | sha256sum --check --quiet
}

# unpack FILE: its folder is $work/source.
unpack() {
  rm -rf "$work/source" && mkdir "$work/source"
  tar --extract --file "$work/$1" --directory "$work/source" --strip-components "${2:-1}"
}

# build OPTION...: what is unpacked, by CMake.
build() {
  cmake -S "$work/source" -B "$work/source/build" -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DBUILD_TESTING=OFF "$@" >/dev/null
  cmake --build "$work/source/build" --parallel "$(nproc)" --target install >/dev/null
}

fetch f/fmtlib/fmtlib_9.1.0+ds1.orig.tar.gz 84ce1c2d0be3a9863935137969dcec6970125caac032f82474640bfc81463583
unpack fmtlib_9.1.0+ds1.orig.tar.gz
build -DFMT_TEST=OFF -DFMT_DOC=OFF

fetch s/spdlog/spdlog_1.10.0+ds.orig.tar.xz 620ca6842b5c21014470bd42eb4716024674214fb973b5ffa3aaea33310ad327
unpack spdlog_1.10.0+ds.orig.tar.xz
build -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF

fetch n/nlohmann-json3/nlohmann-json3_3.11.2.orig.tar.gz d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273
unpack nlohmann-json3_3.11.2.orig.tar.gz
build -DJSON_BuildTests=OFF

fetch h/highway/highway_1.0.3.orig.tar.gz 566fc77315878473d9a6bd815f7de78c73734acdcb745c3dde8579560ac5440e
unpack highway_1.0.3.orig.tar.gz
build -DHWY_ENABLE_CONTRIB=OFF -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_TESTS=OFF

# With what Debian has mended since.
fetch libs/libsodium/libsodium_1.0.18.orig.tar.gz d59323c6b712a1519a5daf710b68f5e7fde57040845ffec53850911f10a5d4f4
fetch libs/libsodium/libsodium_1.0.18-1+deb12u1.debian.tar.xz f410474e46346b06b162defa05b1be26906aeed6cf309e3d4ebe30b4d1350733
unpack libsodium_1.0.18.orig.tar.gz
tar --extract --file "$work/libsodium_1.0.18-1+deb12u1.debian.tar.xz" --directory "$work/source"
(
  cd "$work/source"
  while read -r name; do patch --quiet -p1 <"debian/patches/$name"; done <debian/patches/series
  autoreconf --install >/dev/null 2>&1
  ./configure --quiet --prefix="$prefix" --libdir="$prefix/lib" --disable-shared --enable-static --with-pic
  make --silent -j"$(nproc)" install >/dev/null
)

# Headers alone, from Debian's binary package.
fetch a/asio/libasio-dev_1.22.1-1_all.deb d55e7b0773dcd4385b366b888415908902a2b3483dcb1bb193d6565b38c03af0
(cd "$work" && ar x libasio-dev_1.22.1-1_all.deb)
unpack data.tar.xz 2
cp -R "$work/source/include/." "$prefix/include"
