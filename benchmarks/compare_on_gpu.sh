#!/usr/bin/env bash
# Two versions of the package on one GPU, benchmark by benchmark, each version twice in turn.
#
#   benchmarks/compare_on_gpu.sh BASE DATA OUT [STEP ...]
#
# BASE is a tree of the earlier version (papilio/ and benchmarks/), DATA holds bipartite/ and unipartite/. Each benchmark
# runs from its own tree; OUT gets <step>-<version>-<turn>.log. Steps: butterfly, biclique, clique, maximal, listing,
# answer; without names all run. The steps go on after a failure; the exit status is that of the first that failed.
set -uo pipefail
new=$(cd "$(dirname "$0")/.." && pwd)
base=$(cd "$1" && pwd) data=$(cd "$2" && pwd)
mkdir -p "$3"
out=$(cd "$3" && pwd)
shift 3
steps=${*:-butterfly biclique clique maximal listing answer}
site=${PYTHONPATH:-}
status=0

# Run a benchmark from both trees, the earlier one first.
both() {
    local name=$1 turns=$2
    shift 2
    case " $steps " in *" $name "*) ;; *) return ;; esac
    for turn in $(seq "$turns"); do
        for version in base new; do
            local began=$SECONDS
            (cd "${!version}" && PYTHONPATH=${!version}:$site timeout 120 "$@") >"$out/$name-$version-$turn.log" 2>&1
            local code=$?
            echo "== $name, $version, turn $turn: exit $code after $((SECONDS - began)) s"
            [ "$code" -eq 0 ] || tail -n 5 "$out/$name-$version-$turn.log"
            [ "$status" -ne 0 ] || status=$code
        done
    done
}

# The answers of a user are measured on stores of each version.
answer() {
    case " $steps " in *" answer "*) ;; *) return ;; esac
    for version in base new; do
        mkdir -p "/tmp/stores-$version"
        for name in bipartite/yelp2018 unipartite/facebook_combined; do
            (cd "${!version}" && PYTHONPATH=${!version}:$site python3 -m papilio convert "$data/$name.txt.gz" \
                "/tmp/stores-$version/${name#*/}" --overwrite \
                $([ "${name%/*}" = unipartite ] && echo --unipartite)) >>"$out/stores.log" 2>&1 ||
                { status=1; tail -n 5 "$out/stores.log"; }
        done
        (cd "${!version}" && PYTHONPATH=${!version}:$site timeout 200 python3 -m benchmarks.time_to_answer \
            "/tmp/stores-$version/"*) >"$out/answer-$version.log" 2>&1
        local code=$?
        echo "== answer, $version: exit $code"
        [ "$status" -ne 0 ] || status=$code
    done
}

both butterfly 2 python3 -m benchmarks.butterfly --engine gpu --data "$data"
both biclique 2 python3 -m benchmarks.biclique_gpu --data "$data"
both clique 2 python3 -m benchmarks.clique_gpu --plain --data "$data"
both maximal 2 python3 -m benchmarks.maximal_gpu --data "$data" --graphs marvel youtube-groupmemberships senate
both listing 2 python3 -m benchmarks.listing_gpu --data "$data" --cases senate epinions facebook-4
answer
exit "$status"
