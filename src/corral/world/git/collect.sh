# Run on the agent's side, in its box: what it left is committed, and all its commits leave as bundles.
# usage: sh tidy.sh + collect.sh MESSAGE BASE OUT [SUBMODULE COMMIT]...      (inner submodules first)
git() {
    command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false \
        -c core.excludesFile=/dev/null "$@"
}
git_here() { git "$@"; }
message=$1 base=$2 out=$3
shift 3

# fail unless what git said holds one of these words
unless() {
    for word; do case $said in *"$word"*) return 0 ;; esac; done
    echo "$said" >&2
    exit 3
}

# remove what is there already; `rm` is not even started where nothing is
vacate() {
    for path; do [ ! -e "$path" ] && [ ! -L "$path" ] || rm -rf "$path"; done
}

# remove the locks of gits that were ended in the middle: nobody else is at work here, and no ref ends with .lock
unlock() {
    [ -L .git ] || find .git/*.lock .git/worktrees/*/*.lock .git/refs -name '*.lock' -prune -exec rm -rf {} + 2>/dev/null
}
unlocked=

# add what can be added, and list what cannot: a name that git refuses, a file that cannot be read
add_rest() {
    unlock
    chmod -R u+rwX . 2>/dev/null
    rm -rf .git/index && { git read-tree HEAD || git read-tree --empty; } 2>/dev/null || return 1
    said=$(git add -A --ignore-errors 2>&1) && return 0
    case $said in *"fatal: "*encod*) # rules of the agent's that its files do not fit: they are kept as they are
        echo "the encodings that its .gitattributes names: files are stored as they are" >>"$out/left"
        rm -rf .git/info/attributes && mkdir -p .git/info && echo '* !working-tree-encoding' >.git/info/attributes
        said=$(git add -A --ignore-errors 2>&1) && return 0
        ;;
    esac
    case $said in *"fatal: "*) case $said in *"adding files failed"*) ;; *) return 1 ;; esac ;; esac
    leave "^error: "
}

# Put the rules that corral wrote back: the agent may have written others, and lost its own work by them.
own_rules() {
    [ -n "$rules" ] && [ ! -L .git ] && [ -d .git ] || return 0
    [ ! -L .git/info ] || rm -f .git/info
    [ ! -L .git/info/exclude ] && [ -f .git/info/exclude ] && [ -w .git/info/exclude ] || rm -rf .git/info/exclude
    [ -d .git/info ] || mkdir -p .git/info
    printf %s "$rules" >.git/info/exclude
} 2>/dev/null

# When nothing has changed, or only the rules have: look for work that rules hide which the base does not have. The
# .gitignore at the top alone: one that hides a folder together with itself is how tools mark their caches.
unhide() {
    [ -f .gitignore ] && [ ! -L .gitignore ] || return 0
    changed=$(git diff --cached --name-only "${1:-$(git hash-object -t tree /dev/null)}" --) || return 0
    case $changed in "" | .gitignore) ;; *) return 0 ;; esac
    mv -f .gitignore "$out/gitignore" || return 0
    { [ -n "$1" ] && git cat-file blob "$1:.gitignore" >.gitignore; } || rm -f .gitignore
    hidden=$(git ls-files --others --exclude-standard | head -n $((MOST_HIDDEN + 1)) | wc -l)
    if [ "$hidden" -gt $MOST_HIDDEN ]; then
        echo "more than $MOST_HIDDEN files that only its own .gitignore hides" >>"$out/left"
    elif [ "$hidden" -gt 0 ] && [ -z "$changed" ]; then
        git add -A --ignore-errors
    elif [ "$hidden" -gt 0 ]; then # its rules are a change like others; what they hide is kept beside it
        cp .git/index "$out/index" && GIT_INDEX_FILE=$out/index git add -A --ignore-errors
        tree=$(GIT_INDEX_FILE=$out/index git write-tree) && kept=$(git commit-tree "$tree" ${1:+-p "$1"} -m "$message") &&
            git update-ref refs/heads/ignored-files "$kept"
    fi
    mv -f "$out/gitignore" .gitignore
    [ -n "$changed" ] || [ "$hidden" -eq 0 ] || git add -f .gitignore
} >/dev/null 2>&1
MOST_HIDDEN=1000

# list what git complained of, and continued
leave() {
    printf '%s\n' "$said" | grep "$1" | sed 's/^[a-z]*: //' | cut -c 1-300 | head -n 20 >>"$out/left"
}

# commit what is left in a repository and bundle all it has beyond a commit: its branches and its stash too
collect() (
    cd "$1" || exit 3
    vacate "$3.lock" "$3"
    [ "$1" = "$unlocked" ] || unlock
    said=$(git add -A 2>&1) || add_rest || unless "no error"
    case $said in *"could not open "*) leave "could not open " ;; esac
    [ "$1" != . ] || unhide "$2"
    said=$(git commit --no-verify -q -m "$message" 2>&1) || unless "nothing" "no changes"
    stash=
    [ -e .git/refs/stash ] && stash=refs/stash
    said=$(git bundle create -q "$3" HEAD --branches $stash ${2:+"^$2"} 2>&1) && return
    case $said in *"argument 'HEAD'"*) # an empty repository in which nothing was committed
        said=$(git bundle create -q "$3" --branches $stash 2>&1) && return
        ;;
    esac
    unless "empty bundle"
)

inner=
number=0
for word; do
    number=$((number + 1))
    [ $((number % 2)) = 0 ] || inner="$inner ./$word/.git"
done
vacate "$out/left"
own_rules
odd=
! is_odd || odd=1
[ -z "$odd" ] || [ -L .git ] || tidy .git/info/exclude "$out/left"
number=0
while [ $# -gt 1 ]; do
    collect "./$1" "$2" "$out/module-$number.bundle" || exit 3
    number=$((number + 1))
    shift 2
done

[ -z "$odd" ] || unlock
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

[ -z "$odd" ] || unnest $inner
collect . "$base" "$out/work.bundle"
