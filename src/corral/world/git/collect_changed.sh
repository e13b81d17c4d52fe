# Run on the agent's side, in its box, where corral knows which paths have changed: costs what they cost, whatever the
# size of the repository. All that is not plain is left to collect.sh: then this ends with code 4 and has changed nothing.
# usage: sh collect_changed.sh MESSAGE BASE OUT     OUT holds `there` and `gone` (a path on each line), and the `index`
git() {
    command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false \
        -c core.excludesFile=/dev/null -c core.quotePath=false "$@"
}
message=$1 base=$2 out=$3
export LC_ALL=C
[ -d .git ] && [ ! -L .git ] && [ ! -L .git/info ] || exit 4
for sign in worktrees MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply index.lock HEAD.lock; do
    [ ! -e .git/$sign ] || exit 4
done
grep -qx '\.gitignore' "$out/there" "$out/gone" && exit 4 # rules that are new may hide work
mkdir -p .git/info && rm -rf .git/info/exclude && printf %s "$rules" >.git/info/exclude || exit 4
head=$(git rev-parse -q --verify "HEAD^{commit}") || exit 4
git check-ignore --stdin <"$out/there" >"$out/ignored"
[ $? -le 1 ] || exit 4
sort "$out/there" >"$out/all" && sort "$out/ignored" | comm -23 "$out/all" - >"$out/work" || exit 4
GIT_INDEX_FILE=$out/index git update-index --force-remove --stdin <"$out/gone" || exit 4
GIT_INDEX_FILE=$out/index git update-index --add --remove --replace --stdin <"$out/work" || exit 4
tree=$(GIT_INDEX_FILE=$out/index git write-tree) || exit 4
if [ "$tree" != "$(git rev-parse "$head^{tree}")" ]; then
    commit=$(git commit-tree "$tree" -p "$head" -m "$message") && git update-ref HEAD "$commit" "$head" || exit 4
fi
stash=
[ -e .git/refs/stash ] && stash=refs/stash
said=$(git bundle create -q "$out/work.bundle" HEAD --branches $stash "^$base" 2>&1) && exit 0
case $said in *"empty bundle"*) exit 0 ;; esac
exit 4
