#!/usr/bin/env bash
# Everything that needs a GPU, in one go: the gpu tests, compute-sanitizer over every kernel, the benchmarks.
#
#   benchmarks/run_on_gpu.sh DATA OUT [STEP ...]
#
# DATA holds bipartite/<name>.txt.gz; results and logs go to OUT. Steps: tests, budgets, memcheck, synccheck, racecheck,
# benchmarks, biclique, cpu_choice, choice, decomposition, cores, signed, significance, stores, scaling, hubs, long, longer,
# large_rmat, cpus, cluster; without names all run. The steps go on after a failure; the exit status is that of the first
# step that failed. `scaling`, `hubs`, `long`, `longer` and `cpus` need the graphs of `stores`.
set -uo pipefail
cd "$(dirname "$0")/.."
data=$1 out=$2
shift 2
steps=${*:-tests budgets memcheck synccheck racecheck benchmarks biclique cpu_choice choice decomposition cores signed significance stores scaling hubs long longer large_rmat cpus cluster}
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

# Processes share the device; what measures its memory is alone on it.
step tests python3 -m pytest -q -p no:cacheprovider -p no:benchmark -n "${TEST_PROCESSES:-14}" -m "gpu or multi_gpu" tests --ignore tests/test_memory_budget.py
step budgets python3 -m pytest -q -p no:cacheprovider -m "gpu and not slow" tests/test_memory_budget.py
for tool in memcheck synccheck racecheck; do
    step $tool python3 -m benchmarks.sanitized_kernels --tools $tool --seconds 240
done
step benchmarks python3 -m benchmarks.butterfly --engine gpu --data "$data" --output "$out/butterfly-gpu.json"
# Kernels first, then their benchmark, and all laws; what hangs is ended.
bicliques="tests/kernels/biclique/test_gpu_biclique.py tests/kernels/biclique/test_gpu_biclique_vertices.py"
step biclique timeout 60 python3 -m pytest -q -p no:cacheprovider -m gpu --durations=5 $bicliques
step biclique timeout 45 python3 -m benchmarks.biclique_gpu --data "$data" --output "$out/biclique-gpu.json"
step biclique timeout 45 python3 -m pytest -q -p no:cacheprovider -m gpu tests/kernels/biclique/test_biclique.py
# The same table for the processors, a graph for each of the last eight, beside whatever else runs here.
choose_on_cpus() {
    local graphs=(senate youtube-groupmemberships movielens-100k yelp2018 rmat movielens-1m "facebook_combined soc-Epinions1"
                  "ca-AstroPh ca-HepPh wiki-Vote") at=$(($(nproc) - 8)) each
    for each in "${graphs[@]}"; do
        # shellcheck disable=SC2086
        taskset -c $((at++)) timeout 560 python3 -m benchmarks.choice --threads 1 --data "$data" --graphs $each \
            --sizes ${CHOICE_SIZES:-3 4 5 6 7 8 9} --most 1 --grace 60 --slowdown 2 --seconds 500 > "$out/choice-${each%% *}.md" 2>&1 &
    done
    wait
}
step cpu_choice choose_on_cpus
step choice timeout 300 python3 -m benchmarks.choice --engine gpu --data "$data" --sizes 3 4 6 8 --most 0.5 --grace 2 \
    --seconds 240 --output "$out/choice-gpu.json"
decompositions="tests/kernels/peel/test_gpu_peeling.py tests/kernels/peel/test_wing.py tests/kernels/peel/test_tip.py"
step decomposition timeout 120 python3 -m pytest -q -p no:cacheprovider -m gpu --durations=5 $decompositions
step decomposition timeout 120 python3 -m benchmarks.decomposition --engine gpu --ranges 0 32 128 256 --data "$data" \
    --output "$out/decomposition-gpu.json"
step cores timeout 120 python3 -m pytest -q -p no:cacheprovider -m gpu --durations=5 tests/kernels/peel/test_core.py
make_cores_store() {
    mkdir -p "$out/stores"
    [ -e "$out/stores/rmat-27" ] ||
        python3 -m papilio generate rmat "$out/stores/rmat-27" --scale-u 22 --scale-v 22 --edges 134217728 --seed 1
}
step cores make_cores_store
step cores timeout 300 python3 -m benchmarks.cores --engine gpu --data "$data" --stores "$out/stores/rmat-27" \
    --output "$out/cores-gpu.json"
step signed python3 -m pytest -q -p no:cacheprovider -m gpu tests/kernels/wedge/test_gpu_balanced.py tests/kernels/wedge/test_balanced_butterfly.py
step signed python3 -m benchmarks.balanced_butterfly --engine gpu --data "$data" --output "$out/balanced-butterfly-gpu.json"
step signed timeout 240 python3 -m benchmarks.signed_datasets --engine both --max-edges 300000000 \
    --output "$out/signed-gpu.json"
step significance timeout 60 python3 -m benchmarks.significance --data "$data" --cases yelp2018:degrees:1000 --engine gpu --peer-samples 0

# One job on one and on two workers that are kept; a store for each graph, in $out/stores. What $data/stores holds is taken as it is: the
# others are converted and generated, which needs DuckDB.
make_stores() {
    local name
    mkdir -p "$out/stores"
    [ ! -d "$data/stores" ] || cp -r "$data/stores/." "$out/stores"
    for name in bipartite/movielens-1m bipartite/movielens-100k bipartite/yelp2018 bipartite/senate unipartite/facebook_combined; do
        [ -e "$out/stores/${name#*/}" ] ||
            python3 -m papilio convert "--${name%/*}" "$data/$name.txt.gz" "$out/stores/${name#*/}" &
    done
    [ -e "$out/stores/rmat" ] ||
        python3 -m papilio generate rmat "$out/stores/rmat" --scale-u 16 --scale-v 16 --edges "${RMAT_EDGES:-500000000}" --seed 1 &
    wait
}
step stores make_stores
step scaling timeout 300 python3 -m benchmarks.scaling_gpu --stores "$out/stores" --output "$out/scaling" --workers 1,2 --repeat 3 \
    "movielens-1m-4-4=movielens-1m biclique -p 4 -q 4" "movielens-100k-5-6=movielens-100k biclique -p 5 -q 6" \
    "movielens-100k-5-5=movielens-100k biclique -p 5 -q 5" "movielens-1m-3-3-per-vertex=movielens-1m biclique -p 3 -q 3 --per vertex" \
    "yelp2018-maximal=yelp2018 maximal-biclique" "facebook-maximal=facebook_combined maximal-clique" \
    "facebook-every-k=facebook_combined clique --all-k" "facebook-9=facebook_combined clique -k 9" \
    "senate-maximal=senate maximal-biclique" "movielens-1m-4-3=movielens-1m biclique -p 4 -q 3" \
    "yelp2018-6-6=yelp2018 biclique -p 6 -q 6" "rmat-per-vertex=rmat butterfly --per vertex"
step hubs timeout 90 python3 -m benchmarks.butterfly --engine gpu --data "$data" --hub-tiles 0 1 16 --per vertex --repeats 3 \
    --cases movielens-1m --rmat 16,3e7 --stores "$out/stores/rmat"
step long timeout 120 python3 -m benchmarks.scaling_gpu --stores "$out/stores" --output "$out/long" --workers 1,2 --repeat 1 \
    "movielens-100k-6-6=movielens-100k biclique -p 6 -q 6" "movielens-1m-4-5=movielens-1m biclique -p 4 -q 5"
step longer timeout 300 python3 -m benchmarks.scaling_gpu --stores "$out/stores" --output "$out/longer" --workers 2,1 --repeat 1 --no-warm-up \
    "movielens-1m-5-5=movielens-1m biclique -p 5 -q 5"
make_large_rmat() {
    mkdir -p "$out/stores"
    [ -e "$out/stores/large-rmat" ] ||
        python3 -m papilio generate rmat "$out/stores/large-rmat" --scale-u 17 --scale-v 17 --edges 3000000000 --seed 1
}
step large_rmat make_large_rmat
step large_rmat timeout 200 python3 -m benchmarks.scaling_gpu --stores "$out/stores" --output "$out/large-rmat" --workers 1,2 --repeat 1 \
    --no-warm-up "large-rmat-per-vertex=large-rmat butterfly --per vertex"
step cpus timeout 120 python3 -m benchmarks.scaling_gpu --engine cpu --stores "$out/stores" --output "$out/cpus" --workers 1,2,4 --repeat 3 \
    "movielens-100k-4-4=movielens-100k biclique -p 4 -q 4" "senate-maximal=senate maximal-biclique" \
    "facebook-8-cliques=facebook_combined clique -k 8"
step cluster python3 -m benchmarks.end_to_end --cluster cuda --output "$out/end-to-end.json"
exit "$status"
