# Sourced by the scripts beside it, which set `scripts` (their folder) and `extra` ("" or "test").
# Sets `checkout`, `environment` and `python`, and calls environment.py unless the environment is fresh.

checkout=$(dirname -- "$scripts")
environment=${NNC_VENV:-$checkout/.venv}
case $environment in
    /*) ;;
    *) environment=$PWD/$environment ;;
esac
python=$environment/bin/python

# Fresh: the stamp equals, byte for byte, what environment.py would write now. No Python starts up for this.
is_fresh() {
    {
        printf '%s\n' "$checkout" "$environment"
        "$python" -V
        cat -- "$checkout/pyproject.toml" "$scripts/environment.py"
    } 2>/dev/null | cmp -s - "$environment/nnc-environment${extra:+-$extra}.stamp"
}

# find_python: prints the first Python >= 3.11 on PATH that can make environments, or tells why there is none.
find_python() {
    incomplete=
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return 0
        fi
        incomplete=${incomplete:-$candidate}
    done
    if [ -n "$incomplete" ]; then
        echo "${0##*/}: $incomplete cannot make environments (no ensurepip). Fix: install python3-venv (Debian, Ubuntu: apt install python3-venv)." >&2
    else
        echo "${0##*/}: need Python >= 3.11 as python3 or python3.11 to python3.14 on PATH; found none. Fix: install one from python.org or your system." >&2
    fi
    return 1
}

if ! is_fresh; then
    maker=$(find_python) || exit 1
    "$maker" -I "$scripts/environment.py" "${0##*/}" "$checkout" "$environment" "$extra" </dev/null >&2 || exit
fi
