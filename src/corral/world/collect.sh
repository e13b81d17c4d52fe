# Run on the agent's side, in its box: what it left is committed, and all its commits leave as bundles.
# usage: sh collect.sh MESSAGE BASE OUT [SUBMODULE COMMIT]...      (inner submodules first)
git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false "$@"; }
message=$1 base=$2 out=$3
shift 3

# fail unless what git said holds one of these words
unless() {
    for word; do case $said in *"$word"*) return 0 ;; esac; done
    echo "$said" >&2
    exit 3
}

# remove the locks of gits that were ended in the middle: nobody else is at work here, and no ref ends with .lock
unlock() {
    [ -L .git ] || find .git/*.lock .git/worktrees/*/*.lock .git/refs -name '*.lock' -prune -exec rm -rf {} + 2>/dev/null
}
unlocked=

# commit what is left in a repository and bundle all it has beyond a commit: its branches and its stash too
collect() (
    cd "$1" || exit 3
    if [ -e "$3.lock" ] || [ -L "$3.lock" ]; then rm -rf "$3.lock"; fi
    [ "$1" = "$unlocked" ] || unlock
    said=$(git add -A 2>&1) || {
        unlock
        rm -f .git/index && git read-tree HEAD && said=$(git add -A 2>&1)
    } || unless "no error"
    said=$(git commit --no-verify -q -m "$message" 2>&1) || unless "nothing" "no changes"
    stash=
    [ -e .git/refs/stash ] && stash=refs/stash
    said=$(git bundle create -q "$3" HEAD --branches $stash ${2:+"^$2"} 2>&1) || unless "empty bundle"
)

known=" "
number=0
while [ $# -gt 1 ]; do
    collect "./$1" "$2" "$out/module-$number.bundle" || exit 3
    known="$known./$1/.git "
    number=$((number + 1))
    shift 2
done

unlock
unlocked=.
# A second work tree of this repository that the agent made: what is left in it is committed, on a branch that leaves too.
[ -d .git/worktrees ] && git worktree list --porcelain 2>/dev/null | sed -n 's/^worktree //p' | tail -n +2 |
    while IFS= read -r tree; do
        (
            cd "$tree" || exit
            git add -A && git commit --no-verify -q -m "$message"
            git symbolic-ref -q HEAD || git branch -f "worktree/$(basename "$tree")" HEAD
        ) >/dev/null 2>&1
    done

# A repository that the agent made inside is not ours to keep as one: its files are the work.
find . -mindepth 2 -name .git -prune | while IFS= read -r inner; do
    case $known in *" $inner "*) ;; *) mkdir -p "$HOME/.nested" && mv "$inner" "$(mktemp -d -p "$HOME/.nested")" ;; esac
done

collect . "$base" "$out/work.bundle"
