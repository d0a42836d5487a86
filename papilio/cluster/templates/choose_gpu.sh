# shellcheck disable=SC2016  # Each task expands it.
choose_gpu='
    IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:?Slurm gave this worker no GPU}"
    export CUDA_VISIBLE_DEVICES=${gpus[$SLURM_LOCALID]:?this node gave fewer GPUs than it has workers}
    exec "$@"'
