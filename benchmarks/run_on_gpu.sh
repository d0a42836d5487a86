#!/usr/bin/env bash
# Everything that needs a GPU, in one go: the gpu tests, compute-sanitizer over every kernel, the benchmarks.
#
#   benchmarks/run_on_gpu.sh DATA OUT [tests] [sanitizer] [benchmarks] [cluster]
#
# DATA holds bipartite/<name>.txt.gz; results and logs go to OUT. Without step names all steps run. The steps
# go on after a failure; the exit status is that of the first step that failed.
set -uo pipefail
cd "$(dirname "$0")/.."
data=$1 out=$2
shift 2
steps=${*:-tests sanitizer benchmarks cluster}
mkdir -p "$out"
export PYTHONUNBUFFERED=1 PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
status=0

step() {
    local name=$1
    shift
    case " $steps " in *" $name "*) ;; *) return ;; esac
    echo "== $name: $*"
    "$@" 2>&1 | tee -a "$out/$name.log" | tail -n 60
    local code=${PIPESTATUS[0]}
    echo "== $name: exit $code after ${SECONDS} s"
    [ "$status" -ne 0 ] || status=$code
}

step tests python3 -m pytest -q -p no:cacheprovider -m "gpu or multi_gpu" tests/kernels tests/cluster
for tool in memcheck racecheck synccheck; do
    # CuPy's own kernels are not ours to check; the widest counters take minutes under the tools.
    step sanitizer timeout 150 compute-sanitizer --tool "$tool" --error-exitcode 9 --kernel-name-exclude kns=cupy \
        python3 -m pytest -q -p no:cacheprovider -m gpu -x -k "not widest" tests/kernels/test_gpu_butterfly.py
done
step benchmarks python3 -m benchmarks.butterfly --engine gpu --data "$data" --output "$out/butterfly-gpu.json"
step cluster python3 -m benchmarks.end_to_end --cluster cuda --output "$out/end-to-end.json"
exit "$status"
