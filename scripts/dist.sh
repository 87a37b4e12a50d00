#!/usr/bin/env bash
# Builds the gateway as images carry it, from what two runs under the traffic of the benchmarks say: built with counters,
# it tells which code is hot, and is built again for it; then BOLT counts the branches of that program and puts the code
# of a request together, in the order in which it runs. Prints where it is, and nothing else.
# Needs python3, the profile tool of this rustc's LLVM (rustup's component llvm-tools, or a package llvm) and llvm-bolt
# (a package bolt, 19 or newer).
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
oldest_bolt=19
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/profiled

# Prints the path of a tool of LLVM, rustup's or the system's, which is of version $2 or newer.
find_tool() { # find_tool NAME OLDEST
  local tool
  for tool in "$(rustc --print sysroot)/lib/rustlib/$host/bin/$1" "$1" "$1"-{30..19}; do
    if [ "$("$tool" --version 2>/dev/null | sed -n 's/.*LLVM version \([0-9]*\).*/\1/p')" -ge "$2" ] 2>/dev/null; then
      # BOLT finds its own libraries by where it lies, not by the link to it.
      realpath "$(command -v "$tool")"
      return
    fi
  done
  return 1
}

# Prints the flag by which the compiler knows that running out of memory unwinds nothing: the standard library ends the
# process there. As long as it might, whatever a box or an Arc is made of is built elsewhere and then copied into it, since
# it would have to be dropped: of each request's future that is 14 KB. Nothing where the name is not to be found.
box_in_place() {
  local libraries name
  libraries=$(rustc --print target-libdir --target "$host")
  name=$(nm -D --defined-only "$libraries"/libstd-*.so 2>/dev/null | grep -oE '[^ ]+5alloc5alloc18handle_alloc_error(17h[0-9a-f]{16}E)?$' || true)
  [ -z "$name" ] || echo "-Cllvm-args=-force-attribute=$name:nounwind"
}

# The same packages each time, or crates have other features and the profile names functions that are not there. With
# --target the flags are for these programs alone, and not for what runs while they are built.
build() { # build NAME FLAGS PROGRAM...
  local programs=("${@:3}")
  RUSTFLAGS="${RUSTFLAGS:-} $in_place $2" cargo build --locked --profile dist --target "$host" --target-dir "$work/$1" \
    -p gateway -p translate "${programs[@]/#/--bin=}"
}

# Requests, streams and tools, without limits and with all of them.
serve_traffic() { # serve_traffic GATEWAY
  python3 benches/compare.py --gateway "$1" --load "$target/release/load" --contenders gateway,limited-all \
    --scenarios c1pin,c32,sse1,sse32,tool1,tool32 --rounds 1 --seconds 2 >&2
}

if ! profdata=$(find_tool llvm-profdata "$llvm"); then
  ! command -v rustup >/dev/null || rustup component add llvm-tools >&2
  profdata=$(find_tool llvm-profdata "$llvm") || {
    echo "llvm-profdata of LLVM $llvm is needed: rustup component add llvm-tools, or a package llvm-$llvm" >&2
    exit 1
  }
fi
bolt=$(find_tool llvm-bolt "$oldest_bolt") || {
  echo "llvm-bolt $oldest_bolt or newer is needed: a package bolt-$oldest_bolt" >&2
  exit 1
}

in_place=$(box_in_place)
cargo build --locked --release -p load --bin load
build counting "-Cprofile-generate=$work/counts" gateway translate
counting=$work/counting/$host/dist
rm -rf "$work/counts"
serve_traffic "$counting/gateway"
# Each family's translator on its golden folder.
"$counting/translate" >/dev/null
"$profdata" merge -o "$work/new.profdata" "$work/counts"
# Named by what is in it: cargo builds nothing again for a file that changed under the same name.
profile=$work/$(sha256sum "$work/new.profdata" | cut -c1-16).profdata
mv "$work/new.profdata" "$profile"
build laid-out "-Cprofile-use=$profile -Clink-arg=-Wl,--emit-relocs" gateway
laid_out=$work/laid-out/$host/dist/gateway

branches=$work/branches
rm -rf "$branches"
mkdir "$branches"
"$bolt" "$laid_out" -o "$branches/gateway" -instrument -instrumentation-file="$branches/of" \
  -instrumentation-file-append-pid >&2
serve_traffic "$branches/gateway"
"$(dirname "$bolt")/merge-fdata" "$branches"/of.*.fdata -o "$branches/all" >&2
# Deliberately without -hugify: what that asks for at the start ends the program where a host has no large pages.
"$bolt" "$laid_out" -o "$work/gateway" -data="$branches/all" -reorder-blocks=ext-tsp -reorder-functions=cdsort \
  -split-functions -split-all-cold -split-eh -icf=1 -plt=hot >&2
echo "$work/gateway"
