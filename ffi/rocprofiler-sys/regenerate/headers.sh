#!/bin/sh
# Collects the headers that bindings.sh and tables.py read into OUT.
# usage: ./headers.sh ROCM_SYSTEMS_GIT_DIR COMMIT TRITON_INCLUDE_DIR OUT
set -eu
git_dir=${1:?usage: ./headers.sh ROCM_SYSTEMS_GIT_DIR COMMIT TRITON_INCLUDE_DIR OUT}
commit=${2:?no commit}
triton=${3:?no folder triton/backends/amd/include}
out=${4:?no output folder}
mkdir -p "$out/src" "$out/include"

extract() { git --git-dir="$git_dir" archive "$commit" "$@" | tar x -C "$out/src"; }
extract projects/rocprofiler-sdk/source/include projects/rocprofiler-sdk/VERSION \
    projects/rocprofiler-sdk/source/lib/rocprofiler-sdk/rocprofiler.cpp
extract projects/rocr-runtime/runtime/hsa-runtime/inc projects/rocr-runtime/libhsakmt/include/hsakmt

cp -r "$out/src/projects/rocprofiler-sdk/source/include/." "$out/include"
cp -r "$out/src/projects/rocr-runtime/runtime/hsa-runtime/inc" "$out/include/hsa"
cp -r "$out/src/projects/rocr-runtime/libhsakmt/include/hsakmt" "$out/include/hsakmt"
cp -r "$triton/hip" "$out/include/hip"
# Not in the bundle. The SDK's copy of rccl.h includes it and uses nothing of it.
: >"$out/include/hip/hip_fp16.h"

# What CMake would configure.
IFS=. read -r major minor patch <"$out/src/projects/rocprofiler-sdk/VERSION"
find "$out/include" -name version.h.in | while read -r file; do
    sed -e "s/@PROJECT_VERSION_MAJOR@/$major/; s/@PROJECT_VERSION_MINOR@/$minor/" \
        -e "s/@PROJECT_VERSION_PATCH@/$patch/; s/@FULL_VERSION_STRING@/$major.$minor.$patch/" \
        -e 's/@[A-Z_]*@//g' "$file" >"${file%.in}"
done
python3 - "$out/include" <<'PYTHON'
import re, sys
folder = sys.argv[1]
versions = dict(re.findall(r"#define (HSA_\w+_VERSION)\s+(0x[0-9a-f]+)",
                           open(folder + "/hsa/hsa_api_trace_version.h").read()))
text = open(folder + "/rocprofiler-sdk/ext_version.h.in").read()
text = re.sub(r"#cmakedefine (ROCPROFILER_(HSA_\w+)) @\w+@",
              lambda m: f"#define {m[1]} {versions[m[2]]}", text)
text = text.replace("@HSA_RUNTIME_VERSION_MAJOR@", "1").replace("@HSA_RUNTIME_VERSION_MINOR@", "18")
open(folder + "/rocprofiler-sdk/ext_version.h", "w").write(text)
PYTHON
